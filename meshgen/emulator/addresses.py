"""Address ranges of the state spaces. They are disjoint, so a generic address determines its space."""

from __future__ import annotations

SHARED_WINDOW = 0x4_0000_0000_0000  # offset from an address in shared memory to its generic address
LOCAL_WINDOW = 0x5_0000_0000_0000  # offset from an address in local memory to its generic address
PARAMETERS = 0x6_0000_0000_0000  # address of the parameter block of the launch
GLOBAL = 0x7_0000_0000_0000  # first address of global memory, which contains all buffers
LOCAL_BASE = 64  # first address of local memory; 0 is not a valid address
# First address of shared memory: the system uses the first 1 KiB of each block (CUDA C++ guide, compute capability
# 8.0).
SHARED_BASE = 1024
# Bytes of the widest access (PTX ISA 8.7, "ld"). Shared memory is padded to segments of this size, the unit of bulk
# copies.
WIDEST = 16
