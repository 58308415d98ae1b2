"""Options of emulated GPUs. The emulator itself is only imported when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meshgen.runtime.module_file.manifest import Kernel

DEFAULT_ARCH = "sm_80"  # for a module that has code for no architecture


@dataclass(frozen=True)
class Emulation:
    """Options of emulated GPUs.

    Attributes:
        arch: architecture whose PTX runs, for example `sm_90`. Empty: the first one for which the module was compiled.
        races: report races. These are accesses to shared memory without a barrier between them, and accesses to global
            memory by several blocks or without a stream, event or graph edge between them. Doubles the run time.
        order: seed of the random order of work that streams and events leave unordered.
        instructions: limit for each wave of blocks, after which a kernel counts as endless. 0: the variable
            MESHGEN_INSTRUCTION_LIMIT, else 20 million.
    """

    arch: str = ""
    races: bool = False
    order: int = 0
    instructions: int = 0


def first_arch(kernels: Mapping[str, Kernel]) -> str:
    """Return the first architecture for which kernels were compiled, or an empty text if there is none."""
    return next((arch for kernel in kernels.values() for arch in kernel.binaries), "")
