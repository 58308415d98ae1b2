"""The swizzle of matrix rows in shared memory, which spreads a column over different banks."""

from __future__ import annotations

from meshgen.emulator.addresses import SHARED_BASE
from meshgen.emulator.types import Array

assert SHARED_BASE % 1024 == 0, "the patterns repeat every 1024 bytes of the address"


def swizzled(address: Array, span: int) -> Array:
    """Swizzle addresses: permute units of 16 bytes within `span` bytes (32, 64 or 128; a span of 16 means no swizzle).
    The index of a unit is XORed with the index of the 128-byte line that contains it.
    Source: PTX ISA 8.7, "Tensors: Swizzling Modes".
    """
    return address ^ (address >> 7 & (span // 16 - 1)) << 4
