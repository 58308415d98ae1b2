"""Address ranges of the state spaces, disjoint, so that a generic address determines its space."""

from __future__ import annotations

SHARED_WINDOW = 0x4_0000_0000_0000  # generic addresses of shared memory are this and the address in it
LOCAL_WINDOW = 0x5_0000_0000_0000  # of local memory, the arrays that each thread has for itself
PARAMETERS = 0x6_0000_0000_0000  # the parameter block of the launch
GLOBAL = 0x7_0000_0000_0000  # the first of global memory, where all buffers are
LOCAL_BASE = 64  # the first of local memory: 0 is not a valid address
SHARED_BASE = 1024  # the first of shared memory: 1 KiB of each block belongs to the system (CUDA C++ guide, compute capability 8.0)
WIDEST = 16  # bytes of the widest access (PTX ISA 8.7, "ld"), and of a segment: what blocks are padded to and boxes are copied by
