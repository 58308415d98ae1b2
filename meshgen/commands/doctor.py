"""`meshgen doctor`: what of the environment is there, and how to get the rest."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import sys
from typing import Any

from meshgen.answers.tables import table_of
from meshgen.commands.output import Output
from meshgen.errors import MissingError

# package -> what needs it, and the line that installs it
NEEDS = {
    "numpy": ("everything", "pip install numpy"),
    "ml_dtypes": ("everything", "pip install ml_dtypes"),
    "rich": ("the command line", "pip install rich"),
    "xdsl": ("compiling", "pip install 'xdsl>=0.74,<0.75'"),
    "triton": ("compiling for GPUs and run --device interpret", "pip install triton"),
    "jinja2": ("reports", "pip install jinja2"),
    "scipy": ("factorisations of matrices (LU, QR, eigenvalues)", "pip install scipy"),
}
EXTRAS = {
    "cupy-cuda12x": ("running on GPUs", "pip install 'meshgen[cuda12]'"),
    "jax": ("programs lowered in process", "pip install 'meshgen[jax]'"),
    "mpi4py": ("several processes on CPUs", "pip install 'meshgen[mpi]'"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (parser.description or "") + "; exit code 5 if something that compiling needs is missing"


def run(options: argparse.Namespace, output: Output) -> int:
    rows = [_state(name, True) for name in NEEDS] + [_state(name, False) for name in EXTRAS]
    table = [
        (r["package"], r["version"] or "missing", "" if r["required"] else "extra", r["needed_for"], r["install"])
        for r in rows
    ]
    title = f"Python {platform.python_version()} on {sys.platform} {platform.machine()}"
    output.tables(
        table_of(
            title,
            ("package", "version", "", "needed for", "get it with"),
            table,
            left=("version", "", "needed for", "get it with"),
        )
    )
    missing = [r["package"] for r in rows if r["required"] and not r["version"]]
    cache = _cache_directory()
    output.text(f"kernel cache: {cache}")
    output.document({"python": platform.python_version(), "packages": rows, "missing": missing, "kernel_cache": cache})
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
    from meshgen.codegen.cache import default_directory

    return str(default_directory())
