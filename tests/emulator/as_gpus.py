"""Any program of this package as if it ran on GPUs: `python -m tests.emulator.as_gpus DEVICES ARCH MODULE WORDS...`.

The program loads NVIDIA's bindings, `libcuda.so.1` and `libnccl.so.2` by their names, as on a machine with GPUs, and takes what it finds
for real. Both libraries are some lines of C in front of the emulated driver and NCCL; kernels run as the PTX beside the cubins.
With MESHGEN_TEST_GPUS=real, `python -m tests.emulator.as_gpus 8 sm_90 pytest FILES...` is what `make gpu` does. Started as several ranks, by mpiexec for instance, each
process has GPUs of its own, and NCCL goes across them.
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

from meshgen.runtime.cuda import code, devices, engines, one_kernel
from meshgen.runtime.cuda.api import Api, emulated
from meshgen.runtime.module_file.manifest import Kernel
from meshgen.runtime.processes import bootstrap
from tests.emulator import libcuda, libnccl

_CHILD = "MESHGEN_AS_GPUS"  # the folder of the libraries, in the environment of the process that has loaded them


def main(count: int, arch: str, words: list[str]) -> int:
    folder = os.environ.get(_CHILD)
    if folder:
        return _run(Path(folder), count, arch, words)
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "tests.emulator.as_gpus", str(count), arch, *words]
        environment = os.environ | libraries(Path(name))
        return subprocess.run(command, env=environment, close_fds=False).returncode  # MPI has a pipe to its launcher


def libraries(folder: Path) -> dict[str, str]:
    """Builds them there; the variables with which a process finds them."""
    for library in (libcuda, libnccl):
        library.build(folder)
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH", "")]))
    return {"LD_LIBRARY_PATH": paths, _CHILD: str(folder)}


def _run(folder: Path, count: int, arch: str, words: list[str]) -> int:
    behind = emulated(count, arch, races=True, world=bootstrap.world())
    thunks = libcuda.LibCuda(behind.driver), libnccl.LibNccl(behind.nccl)
    thunks[0].install(ctypes.CDLL(str(folder / "libcuda.so.1")))
    thunks[1].install(ctypes.CDLL(str(folder / "libnccl.so.2")))
    telling = _telling(behind, code.code_of)
    for each in (code, engines, devices, one_kernel):
        vars(each)["code_of"] = telling
    sys.argv = words
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        if behind.machine and behind.machine.fault:
            sys.stderr.write(f"{behind.machine.fault}\n")
    return 0


def _telling(behind: Api, own: Callable[..., code.CodeOf]) -> Callable[..., code.CodeOf]:
    """`own`, which is `code_of`, and also tells the emulated driver the PTX of a module's cubins: it cannot execute machine code."""

    def code_of(kernels: Mapping[str, Kernel], member: Callable[[str], bytes], api: Any) -> code.CodeOf:
        for kernel in kernels.values():
            for binary in kernel.binaries.values():
                behind.driver.register(member(binary.file), member(binary.ptx).decode())
        return own(kernels, member, api)

    return code_of


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
