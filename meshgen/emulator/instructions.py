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
from meshgen.emulator.carries import with_carry
from meshgen.emulator.program import Instruction
from meshgen.emulator.table import MAKERS, Maker

MAKERS.update(dict.fromkeys(("addc", "subc", "madc"), with_carry))

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


def maker_of(instruction: Instruction) -> Maker:
    """Who reads an instruction of a known opcode."""
    return with_carry if "cc" in instruction.modifiers else MAKERS[instruction.opcode]


__all__ = ["FAMILIES", "MAKERS", "maker_of"]
