"""All instructions that the emulated GPU has, by their opcode."""

from __future__ import annotations

from meshgen.emulator import (
    arithmetic,
    bits,
    comparisons,
    conversions,
    fences,
    loads,
    matrices,
    warp_group_products,
    warps,
)
from meshgen.emulator.table import MAKERS

FAMILIES = (arithmetic, bits, comparisons, conversions, fences, loads, matrices, warp_group_products, warps)

__all__ = ["FAMILIES", "MAKERS"]
