"""The `meshgen` command. A user's error is reported as a message, never as a traceback.

Exit codes: 0 ok; 1 program refused; 2 usage; 3 numbers differ, or grew more than diff --fail-on allows; 4 run-time
failure; 5 a dependency or device is missing; 70 internal error, with a reproducer's path; 130 interrupted.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from meshgen import IMPORTED_AT
from meshgen.commands.diagnostics import FORMATS, HELP, record, run_with_diagnostics
from meshgen.commands.settings import parse_configured, settings
from meshgen.commands.streams import only_documents, open_missing, write_err, write_out
from meshgen.errors import (
    Diagnostic,
    MeshgenError,
    MissingError,
    ProgramError,
    RuntimeFailure,
    UsageError,
    location_in_program,
)
from meshgen.gc_pace import infrequent_gc
from meshgen.names import nearest_names
from meshgen.packages import install_line, report_request
from meshgen.printable import printable
from meshgen.reproducers import MOST_BYTES, save_reproducer

COMMANDS = {
    "compile": "compile a program into a deployable module (.mgx)",
    "run": "run a module on all ranks",
    "check": "compare the partitioned program on simulated ranks with the unpartitioned one",
    "opt": "run passes on a program in text form",
    "search": "find the shardings of arguments with the shortest step",
    "explain": "explain each collective and sharding",
    "inspect": "show the contents of a module",
    "report": "write an HTML report of a program",
    "simulate": "predict a step of all ranks on a machine",
    "tune": "measure candidates of a module's kernels on a GPU, and take the best",
    "native": "add a launch table to a module, so that programs without Python can run it",
    "sign": "sign a module with an ed25519 key",
    "verify": "check a module, and that a key has signed it",
    "diff": "compare two modules (.mgx)",
    "bench": "measure kernels, collectives, launches, modules, compiling and plans; compare two runs",
    "doctor": "check the environment, and list the options that a project sets",
    "completion": "print a script that completes commands and options in a shell",
}
JSON_HELP = "print one JSON document; output of a Python program goes to stderr"
INTERNAL_ERROR, INTERRUPTED = 70, 130
# holds the start time of the first command in this process, which includes imports. Empty for later commands
_STARTED = [IMPORTED_AT]


@dataclass
class Invocation:
    """A command line, with the options that determine how a failure is reported. Before parsing, their values are
    guessed from the words.
    """

    words: Sequence[str]
    as_json: bool
    program: str = ""


class Finished(Exception):
    """Raised to end the command. The argument is the exit code."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that reports bad arguments as diagnostics, and never exits the process."""

    def refuse_unknown(self, words: Sequence[str]) -> None:
        """Check for unknown options before parsing.

        For a misspelled required option, argparse would only report that the required option is missing.

        Raises:
            UsageError: MG0001 for an unknown option.
        """
        known_options = [option for action in self._actions for option in action.option_strings]
        options = words[: words.index("--")] if "--" in words else words
        for word in (word.partition("=")[0] for word in options if word.startswith("--")):
            if not any(option.startswith(word) for option in known_options):
                similar_options = nearest_names(word, known_options, most=1)
                hint = f"did you mean {similar_options[0]}? " if similar_options else ""
                raise UsageError(Diagnostic("MG0001", f"unknown option {word}", hint=f"{hint}see {self.prog} --help"))

    def error(self, message: str) -> NoReturn:
        raise UsageError(Diagnostic("MG0001", message, hint=f"see {self.prog} --help"))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise Finished(status)

    def print_help(self, file: Any = None) -> None:
        write_out(self.format_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    began = _STARTED.pop() if _STARTED else time.perf_counter()
    words = list(sys.argv[1:] if argv is None else argv)
    called = Invocation(words, "--json" in words)
    open_missing()
    try:
        code = _dispatch(called, began)
        write_out()  # the user's program may have left output in the buffer
        return code
    except Finished as finished:
        return finished.args[0]
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            return INTERRUPTED
        user_error = _as_user_error(error, called)
        return _report_error(user_error, called.as_json) if user_error else _internal(error, called)


def _dispatch(called: Invocation, began: float) -> int:
    words = called.words
    if words and words[0] in COMMANDS:
        return _run(words[0], words[1:], began, called)
    if words and not words[0].startswith("-"):
        similar_commands = nearest_names(words[0], COMMANDS, 1)
        hint = f"did you mean '{similar_commands[0]}'? " if similar_commands else ""
        hint += f"the commands are {', '.join(COMMANDS)}; see meshgen --help"
        raise UsageError(Diagnostic("MG0001", f"unknown command '{words[0]}'", hint=hint))
    parser = Parser(prog="meshgen", description="SPMD compiler: one-device tensor programs on a mesh of devices.")
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, purpose in COMMANDS.items():
        commands.add_parser(name, help=purpose)
    if not parser.parse_args(words).version:
        parser.error("a command is missing")
    from meshgen import __version__

    write_out(f"meshgen {__version__}\n")
    return 0


def _run(command: str, words: Sequence[str], began: float, called: Invocation) -> int:
    """Run a command, importing only its own module. Options may come before, between and after positional arguments.

    The parsed options get the start time `began` (`time.perf_counter`) and the `words`. `called` is updated with the
    options that determine how a failure is reported.
    """
    parser = Parser(prog=f"meshgen {command}", description=COMMANDS[command])
    atexit.register(gc.freeze)  # at exit, skip the collection of cycles: the process ends anyway
    with infrequent_gc():
        module = import_module(f"meshgen.commands.{command}")
    module.add_arguments(parser)
    add_common(parser)
    parser.refuse_unknown(words)
    options = parse_configured(command, parser, words, settings(tuple(COMMANDS)))
    options.began, options.words = began, words
    called.as_json, called.program = options.json, getattr(options, "program", None) or ""
    from meshgen.commands.output import Output

    output = Output(options.json)
    with only_documents() if options.json else contextlib.nullcontext():
        if options.diagnostics == "text":
            return module.run(options, output)
        return run_with_diagnostics(
            options.diagnostics,
            output,
            lambda: module.run(options, output),
            lambda error: _as_user_error(error, called),
        )


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options that all commands have."""
    parser.add_argument("--json", action="store_true", help=JSON_HELP)
    parser.add_argument("--diagnostics", choices=FORMATS, default="text", help=HELP)


def _report_error(error: MeshgenError, as_json: bool) -> int:
    """Write all diagnostics of an error, and return the exit code."""
    write_err(printable(f"{error}\n"))
    if as_json:
        diagnostics = [record(diagnostic) for diagnostic in error.diagnostics]
        _write_failure({"ok": False, "exit_code": error.exit_code, "diagnostics": diagnostics})
    return error.exit_code


def _write_failure(document: dict[str, Any]) -> None:
    """Write the JSON document about a failure. A failure to write it is ignored."""
    try:
        write_out(json.dumps(document, indent=1) + "\n")
    except UsageError as error:
        write_err(f"{error}\n")


def _as_user_error(error: BaseException, called: Invocation) -> MeshgenError | None:
    """Convert an exception to the error to report to the user, if the program, the installation or the machine caused
    it. Returns None for an internal error.
    """
    if isinstance(error, MeshgenError):
        return error
    if isinstance(error, ImportError) and not (error.name or "meshgen.").startswith("meshgen."):
        return _missing_dependency(error.name or "", "" if isinstance(error, ModuleNotFoundError) else str(error))
    if program_error := _as_program_error(error, called.program):
        return program_error
    if isinstance(error, MemoryError):
        text = str(error) or "an allocation failed"
        return RuntimeFailure(Diagnostic("MG0005", f"not enough memory: {text}", hint="try smaller sizes"))
    if isinstance(error, RecursionError):
        hint = "reduce the depth of nested calls and regions"
        return ProgramError(Diagnostic("MG0006", "the program is nested too deeply", hint=hint))
    if isinstance(error, OSError):
        where = f"'{error.filename}': " if error.filename else ""
        return RuntimeFailure(Diagnostic("MG0604", f"the operating system refuses: {where}{error.strerror or error}"))
    return None


def _missing_dependency(module: str, why: str = "") -> MissingError:
    """Return the error for a dependency that is not installed or cannot be imported."""
    name = module.partition(".")[0]
    text = f"the Python package '{name}' " + (f"cannot be imported: {why}" if why else "is not installed")
    return MissingError(
        Diagnostic("MG0602", text, hint=f"{install_line(name)}; meshgen doctor shows what else is missing")
    )


def _as_program_error(error: BaseException, program: str) -> MeshgenError | None:
    """Convert an exception of the user's Python program to an error with the source line that raised it.

    Returns None if meshgen's own code raised it.
    """
    is_python = ":" in program and program.partition(":")[0] in sys.modules
    location = location_in_program(error) if is_python else None
    if location is None:
        return None
    return ProgramError(Diagnostic("MG0105", f"the program raises {type(error).__name__}: {error}", location))


def _internal(error: BaseException, called: Invocation) -> int:
    """Save a reproducer of an internal error, and report the path of the reproducer."""
    import shlex
    import traceback

    files = {
        "command.txt": f"meshgen {shlex.join(called.words)}\n",
        "traceback.txt": "".join(traceback.format_exception(error)),
    }
    directory = save_reproducer(
        {name: text.encode(errors="backslashreplace") for name, text in files.items()} | _inputs(called.words)
    )
    summary = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    hint = report_request(str(directory) if directory else "the command")
    write_err(printable(f"internal error: {summary}\n  help: {hint}\n"))
    if called.as_json:
        reproducer = str(directory) if directory else None
        _write_failure({"ok": False, "exit_code": INTERNAL_ERROR, "reproducer": reproducer, "message": summary})
    return INTERNAL_ERROR


def _inputs(words: Sequence[str]) -> dict[str, bytes]:
    """Return the first bytes of each input file in `words`, for a reproducer."""
    contents: dict[str, bytes] = {}
    for index, word in enumerate(words):
        try:
            source = Path(word)
            if source.suffix in (".mlir", ".mgx") and source.is_file():
                with open(source, "rb") as file:
                    contents[f"input{index}{source.suffix}"] = file.read(MOST_BYTES)
        except (OSError, ValueError):
            continue
    return contents


if __name__ == "__main__":
    sys.exit(main())
