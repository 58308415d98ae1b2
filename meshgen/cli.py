"""The `meshgen` command: arguments in, exit code out. What a user did wrong is a message, never a traceback.

Exit codes: 0 ok; 1 program refused; 2 usage; 3 numbers differ; 4 run-time failure; 5 a dependency or device is
missing; 70 internal error, with a reproducer's path; 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from meshgen.errors import Diagnostic, MeshgenError, MissingError, UsageError, program_place

COMMANDS = {
    "compile": "compile a program into a deployable module (.mgx)",
    "run": "run a module on all ranks",
    "check": "compare the partitioned program with the unpartitioned one, on all ranks simulated",
    "opt": "run passes on a program in text form",
    "explain": "say why each collective and sharding is as it is",
    "inspect": "show what a module holds",
    "report": "write an HTML report of a program",
    "diff": "compare two modules (.mgx)",
    "bench": "measure kernels and collectives on GPUs",
    "doctor": "check the environment",
}
INTERNAL_ERROR, INTERRUPTED = 70, 130


class Parser(argparse.ArgumentParser):
    """Reports bad arguments as every other fault is reported."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(Diagnostic("MG0001", message, hint=f"see {self.prog} --help"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except MeshgenError as error:
        return _refused(error, "--json" in words)
    except ModuleNotFoundError as error:
        return _refused(_missing(error), "--json" in words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has enough: not a fault
        return 0
    except Exception as error:
        own = _of_program(error, words)
        return _refused(own, "--json" in words) if own else _internal(error, words)


def _dispatch(words: list[str]) -> int:
    if words and words[0] in COMMANDS:
        return _run(words[0], words[1:])
    parser = Parser(prog="meshgen", description="SPMD compiler: one-device tensor programs on a mesh of devices.")
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, purpose in COMMANDS.items():
        commands.add_parser(name, help=purpose)
    if not parser.parse_args(words).version:
        parser.error("which command?")
    from meshgen import __version__

    sys.stdout.write(f"meshgen {__version__}\n")
    return 0


def _run(command: str, words: list[str]) -> int:
    """Run a command. Only its own module is imported; options may stand before, between and behind what has no name."""
    parser = Parser(prog=f"meshgen {command}", description=COMMANDS[command])
    module = import_module(f"meshgen.commands.{command}")
    module.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_intermixed_args(words)
    from meshgen.commands.output import Output

    return module.run(options, Output(options.json))


def _refused(error: MeshgenError, as_json: bool) -> int:
    """Tell what is wrong, all of it, and return the exit code."""
    sys.stderr.write(f"{error}\n")
    if as_json:
        import json

        document = {"ok": False, "exit_code": error.exit_code, "diagnostics": [_record(d) for d in error.diagnostics]}
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    return error.exit_code


def _record(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "code": diagnostic.code,
        "message": diagnostic.message,
        "location": asdict(diagnostic.loc) if diagnostic.loc else None,
        "notes": [{"message": text, "location": asdict(loc) if loc else None} for text, loc in diagnostic.notes],
        "hint": diagnostic.hint,
    }


def _missing(error: ModuleNotFoundError) -> MeshgenError:
    """A dependency that is not installed; a module of meshgen's own that is absent is our fault."""
    if error.name is None or error.name.startswith("meshgen."):
        raise error
    name = error.name.partition(".")[0]
    return MissingError(
        Diagnostic(
            "MG0602",
            f"the Python package '{name}' is not installed",
            hint=f"pip install {name}; meshgen doctor shows what is missing",
        )
    )


def _of_program(error: Exception, words: Sequence[str]) -> MeshgenError | None:
    """What a user's Python function raised, as a fault of its line; None where it was none, or meshgen's own code."""
    named = any(":" in word and word.partition(":")[0] in sys.modules for word in words)
    place = program_place(error) if named else None
    if place is None:
        return None
    return UsageError(Diagnostic("MG0001", f"the program raises {type(error).__name__}: {error}", place))


def _internal(error: Exception, words: Sequence[str]) -> int:
    """Keep what is needed to reproduce our own fault, and say where."""
    place = Path(tempfile.mkdtemp(prefix="meshgen-reproducer-"))
    (place / "command.txt").write_text("meshgen " + " ".join(words) + "\n")
    (place / "traceback.txt").write_text("".join(traceback.format_exception(error)))
    for number, word in enumerate(words):
        source = Path(word)
        if source.suffix in (".mlir", ".mgx") and source.is_file():
            (place / f"input{number}{source.suffix}").write_bytes(source.read_bytes())
    summary = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    sys.stderr.write(f"internal error: {summary}\n  help: this is a fault of meshgen; please report it with {place}\n")
    if "--json" in words:
        import json

        sys.stdout.write(
            json.dumps({"ok": False, "exit_code": INTERNAL_ERROR, "reproducer": str(place), "message": summary}) + "\n"
        )
    return INTERNAL_ERROR


if __name__ == "__main__":
    sys.exit(main())
