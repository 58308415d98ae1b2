"""`meshgen doctor`: which packages are installed, how to install the rest, what of the machine can be used, and which options the project sets."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from meshgen.benchmarks.environment import (
    gpu_facts,
    memory_bytes,
    mpi_library,
    nvidia_smi_library,
    processor,
    version_of,
)
from meshgen.commands.output import Output
from meshgen.commands.packages import EXTRAS, NEEDS
from meshgen.commands.settings import Setting, settings
from meshgen.errors import MissingError
from meshgen.reports.tables import Table, table_of

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

    if given := settings(tuple(COMMANDS)):
        output.tables(_settings_table(given))
    missing = [r["package"] for r in rows if r["required"] and not r["version"]]
    cache, machine = _cache_directory(), _machine()
    output.tables(table_of("This machine", ("", ""), [(key, text) for key, text in machine.items()], left=("",)))
    output.text(f"kernel cache: {cache}")
    if missing:
        output.note(f"missing: {', '.join(missing)}")
    output.document({"python": platform.python_version(), "packages": rows, "missing": missing, "kernel_cache": cache,
                     "machine": machine, "settings": {each.key: each.value for each in given}})  # fmt: skip
    return MissingError.exit_code if missing else 0


def _settings_table(given: Sequence[Setting]) -> Table:
    columns = ("command", "option", "value", "from")
    told = [
        (f"meshgen {each.command or '...'}", f"--{each.option}", str(each.value), f"{each.file}: {each.key}")
        for each in given
    ]
    return table_of("Options that the project sets", columns, told, left=columns)


def _machine() -> dict[str, str]:
    """What runs programs: processor, GPUs, driver, NCCL, MPI; each with why it cannot be used."""
    facts = gpu_facts()
    memory = memory_bytes()
    return {
        "processor": f"{processor()}, {os.cpu_count()} cores, {memory / 2**30:.0f} GiB" if memory else processor(),
        "GPUs": ", ".join(facts.get("gpus", ())) or f"none: {facts['fault']}",
        "driver": facts.get("driver", "not found"),
        "NCCL": facts.get("nccl", "not found"),
        "MPI": mpi_library() or "not found",
        "NVML": nvidia_smi_library() or "not found",
    }


def _state(name: str, required: bool) -> dict[str, Any]:
    purpose, line = (NEEDS if required else EXTRAS)[name]
    version = version_of(name)
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
