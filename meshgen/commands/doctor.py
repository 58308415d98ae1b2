"""`meshgen doctor`: which parts of the environment are installed, how to install the rest, and which options the project sets."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import sys
from typing import Any

from meshgen.commands.output import Output
from meshgen.commands.packages import EXTRAS, NEEDS
from meshgen.commands.settings import settings
from meshgen.errors import MissingError
from meshgen.reports.tables import table_of

COLUMNS = ("package", "version", "", "needed for", "get it with")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (parser.description or "") + "; exit code 5 if something that compiling needs is missing"


def run(options: argparse.Namespace, output: Output) -> int:
    rows = [_state(name, True) for name in NEEDS] + [_state(name, False) for name in EXTRAS]
    cells = [
        (r["package"], r["version"] or "missing", "" if r["required"] else "extra", r["needed_for"], r["install"])
        for r in rows
    ]
    title = f"Python {platform.python_version()} on {sys.platform} {platform.machine()}"
    output.tables(table_of(title, COLUMNS, cells, left=COLUMNS[1:]))
    from meshgen.cli import COMMANDS  # it starts this command

    given = settings(tuple(COMMANDS))
    if given:
        told = [
            (f"meshgen {each.command or '...'}", f"--{each.option}", str(each.value), f"{each.file}: {each.key}")
            for each in given
        ]
        output.tables(
            table_of(
                "Options that the project sets",
                ("command", "option", "value", "from"),
                told,
                left=("command", "option", "value", "from"),
            )
        )
    missing = [r["package"] for r in rows if r["required"] and not r["version"]]
    cache = _cache_directory()
    output.text(f"kernel cache: {cache}")
    if missing:
        output.note(f"missing: {', '.join(missing)}")
    output.document({"python": platform.python_version(), "packages": rows, "missing": missing, "kernel_cache": cache,
                     "settings": {each.key: each.value for each in given}})  # fmt: skip
    return MissingError.exit_code if missing else 0


def _state(name: str, required: bool) -> dict[str, Any]:
    purpose, line = (NEEDS if required else EXTRAS)[name]
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    return {
        "package": name,
        "version": version,
        "required": required,
        "needed_for": purpose,
        "install": "" if version else line,
    }


def _cache_directory() -> str:
    """The directory of the kernel cache, or why there is none."""
    from meshgen.codegen.cache import Cache

    cache = Cache()
    return cache.warning.message if cache.warning else str(cache.directory)
