"""The decoders of all instructions that the emulated GPU supports, by opcode."""

from __future__ import annotations

from meshgen.emulator import arithmetic, bits, comparisons, conversions, fences, loads, matrices, mbarriers, warps
from meshgen.emulator import tma_copies as bulk_copies
from meshgen.emulator import wgmma as warp_group_products
from meshgen.emulator.carry_arithmetic import with_carry
from meshgen.emulator.decoder_table import DECODERS, Decoder
from meshgen.emulator.program import Instruction
from meshgen.emulator.types import unknown

DECODERS.update(dict.fromkeys(("addc", "subc", "madc"), with_carry))

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


# Number of operands of each opcode whose decoder does not check it.
OPERANDS = {
    **dict.fromkeys(("neg", "abs", "not", "cnot", "popc", "clz", "brev", "bfind", "mov", "cvta", *arithmetic.APPROXIMATE), 2),
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr", "copysign"), 3),
    **dict.fromkeys(("mad", "fma", "shf", "bfe", "prmt", "selp"), 4),
    **dict.fromkeys(("lop3", "bfi"), 5), "addc": 3, "subc": 3, "madc": 4,
}  # fmt: skip


def decoder_of(instruction: Instruction) -> Decoder:
    """Return the decoder for a supported opcode. Raises DeviceFault if operands are missing."""
    count = len(instruction.operands)
    if OPERANDS.get(instruction.opcode, count) != count:
        raise unknown(instruction)
    return with_carry if "cc" in instruction.modifiers else DECODERS[instruction.opcode]


__all__ = ["DECODERS", "FAMILIES", "decoder_of"]
