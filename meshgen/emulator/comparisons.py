"""Comparisons, and choices by predicates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshgen.emulator.program import Immediate, Instruction, Operand, Pair
from meshgen.emulator.rounding import flushed
from meshgen.emulator.table import Reader, opcode, reader, writer
from meshgen.emulator.types import BITS, FLOATS, TYPES, Array, type_of, unknown
from meshgen.emulator.wave import Action, Mask, Wave

Comparison = Callable[[Array, Array], Array]
_BOOL, _U32 = np.dtype(np.bool_), np.dtype(np.uint32)


def _unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


ORDERED: dict[str, Comparison] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
FLOATING: dict[str, Comparison] = {
    "num": lambda a, b: ~_unordered(a, b),
    "nan": _unordered,
    "ne": lambda a, b: (a != b) & ~_unordered(a, b),
    "equ": lambda a, b: (a == b) | _unordered(a, b),
    "neu": np.not_equal,
    **{f"{name}u": (lambda a, b, f=ORDERED[name]: f(a, b) | _unordered(a, b)) for name in ("lt", "le", "gt", "ge")},
}
COMBINED: dict[str, np.ufunc] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _comparison(instruction: Instruction) -> tuple[Callable[[Wave], Array], Reader | None]:
    """What `setp` compares, and what it combines the result with."""
    name, *rest = instruction.modifiers
    kind = type_of(instruction)
    table = ORDERED | FLOATING if kind in FLOATS else ORDERED
    flush = "ftz" in rest and kind == np.float32
    if name not in table or not set(rest[:-1]) <= {"ftz", *COMBINED}:
        raise unknown(instruction)
    compare = table[name]
    left, right = (reader(each, kind, instruction) for each in instruction.operands[1:3])
    third = reader(instruction.operands[3], _BOOL, instruction) if len(instruction.operands) > 3 else None
    if flush:
        return lambda wave: compare(flushed(left(wave)), flushed(right(wave))), third
    return lambda wave: compare(left(wave), right(wave)), third


@opcode("setp")
def _setp(instruction: Instruction) -> Action:
    compare, third = _comparison(instruction)
    combine = next((COMBINED[each] for each in instruction.modifiers if each in COMBINED), None)
    if (third is None) != (combine is None):
        raise unknown(instruction)
    target = instruction.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    put = writer(first, _BOOL, instruction)
    put_not = writer(second, _BOOL, instruction) if second else None

    def run(wave: Wave, mask: Mask) -> None:
        value, other = compare(wave), third(wave) if third else None
        put(wave, value if combine is None else combine(value, other), mask)
        if put_not:
            put_not(wave, ~value if combine is None else combine(~value, other), mask)

    return run


@opcode("set")
def _set(instruction: Instruction) -> Action:
    """As `setp`, into a number: all bits, or 1.0."""
    name, *_, to, kind = instruction.modifiers
    inner = Instruction("setp", (name, kind), instruction.operands, None, instruction.text, instruction.source)
    compare, _third = _comparison(inner)
    target = TYPES[to]
    yes = np.array(1, target) if target in FLOATS else np.array(-1).astype(target)
    put = writer(instruction.operands[0], target, instruction)
    return lambda wave, mask: put(wave, np.where(compare(wave), yes, target.type(0)), mask)


@opcode("selp")
def _selp(instruction: Instruction) -> Action:
    kind = BITS[type_of(instruction).itemsize]
    if len(instruction.modifiers) != 1:
        raise unknown(instruction)
    yes, no = (reader(_as_bits(each, instruction), kind, instruction) for each in instruction.operands[1:3])
    which = reader(instruction.operands[3], _BOOL, instruction)
    put = writer(instruction.operands[0], kind, instruction)
    return lambda wave, mask: put(wave, np.where(which(wave), yes(wave), no(wave)), mask)


def _as_bits(operand: Operand, instruction: Instruction) -> Operand:
    """A float constant by its bits."""
    if isinstance(operand, Immediate) and operand.width:
        if operand.width != type_of(instruction).itemsize:
            raise unknown(instruction)
        return Immediate(operand.bits)
    return operand


@opcode("testp")
def _testp(instruction: Instruction) -> Action:
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite, "infinite": np.isinf, "number": lambda v: ~np.isnan(v), "notanumber": np.isnan,
        "normal": lambda v: np.isfinite(v) & (np.abs(v) >= np.finfo(v.dtype).tiny),
        "subnormal": lambda v: (v != 0) & (np.abs(v) < np.finfo(v.dtype).tiny),
    }  # fmt: skip
    name, _ = instruction.modifiers
    if name not in tests:
        raise unknown(instruction)
    read = reader(instruction.operands[1], type_of(instruction), instruction)
    put = writer(instruction.operands[0], _BOOL, instruction)
    return lambda wave, mask: put(wave, tests[name](read(wave)), mask)
