"""`meshgen completion`: print a script with which a shell completes commands, options and their values."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from meshgen.commands.output import Output

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", choices=SHELLS, help='print the script for this shell; use it as in eval "$(meshgen completion bash)"'
    )


def run(options: argparse.Namespace, output: Output) -> int:
    import shtab

    script: Any = shtab.complete(full_parser(), options.shell)
    output.text(script.rstrip("\n"))
    output.document({"shell": options.shell, "script": script})
    return 0


def full_parser() -> argparse.ArgumentParser:
    """Return a parser with all commands and their options. In the completion script, arguments that are files complete
    to file names.
    """
    import shtab

    from meshgen.cli import COMMANDS, add_common

    parser = argparse.ArgumentParser(prog="meshgen")
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command")
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose)
        import_module(f"meshgen.commands.{name}").add_arguments(command)
        add_common(command)
        for action in command._actions:
            if action.nargs != 0 and not action.choices and _is_file(action):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return parser


def _is_file(action: argparse.Action) -> bool:
    """Whether an argument is a file, judging by its name in the usage line: IN, OUT.mgx, FILE.json, DIR, ..."""
    name = str(action.metavar or "")
    return name in ("IN", "FILE", "DIR", "HTML", "PEM") or "." in name
