"""How rows of a matrix are mixed in shared memory, so that columns are in different banks."""

from __future__ import annotations

from meshgen.emulator.addresses import SHARED_BASE
from meshgen.emulator.types import Array

assert SHARED_BASE % 1024 == 0, "the patterns repeat every 1024 bytes of the address"


def swizzled(address: Array, span: int) -> Array:
    """Units of 16 bytes trade places in a span of 32, 64 or 128 bytes, by the number of their 128 bytes; 16: they do not.

    Source: PTX ISA 8.7, "Tensors: Swizzling Modes".
    """
    return address ^ (address >> 7 & (span // 16 - 1)) << 4
