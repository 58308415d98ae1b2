"""All instructions that the emulated GPU has, by their opcode."""

from __future__ import annotations

from meshgen.emulator import (
    arithmetic,
    bits,
    bulk_copies,
    comparisons,
    conversions,
    fences,
    loads,
    matrices,
    mbarriers,
    warp_group_products,
    warps,
)
from meshgen.emulator.table import MAKERS

FAMILIES = (
    arithmetic,
    bits,
    bulk_copies,
    comparisons,
    conversions,
    fences,
    loads,
    matrices,
    mbarriers,
    warp_group_products,
    warps,
)

__all__ = ["FAMILIES", "MAKERS"]
