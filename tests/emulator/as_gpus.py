"""Run a Python module as if the machine had GPUs: `python -m tests.emulator.as_gpus DEVICES ARCH MODULE WORDS...`.

The module loads NVIDIA's Python bindings, `libcuda.so.1` and `libnccl.so.2` by name, as it would load real ones. Both
libraries are thin C wrappers around the emulated driver and NCCL, which execute the PTX stored beside the cubins.
`MESHGEN_TEST_GPUS=real python -m tests.emulator.as_gpus 8 sm_90 pytest FILES...` does what `make gpu` does. If mpiexec
or another launcher starts several ranks, each process has its own GPUs, and NCCL communicates between the processes.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from meshgen.runtime.cuda import code, devices, engines
from meshgen.runtime.cuda import kernel_runner as one_kernel
from meshgen.runtime.cuda.api import Api, emulated
from meshgen.runtime.module_file.manifest import Kernel
from meshgen.runtime.processes import bootstrap
from tests.emulator import libcuda, libnccl

_CHILD = "MESHGEN_AS_GPUS"  # environment variable with the folder of the libraries, set for the process that loads them


def main(count: int, arch: str, words: list[str]) -> int:
    folder = os.environ.get(_CHILD)
    if folder:
        return _run(Path(folder), count, arch, words)
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "tests.emulator.as_gpus", str(count), arch, *words]
        environment = os.environ | libraries(Path(name))
        # MPI passes a pipe to its launcher as a file descriptor
        return subprocess.run(command, env=environment, close_fds=False).returncode


def libraries(folder: Path) -> dict[str, str]:
    """Build both libraries in `folder`. Return the environment variables that make a process load them."""
    for library in (libcuda, libnccl):
        library.build(folder)
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH", "")]))
    return {"LD_LIBRARY_PATH": paths, _CHILD: str(folder)}


def _run(folder: Path, count: int, arch: str, words: list[str]) -> int:
    emulated_api = emulated(count, arch, races=True, world=bootstrap.world())
    thunks = libcuda.LibCuda(emulated_api.driver), libnccl.LibNccl(emulated_api.nccl)
    thunks[0].install(ctypes.CDLL(str(folder / "libcuda.so.1")))
    thunks[1].install(ctypes.CDLL(str(folder / "libnccl.so.2")))
    registering_code_of = _registering(emulated_api, code.code_of)
    for module in (code, engines, devices, one_kernel):
        vars(module)["code_of"] = registering_code_of
    sys.argv = words
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        if emulated_api.machine and emulated_api.machine.fault:
            sys.stderr.write(f"{emulated_api.machine.fault}\n")
    return 0


def _registering(emulated_api: Api, original: Callable[..., code.CodeOf]) -> Callable[..., code.CodeOf]:
    """Wrap `code_of` so that the emulated driver also gets the PTX of each cubin, since it cannot execute machine code."""

    def code_of(kernels: Mapping[str, Kernel], member: Callable[[str], bytes], api: Any) -> code.CodeOf:
        for kernel in kernels.values():
            for binary in kernel.binaries.values():
                emulated_api.driver.register(member(binary.file), member(binary.ptx).decode())
        return original(kernels, member, api)

    return code_of


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
