"""Comparisons, and selection by predicates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshgen.emulator.decoder_table import opcode, reader, writer
from meshgen.emulator.program import Immediate, Instruction, Operand, Pair, Sink
from meshgen.emulator.rounding import flushed
from meshgen.emulator.types import BITS, FLOATS, PACKED, TYPES, Array, DType, type_of, unknown
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


def _setp_comparison(instruction: Instruction, dtype: DType) -> Comparison:
    """Return the comparison function of a `setp` instruction for elements of type `dtype`."""
    name, *modifiers = instruction.modifiers
    table = ORDERED | FLOATING if dtype in FLOATS else ORDERED
    if name not in table or not set(modifiers[:-1]) <= {"ftz", *COMBINED}:
        raise unknown(instruction)
    function = table[name]
    if "ftz" in modifiers and dtype == np.float32:
        return lambda a, b: function(flushed(a), flushed(b))
    return function


@opcode("setp")
def _setp(instruction: Instruction) -> Action:
    """Decode `setp.lt.and.f32 %p1|%p2, a, b, %p3`.

    The second predicate is the negated comparison. For packed types, it is the comparison of the upper halves.
    """
    packed = PACKED.get(instruction.modifiers[-1])
    dtype = TYPES[packed] if packed else type_of(instruction)
    compare = _setp_comparison(instruction, dtype)
    combine = next((COMBINED[word] for word in instruction.modifiers if word in COMBINED), None)
    target, left, right, *more = instruction.operands
    if (combine is None) != (not more):
        raise unknown(instruction)
    register_type = np.dtype(np.uint32) if packed else dtype
    a, b = reader(left, register_type, instruction), reader(right, register_type, instruction)
    third = reader(more[0], _BOOL, instruction) if more else None
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    put, put_second = writer(first, _BOOL, instruction), writer(second, _BOOL, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        x, y = a(wave), b(wave)
        if packed:
            low, high = (compare(_half(x, half, dtype), _half(y, half, dtype)) for half in (0, 16))
        else:
            low = compare(x, y)
            high = ~low
        combined_predicate = third(wave) if third else None
        put(wave, low if combine is None else combine(low, combined_predicate), mask)
        put_second(wave, high if combine is None else combine(high, combined_predicate), mask)

    return run


def _half(value: Array, shift: int, dtype: DType) -> Array:
    """Return 16 bits of a register, from bit `shift` on, as elements of type `dtype`."""
    return (value >> np.uint32(shift)).astype(np.uint16).view(dtype)


@opcode("set")
def _set(instruction: Instruction) -> Action:
    """Decode `set`, which is like `setp`, but writes a number instead of a predicate. True is 1.0, or an integer with
    all bits set.
    """
    name, *_, to, dtype = instruction.modifiers
    inner = Instruction("setp", (name, dtype), instruction.operands, None, instruction.text, instruction.source)
    compare = _setp_comparison(inner, type_of(inner))
    a, b = (reader(operand, type_of(inner), instruction) for operand in instruction.operands[1:3])
    target = TYPES[to]
    yes = np.array(1, target) if target in FLOATS else np.array(-1).astype(target)
    put = writer(instruction.operands[0], target, instruction)
    return lambda wave, mask: put(wave, np.where(compare(a(wave), b(wave)), yes, target.type(0)), mask)


@opcode("selp")
def _selp(instruction: Instruction) -> Action:
    dtype = BITS[type_of(instruction).itemsize]
    if len(instruction.modifiers) != 1:
        raise unknown(instruction)
    yes, no = (reader(_as_bits(operand, instruction), dtype, instruction) for operand in instruction.operands[1:3])
    which = reader(instruction.operands[3], _BOOL, instruction)
    put = writer(instruction.operands[0], dtype, instruction)
    return lambda wave, mask: put(wave, np.where(which(wave), yes(wave), no(wave)), mask)


def _as_bits(operand: Operand, instruction: Instruction) -> Operand:
    """Return a float constant as an integer with the same bits, and any other operand unchanged."""
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
