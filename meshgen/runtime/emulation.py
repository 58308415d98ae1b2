"""Options of emulated GPUs; the emulator itself is imported when one runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meshgen.runtime.module_file.manifest import Kernel

DEFAULT_ARCH = "sm_80"  # for a module without code for any


@dataclass(frozen=True)
class Emulation:
    """Options of emulated GPUs.

    Attributes:
        arch: whose PTX, `sm_90`; empty: the first that the module was compiled for.
        races: whether to refuse unordered accesses: to shared memory without a barrier between them, to global
            memory without a stream, event or graph edge, or by several blocks of a launch; takes about twice the time.
        order: seed of the random order in which work runs that streams and events do not order.
        instructions: that each wave of blocks of a kernel may issue before the kernel is given up as endless; 0: the variable
            MESHGEN_INSTRUCTION_LIMIT, else 20 million.
    """

    arch: str = ""
    races: bool = False
    order: int = 0
    instructions: int = 0


def first_arch(kernels: Mapping[str, Kernel]) -> str:
    """The first architecture that kernels were compiled for; empty if there is none."""
    return next((arch for kernel in kernels.values() for arch in kernel.binaries), "")
