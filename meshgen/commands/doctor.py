"""`meshgen doctor`: report installed packages, how to install missing ones, usable hardware, and the project's options."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from meshgen.commands.settings import Setting, settings
from meshgen.errors import MissingError
from meshgen.packages import CORE, EXTRAS, RUNTIME, allows, install_command, name_of
from meshgen.reports.tables import Table, table_of

# the devices of `run --device`, repeated here because `run` imports NumPy
DEVICES = ("reference", "interpret", "emulate", "cuda")
COLUMNS = ("package", "version", "", "needed for", "get it with")


@dataclass(frozen=True)
class Package:
    """A package that meshgen uses.

    Attributes:
        extra: the extra of `pyproject.toml` that contains the package; empty if every compilation requires it.
        version: the installed version; empty if it is not installed.
    """

    requirement: str
    purpose: str
    extra: str
    version: str

    @property
    def name(self) -> str:
        return name_of(self.requirement)

    @property
    def is_too_old(self) -> bool:
        """Whether the installed version is outside the range that `pyproject.toml` allows, which usually means too
        old.
        """
        return bool(self.version) and not allows(self.requirement, self.version)

    @property
    def is_usable(self) -> bool:
        return bool(self.version) and not self.is_too_old

    @property
    def install(self) -> str:
        """Return the command that installs the package and its optional dependencies, or "" if the package is
        usable.
        """
        companions = [requirement for requirement, purpose in EXTRAS.get(self.extra, {}).items() if not purpose]
        return "" if self.is_usable else install_command([self.requirement, *companions])

    @property
    def state(self) -> str:
        if self.is_too_old:
            return f"{self.version}: not {self.requirement.removeprefix(self.name)}"
        return self.version or "missing"

    def record(self) -> dict[str, Any]:
        return {"package": self.name, "version": self.version, "required": not self.extra, "requirement": self.requirement,
                "usable": self.is_usable, "needed_for": self.purpose, "install": self.install}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (parser.description or "") + "; exit code 5 if something that compiling needs is missing"
    parser.add_argument(
        "--run",
        choices=DEVICES,
        nargs="?",
        const=DEVICES[0],
        metavar="DEVICE",
        help="report whether modules can run on this machine; exit with code 5 if DEVICE cannot run them, one of "
        f"{', '.join(DEVICES)} (default: {DEVICES[0]}); the compiler need not be installed",
    )


def run(options: argparse.Namespace, output: Output) -> int:
    packages = [*packages_of(CORE, ""), *(row for extra in _extras() for row in packages_of(EXTRAS[extra], extra))]
    from meshgen.cli import COMMANDS  # circular import: `cli` starts this command

    project, machine, engines = settings(tuple(COMMANDS)), _machine(), _engine_faults(packages)
    cache = _cache_directory()
    title = f"Python {platform.python_version()} on {sys.platform} {platform.machine()}"
    cells = [(row.name, row.state, "extra" if row.extra else "", row.purpose, row.install) for row in packages]
    output.tables(table_of(title, COLUMNS, cells, left=COLUMNS[1:]))
    if project:
        output.tables(_settings_table(project))
    output.tables(table_of("This machine", ("", ""), [*machine.items()], left=("",)))
    lines = [(f"run --device {name}", why or "yes") for name, why in engines.items()]
    output.tables(table_of("What can run modules", ("", ""), lines, left=("",)))
    output.text(f"kernel cache: {cache}")
    missing = [row.name for row in packages if not row.extra and not row.is_usable]
    _print_notes(packages, missing, engines, options.run, output)
    output.document({"python": platform.python_version(), "packages": [row.record() for row in packages], "missing": missing,
                     "kernel_cache": cache, "machine": machine, "devices": {name: not why for name, why in engines.items()},
                     "settings": {setting.key: setting.value for setting in project}})  # fmt: skip
    missing_requirements = engines[options.run] if options.run else missing
    return MissingError.exit_code if missing_requirements else 0


def _print_notes(
    packages: Sequence[Package], missing: Sequence[str], engines: Mapping[str, str], device: str | None, output: Output
) -> None:
    """Write notes about missing packages that the requested purpose needs, and about packages of unsupported
    versions.
    """
    for row in packages:
        if row.is_too_old:
            output.note(
                f"note: {row.name} {row.version} is installed, but meshgen needs {row.requirement}: {row.install}"
            )
    if device and engines[device]:
        output.note(f"modules cannot run with --device {device}: {engines[device]}")
    elif missing and not device:
        output.note(f"missing: {', '.join(missing)}")
        if not engines[DEVICES[0]]:
            output.note("note: modules can run without them: meshgen doctor --run")


def packages_of(requirements: Mapping[str, str], extra: str) -> list[Package]:
    return [
        Package(requirement, purpose, extra, version_of(name_of(requirement)))
        for requirement, purpose in requirements.items()
        if purpose
    ]


def _extras() -> list[str]:
    """Return the extras to list. Of the extras for CUDA 12 and CUDA 13, only the one with more installed packages is
    included.
    """
    installed = {
        extra: sum(row.is_usable for row in packages_of(EXTRAS[extra], extra)) for extra in ("cuda12", "cuda13")
    }
    other = "cuda12" if installed["cuda13"] > installed["cuda12"] else "cuda13"
    return [extra for extra in EXTRAS if extra != other]


def _engine_faults(packages: Sequence[Package]) -> dict[str, str]:
    """Map each device of `run --device` to the reason why it cannot be used, or to "" if it can."""
    unusable = {row.name: f"{row.name} is {row.state}" for row in packages if not row.is_usable}
    base = "; ".join(unusable[name] for name in RUNTIME if name in unusable)
    reasons: dict[str, str] = dict.fromkeys(DEVICES, base)
    if not base:
        reasons["interpret"] = unusable.get("triton", "")
        reasons["cuda"] = gpu_facts().get("fault", "")
    return reasons


def _settings_table(project_settings: Sequence[Setting]) -> Table:
    columns = ("command", "option", "value", "from")
    cells = [
        (
            f"meshgen {setting.command or '...'}",
            f"--{setting.option}",
            str(setting.value),
            f"{setting.file}: {setting.key}",
        )
        for setting in project_settings
    ]
    return table_of("Options that the project sets", columns, cells, left=columns)


def _machine() -> dict[str, str]:
    """Describe the processor, GPUs, driver, NCCL and MPI of this machine, each with the reason if it cannot be used."""
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


def _cache_directory() -> str:
    """Return the directory of the kernel cache, or the reason why there is none."""
    from meshgen.codegen.building.cache import Cache

    cache = Cache()
    return cache.warning.message if cache.warning else str(cache.directory)
