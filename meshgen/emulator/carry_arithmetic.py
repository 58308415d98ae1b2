"""Extended-precision arithmetic: `.cc` writes the carry flag, and `addc`, `subc` and `madc` read it.

Source: PTX ISA 8.7, "Extended-Precision Integer Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshgen.emulator.arithmetic import high_product
from meshgen.emulator.decoder_table import readers, writer
from meshgen.emulator.program import Instruction
from meshgen.emulator.types import BITS, Array, DType, type_of, unknown
from meshgen.emulator.wave import CARRY, Action, Mask, Wave

Sum = tuple[Array, Array]  # a result, and the carry or borrow out of it


def with_carry(instruction: Instruction) -> Action:
    """Decode `add.cc`, `addc`, `sub.cc`, `subc`, `mad.lo.cc`, `madc.hi`, ..."""
    words = list(instruction.modifiers[:-1])
    operation = instruction.opcode.removesuffix("c")
    takes, leaves = instruction.opcode.endswith("c"), "cc" in words
    parts = [word for word in words if word in ("lo", "hi")]
    if set(words) - {"cc", "lo", "hi"} or len(parts) != (operation == "mad") or not (takes or leaves):
        raise unknown(instruction)
    dtype = type_of(instruction)
    bits = BITS[dtype.itemsize]
    function = _carry_function(operation, parts, dtype)
    sources = readers(instruction, bits)
    put = writer(instruction.operands[0], bits, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        carry = wave.registers[CARRY] if takes else np.zeros((1, 1), np.bool_)
        value, out = function(*(source(wave) for source in sources), carry.astype(bits))
        put(wave, value, mask)
        if leaves:
            wave.registers[CARRY] = out if wave.is_all(mask) else np.where(mask, out, wave.registers[CARRY])  # type: ignore[arg-type]

    return run


def _carry_function(operation: str, parts: list[str], dtype: DType) -> Callable[..., Sum]:
    if operation == "add":
        return _sum_with_carry
    if operation == "sub":
        return _difference
    if parts == ["lo"]:
        return lambda a, b, c, carry: _sum_with_carry(a * b, c, carry)
    return lambda a, b, c, carry: _sum_with_carry(high_product(a.view(dtype), b.view(dtype)).view(c.dtype), c, carry)


def _sum_with_carry(a: Array, b: Array, carry: Array) -> Sum:
    first = a + b
    total = first + carry
    return total, (first < a) | (total < first)


def _difference(a: Array, b: Array, borrow: Array) -> Sum:
    first = a - b
    return first - borrow, (a < b) | (first < borrow)
