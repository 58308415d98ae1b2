"""The origin of a measurement: processor, GPUs, package versions, command and date. Works without any optional package."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "triton", "jax", "torch", "cuda-bindings", "mpi4py")
# Linux describes its processors and its memory (in kB) in these files.
_CPUINFO, _MEMINFO = Path("/proc/cpuinfo"), Path("/proc/meminfo")


def environment(words: Sequence[str]) -> dict[str, Any]:
    """Return the facts that all records of a run share. `words`: the command line after `meshgen bench`."""
    from meshgen import __version__

    gpus = gpu_facts()
    facts: dict[str, Any] = {
        "command": f"meshgen bench {shlex.join(words)}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_bytes": memory_bytes(),
        "gpus": ", ".join(gpus.get("gpus", ())) or f"none: {gpus['fault'].partition(':')[0]}",
        "meshgen": __version__,
        "python": platform.python_version(),
        **{name: version for name in PACKAGES if (version := version_of(name))},
    }
    return facts | {name: gpus[name] for name in ("driver", "cuda", "nccl") if name in gpus}


def processor() -> str:
    """Return the processor's name as the operating system reports it."""
    named = (line for line in _lines(_CPUINFO) if line.startswith("model name"))
    return next(named, "").partition(":")[2].strip() or platform.processor() or platform.machine()


def memory_bytes() -> int | None:
    """Return the size of the machine's memory, or None if the operating system does not report it."""
    line = next((line for line in _lines(_MEMINFO) if line.startswith("MemTotal")), "")
    return int(line.split()[1]) << 10 if line else None


def version_of(package: str) -> str:
    """Return the installed version of `package`, or an empty text if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def gpu_facts() -> Mapping[str, Any]:
    """Return facts about the GPUs: `gpus` (names), `driver` (CUDA version) and `nccl` (release), or `fault` with the
    reason why no GPU can be used.
    """
    try:
        from meshgen.errors import MeshgenError
        from meshgen.runtime.cuda.api import Api, real
    except ImportError as error:
        return {"fault": f"{error.name} is not installed"}
    try:
        api: Api = real(1)
        names = [
            bytes(api.cuda("cuDeviceGetName", 256, api.cuda("cuDeviceGet", n))).split(b"\0")[0].decode()
            for n in range(int(api.cuda("cuDeviceGetCount")))
        ]
        version = int(api.cuda("cuDriverGetVersion"))
    except MeshgenError as error:
        return {"fault": error.diagnostics[0].message} | _nccl()
    return {"gpus": names, "driver": f"CUDA {version // 1000}.{version % 1000 // 10}"} | _nccl()


def _nccl() -> dict[str, str]:
    from meshgen.errors import MeshgenError
    from meshgen.runtime.cuda.nccl import load_nccl, release

    try:
        return {"nccl": release(load_nccl().ncclGetVersion()[1])}
    except MeshgenError:
        return {}


def mpi_library() -> str:
    """Return the first line of the MPI library's version text, or an empty text if mpi4py or the library is missing.

    Does not initialize MPI.
    """
    try:
        mpi4py: Any = import_module("mpi4py")
        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.initialize = False
        mpi: Any = import_module("mpi4py.MPI")
        return " ".join(str(mpi.Get_library_version()).splitlines()[0].rstrip("\0").split())
    except (ImportError, RuntimeError):
        return ""


def nvidia_smi_library() -> str:
    """Return the file name of NVML, the library for clocks and temperatures, or an empty text if the system does not
    have it.
    """
    return ctypes.util.find_library("nvidia-ml") or ""


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
