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
from meshgen.emulator.types import unknown

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


# How many operands an opcode has, where its maker does not tell by itself.
OPERANDS = {
    **dict.fromkeys(("neg", "abs", "not", "cnot", "popc", "clz", "brev", "bfind", "mov", "cvta", *arithmetic.APPROXIMATE), 2),
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr", "copysign"), 3),
    **dict.fromkeys(("mad", "fma", "shf", "bfe", "prmt", "selp"), 4),
    **dict.fromkeys(("lop3", "bfi"), 5), "addc": 3, "subc": 3, "madc": 4,
}  # fmt: skip


def maker_of(instruction: Instruction) -> Maker:
    """Who reads an instruction of a known opcode. Raises DeviceFault where operands are missing."""
    count = len(instruction.operands)
    if OPERANDS.get(instruction.opcode, count) != count:
        raise unknown(instruction)
    return with_carry if "cc" in instruction.modifiers else MAKERS[instruction.opcode]


__all__ = ["FAMILIES", "MAKERS", "maker_of"]
