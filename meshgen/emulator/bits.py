"""Moves, logic, shifts, bit fields and byte permutations of registers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshgen.emulator.arithmetic import words
from meshgen.emulator.decoder_table import elementwise, opcode, reader, readers, writer
from meshgen.emulator.program import Immediate, Instruction, Vector
from meshgen.emulator.types import BITS, TYPES, Array, type_of, unknown
from meshgen.emulator.wave import Action, Mask, Wave

_U32, _U64 = np.dtype(np.uint32), np.dtype(np.uint64)


@opcode("mov")
def _mov(instruction: Instruction) -> Action:
    words(instruction)
    dtype = type_of(instruction)
    target, source = instruction.operands
    if isinstance(target, Vector):
        return _unpack(instruction, target)
    if isinstance(source, Vector):
        return _pack(instruction, source)
    if dtype != np.bool_:
        dtype = BITS[dtype.itemsize]
    read, put = reader(source, dtype, instruction), writer(target, dtype, instruction)
    before, after = (getattr(operand, "name", "") for operand in (source, target))

    def run(wave: Wave, mask: Mask) -> None:
        put(wave, read(wave), mask)
        # the copy of a register that is a pending result of a matrix operation is pending, too
        if before in wave.pending.numbers or after in wave.pending.numbers:
            wave.pending.rename(before, after, wave.warp_groups_of(mask))

    return run


def _unpack(instruction: Instruction, target: Vector) -> Action:
    dtype = BITS[type_of(instruction).itemsize]
    element_dtype = BITS[dtype.itemsize // len(target.parts)]
    read = reader(instruction.operands[1], dtype, instruction)
    puts = [writer(element, element_dtype, instruction) for element in target.parts]

    def run(wave: Wave, mask: Mask) -> None:
        value = read(wave)
        for index, put in enumerate(puts):
            put(wave, (value >> dtype.type(8 * element_dtype.itemsize * index)).astype(element_dtype), mask)

    return run


def _pack(instruction: Instruction, source: Vector) -> Action:
    dtype = BITS[type_of(instruction).itemsize]
    element_dtype = BITS[dtype.itemsize // len(source.parts)]
    reads = [reader(element, element_dtype, instruction) for element in source.parts]
    put = writer(instruction.operands[0], dtype, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        value = reads[0](wave).astype(dtype)
        for index, read in enumerate(reads[1:], 1):
            value = value | read(wave).astype(dtype) << dtype.type(8 * element_dtype.itemsize * index)
        put(wave, value, mask)

    return run


LOGIC: dict[str, Callable[..., Array]] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.bitwise_not,
    "cnot": lambda value: (value == 0).astype(value.dtype),
}  # fmt: skip


@opcode(*LOGIC)
def _logic(instruction: Instruction) -> Action:
    words(instruction)
    return elementwise(instruction, type_of(instruction), LOGIC[instruction.opcode])


@opcode("lop3")
def _lop3(instruction: Instruction) -> Action:
    """Decode `lop3`: apply a bitwise function of a, b and c. Bit 4 a + 2 b + c of an immediate is the result for bits
    a, b, c.
    """
    words(instruction)
    table = instruction.operands[4]
    if not isinstance(table, Immediate):
        raise unknown(instruction)
    a, b, c = (reader(operand, _U32, instruction) for operand in instruction.operands[1:4])
    put = writer(instruction.operands[0], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        values = [read(wave) for read in (a, b, c)]
        result = np.zeros((1, 1), np.uint32)
        for row in range(8):
            if table.bits >> row & 1:
                x, y, z = (v if row >> position & 1 else ~v for v, position in zip(values, (2, 1, 0), strict=True))
                result = result | x & y & z
        put(wave, result, mask)

    return run


@opcode("shl", "shr")
def _shift_bits(instruction: Instruction) -> Action:
    """Decode `shl` or `shr`.

    A shift by the register width or more yields 0 or, for `shr` of signed numbers, only copies of the sign bit.
    """
    words(instruction)
    dtype = type_of(instruction)
    bits = 8 * dtype.itemsize
    value, by = reader(instruction.operands[1], dtype, instruction), reader(instruction.operands[2], _U32, instruction)
    put = writer(instruction.operands[0], dtype, instruction)
    shift = np.left_shift if instruction.opcode == "shl" else np.right_shift
    keeps_sign = dtype.kind == "i" and instruction.opcode == "shr"
    amount = instruction.operands[2]
    if isinstance(amount, Immediate) and 0 <= amount.bits < bits:
        fixed = dtype.type(amount.bits)
        return lambda wave, mask: put(wave, shift(value(wave), fixed), mask)

    def run(wave: Wave, mask: Mask) -> None:
        count = by(wave)
        result = shift(value(wave), np.minimum(count, bits - 1).astype(dtype))
        put(wave, result if keeps_sign else np.where(count < bits, result, dtype.type(0)), mask)

    return run


@opcode("shf")
def _funnel_shift(instruction: Instruction) -> Action:
    direction, mode = instruction.modifiers[:2]
    if direction not in ("l", "r") or mode not in ("clamp", "wrap"):
        raise unknown(instruction)
    low, high, by = readers(instruction, _U32)
    put = writer(instruction.operands[0], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        both = high(wave).astype(np.uint64) << np.uint64(32) | low(wave)
        count = by(wave).astype(np.uint64)
        count = count & np.uint64(31) if mode == "wrap" else np.minimum(count, np.uint64(32))
        result = both >> count if direction == "r" else both << count >> np.uint64(32)
        put(wave, result.astype(np.uint32), mask)

    return run


@opcode("bfe")
def _bit_field_extract(instruction: Instruction) -> Action:
    """Decode `bfe`: extract a bit field.

    Field bits beyond the register width are copies of the sign bit of the field, or 0 for unsigned types.
    """
    words(instruction)
    dtype = type_of(instruction)
    bits = 8 * dtype.itemsize
    value = reader(instruction.operands[1], dtype, instruction)
    position, length = (reader(operand, _U32, instruction) for operand in instruction.operands[2:])
    put = writer(instruction.operands[0], dtype, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        source, first, count = value(wave), position(wave) & np.uint32(255), length(wave) & np.uint32(255)
        last = np.minimum(first.astype(np.int64) + count - 1, bits - 1)
        top = np.maximum(last, 0).astype(dtype)
        shifted = source << (dtype.type(bits - 1) - top)  # the last bit of the field is moved to the top bit
        width = np.clip(last - first + 1, 0, bits)
        result = shifted >> np.clip(bits - width, 0, bits - 1).astype(dtype)
        sign = (source >> top) & dtype.type(1)
        empty = np.where(dtype.kind == "i", dtype.type(0) - sign, dtype.type(0)).astype(dtype)
        put(wave, np.where(count == 0, dtype.type(0), np.where(width == 0, empty, result)).astype(dtype), mask)

    return run


@opcode("bfi")
def _bit_field_insert(instruction: Instruction) -> Action:
    words(instruction)
    dtype = type_of(instruction)
    bits = 8 * dtype.itemsize
    field, base = (reader(operand, dtype, instruction) for operand in instruction.operands[1:3])
    position, length = (reader(operand, _U32, instruction) for operand in instruction.operands[3:])
    put = writer(instruction.operands[0], dtype, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        first, count = (read(wave) & np.uint32(255) for read in (position, length))
        ones = np.where(
            count >= bits, ~dtype.type(0), (dtype.type(1) << np.minimum(count, bits - 1).astype(dtype)) - dtype.type(1)
        )
        shift = np.minimum(first, bits - 1).astype(dtype)
        field_mask = np.where(first < bits, ones << shift, dtype.type(0))
        put(wave, base(wave) & ~field_mask | field(wave) << shift & field_mask, mask)

    return run


@opcode("prmt")
def _permute_bytes(instruction: Instruction) -> Action:
    """Decode `prmt`: each result byte has a selector for one of eight bytes. If bit 3 of the selector is set, the sign
    of that byte is replicated.
    """
    if instruction.modifiers != ("b32",):
        raise unknown(instruction)
    low, high, selector = readers(instruction, _U32)
    put = writer(instruction.operands[0], _U32, instruction)

    def run(wave: Wave, mask: Mask) -> None:
        both = high(wave).astype(np.uint64) << np.uint64(32) | low(wave)
        choice = selector(wave).astype(np.uint64)
        result = np.zeros((1, 1), np.uint64)
        for index in range(4):
            nibble = choice >> np.uint64(4 * index)
            byte = both >> ((nibble & np.uint64(7)) << np.uint64(3)) & np.uint64(255)
            sign = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
            result = result | np.where(nibble & np.uint64(8), sign, byte) << np.uint64(8 * index)
        put(wave, result.astype(np.uint32), mask)

    return run


def _leading_zeros(value: Array) -> Array:
    """Count the zeros above the highest set bit, by binary search."""
    bits = 8 * value.dtype.itemsize
    shifted, count = value, np.zeros(value.shape, np.uint32)
    for width in (32, 16, 8, 4, 2, 1):
        if width < bits:
            empty = (shifted >> value.dtype.type(bits - width)) == 0
            count = count + np.where(empty, np.uint32(width), np.uint32(0))
            shifted = np.where(empty, shifted << value.dtype.type(width), shifted)
    return (count + (shifted >> value.dtype.type(bits - 1) == 0)).astype(np.uint32)


def _reversed_bits(value: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(value)[..., None].view(np.uint8), axis=-1, bitorder="little")
    return np.packbits(bits[..., ::-1], axis=-1, bitorder="little").view(value.dtype)[..., 0]


COUNTS: dict[str, Callable[[Array], Array]] = {
    "popc": lambda value: np.bitwise_count(value).astype(np.uint32),
    "clz": _leading_zeros,
}


@opcode(*COUNTS)
def _count_bits(instruction: Instruction) -> Action:
    words(instruction)
    return elementwise(instruction, type_of(instruction), COUNTS[instruction.opcode], TYPES["u32"])


@opcode("brev")
def _reverse(instruction: Instruction) -> Action:
    words(instruction)
    return elementwise(instruction, type_of(instruction), _reversed_bits)


@opcode("bfind")
def _find(instruction: Instruction) -> Action:
    """Decode `bfind`: the result is the position of the highest bit that differs from the sign bit, or all ones if no
    bit does.
    """
    modifiers = words(instruction, "shiftamt")
    dtype = type_of(instruction)
    unsigned = BITS[dtype.itemsize]

    def highest_bit(value: Array) -> Array:
        bits = value.view(unsigned)
        bits = np.where(value < 0, ~bits, bits) if dtype.kind == "i" else bits
        zeros = _leading_zeros(bits)
        result = zeros if "shiftamt" in modifiers else np.uint32(8 * dtype.itemsize - 1) - zeros
        return np.where(bits == 0, np.uint32(0xFFFFFFFF), result)

    return elementwise(instruction, dtype, highest_bit, TYPES["u32"])
