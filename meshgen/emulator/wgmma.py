"""`wgmma`: matrix operations of the four warps of a warp group, by asynchronous units that read shared memory.

Accumulation is as in `matrices.py`, also for fp8 operands, for which a GPU keeps only about 14 bits of the sums.
Source: PTX ISA 8.7, "Asynchronous Warpgroup Level Matrix Instructions", with the layouts of fragments and of
descriptors.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from meshgen.emulator.asynchronous import Product
from meshgen.emulator.decoder_table import opcode, reader, vector_of
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.matrices import (
    Accumulators,
    Warps,
    as_numbers,
    complete_warps,
    gathering,
    layout_a,
    of_warps,
)
from meshgen.emulator.program import Immediate, Instruction, Vector, registers_of
from meshgen.emulator.swizzles import swizzled
from meshgen.emulator.types import TYPES, Array, unknown
from meshgen.emulator.wave import WARP, WARPS, Action, Mask, Wave

_U32, _U64 = np.dtype(np.uint32), np.dtype(np.uint64)
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
SPANS = (16, 128, 64, 32)  # bytes of the row that a swizzle permutes, by the swizzle field of a descriptor
# function that reads a matrix as f64 [warp groups, rows, k]; the last argument is the index of the operation
Operand = Callable[[Wave, Warps, int], Array]


def warp_groups(wave: Wave, mask: Mask) -> Warps:
    """Return the warps of complete warp groups. Raises DeviceFault "barrier" if only some threads of a group are in
    `mask`.
    """
    chosen = complete_warps(wave, mask)
    first = chosen.warps[::WARPS]
    complete = wave.warps % WARPS == 0 and len(chosen.warps) % WARPS == 0 and not (first % WARPS).any()
    if not complete or not np.array_equal(chosen.warps, np.repeat(first, WARPS) + np.arange(len(chosen.warps)) % WARPS):
        raise DeviceFault("barrier", "not all threads of a warp group take part in a group-wide operation")
    return chosen


def _warp_group_numbers(wave: Wave, warps: Warps) -> Array:
    """Return the indices of the warp groups, counted through all blocks."""
    return warps.blocks[::WARPS] * (wave.warps // WARPS) + warps.warps[::WARPS] // WARPS


@opcode("wgmma")
def _wgmma(instruction: Instruction) -> Action:
    match instruction.modifiers:
        case ("mma_async", *_):
            return _mma_async(instruction)
        case ("fence", "sync", "aligned"):
            return lambda wave, mask: None
        case ("commit_group", "sync", "aligned"):
            return _commit
        case ("wait_group", "sync", "aligned"):
            left = instruction.operands[0]
            if not isinstance(left, Immediate):
                raise unknown(instruction)
            return lambda wave, mask: _wait(wave, mask, left.bits)
        case _:
            raise unknown(instruction)


def _commit(wave: Wave, mask: Mask) -> None:
    wave.pending_operations.product_groups[_warp_group_numbers(wave, warp_groups(wave, mask))] += 1


def _wait(wave: Wave, mask: Mask, left: int) -> None:
    """Complete the oldest matrix operations, until each warp group of `mask` has at most `left` pending commit
    groups.
    """
    state = wave.pending_operations
    is_waiting = np.zeros(len(state.product_groups), np.bool_)
    is_waiting[_warp_group_numbers(wave, warp_groups(wave, mask))] = True
    remaining: list[Product] = []
    for product in state.products:
        completed = is_waiting[product.warp_groups] & (product.group < state.product_groups[product.warp_groups] - left)
        if completed.all():
            wave.shared.end_operation(product.number)
        else:
            remaining.append(Product(product.number, product.warp_groups[~completed], product.group[~completed]))
            groups_per_block = wave.warps // WARPS
            ended = np.setdiff1d(
                product.warp_groups[completed] // groups_per_block, remaining[-1].warp_groups // groups_per_block
            )
            wave.shared.end_operation(product.number, ended)
    state.products = remaining
    wave.pending.keep(remaining)


def _mma_async(instruction: Instruction) -> Action:
    modifiers = list(instruction.modifiers)
    shape = next((match for word in modifiers if (match := _SHAPE.fullmatch(word))), None)
    if shape is None or set(modifiers) != {"mma_async", "sync", "aligned", shape[0], *modifiers[-3:]}:
        raise unknown(instruction)
    columns, depth = int(shape[1]), int(shape[2])
    to, left, right = modifiers[-3:]
    if depth * TYPES[left].itemsize != 32 or columns % 8 or not 8 <= columns <= 256:
        raise unknown(instruction)
    d, a, b, keep_operand, *flags = instruction.operands
    signs, transposes = (
        [_flag(operand, instruction) for operand in flags[:2]],
        [_flag(operand, instruction) for operand in flags[2:]],
    )
    in_registers = isinstance(a, Vector)
    flips = {0: [0, 0], 1: [0, *transposes], 2: transposes}[len(transposes)]
    x = (
        _register_operand(instruction, a, depth, left)
        if isinstance(a, Vector)
        else _descriptor_operand(instruction, a, 64, depth, left, flips[0])
    )
    y = _descriptor_operand(instruction, b, columns, depth, right, flips[1])
    sums = Accumulators(instruction, vector_of(d), vector_of(d), TYPES[to])
    sums.require(columns // 2, instruction)
    adds = reader(keep_operand, np.dtype(np.bool_), instruction)
    scale = float(np.prod(signs)) if signs else 1.0
    targets = [r.name for r in registers_of(d)]
    inputs = [r.name for r in registers_of(a)] if in_registers else []

    def run(wave: Wave, mask: Mask) -> None:
        chosen = warp_groups(wave, mask)
        _refuse_busy(
            wave,
            [*inputs, *(r.name for o in (b, keep_operand) for r in registers_of(o))],
            _warp_group_numbers(wave, chosen),
        )
        number = _begin(wave, chosen)
        products = x(wave, chosen, number) @ y(wave, chosen, number).swapaxes(1, 2)
        if scale != 1:
            products *= scale
        sums.add(wave, products.reshape(-1, 16, columns), chosen, mask, keeps=of_warps(wave, adds(wave), chosen))
        wave.pending.begin(
            targets, number, _warp_group_numbers(wave, chosen), len(wave.pending_operations.product_groups)
        )

    return run


def _flag(operand: object, instruction: Instruction) -> int:
    if not isinstance(operand, Immediate):
        raise unknown(instruction)
    return operand.bits


def _refuse_busy(wave: Wave, names: list[str], numbers: Array) -> None:
    if wave.pending.has(names, numbers):
        raise DeviceFault("async copy", "a register is read before the matrix unit that writes it was waited for")


def _begin(wave: Wave, chosen: Warps) -> int:
    """Register a new matrix operation in the open commit group of its warp groups, and return its index."""
    state = wave.pending_operations
    state.operations += 1
    numbers = _warp_group_numbers(wave, chosen)
    state.products.append(Product(state.operations, numbers, state.product_groups[numbers]))
    wave.shared.begin_operation(state.operations)
    return state.operations


def _register_operand(instruction: Instruction, operand: Vector, depth: int, kind: str) -> Operand:
    """Return a reader of the left matrix from registers, 16 rows per warp."""
    reads = [reader(register, _U32, instruction) for register in operand.parts]
    if len(reads) * WARP * 4 != 16 * depth * TYPES[kind].itemsize:
        raise unknown(instruction)
    positions = gathering(layout_a(16, depth, 4 // TYPES[kind].itemsize), (16, depth))

    def get(wave: Wave, chosen: Warps, number: int) -> Array:
        bits = np.stack([of_warps(wave, read(wave), chosen) for read in reads], -1)
        values = as_numbers(bits, kind).reshape(len(bits), -1)
        return values[:, positions].reshape(-1, 64, depth)

    return get


def _descriptor_operand(
    instruction: Instruction, operand: object, rows: int, depth: int, kind: str, transposed: int
) -> Operand:
    """Return a reader of a matrix in shared memory that a matrix descriptor describes.

    Args:
        rows: size of m or n.
        transposed: whether m or n is contiguous instead of k.
    """
    read = reader(operand, _U64, instruction)  # type: ignore[arg-type]
    itemsize = TYPES[kind].itemsize
    unit_elements = 16 // itemsize

    def get(wave: Wave, chosen: Warps, number: int) -> Array:
        descriptors = of_warps(wave, read(wave), chosen)[::WARPS, 0]
        if transposed:
            offsets = _across_k(
                descriptors, np.arange(0, rows, unit_elements)[:, None], np.arange(depth)[None, :], itemsize
            )
        else:
            offsets = _along_k(
                descriptors, np.arange(rows)[:, None], np.arange(0, depth, unit_elements)[None, :], itemsize
            )
        positions = wave.shared.positions(offsets, chosen.blocks[::WARPS, None, None], 16)
        raw = wave.shared.unit_reads(positions, 16, chosen.warps[::WARPS, None, None], number)
        register_dtype = np.uint32 if kind == "tf32" else np.uint8
        values = as_numbers(np.ascontiguousarray(raw)[..., None].view(register_dtype), kind)
        if transposed:  # the axes of `values` are [groups, rows / unit_elements, k, unit_elements]
            return values.swapaxes(2, 3).reshape(len(descriptors), rows, depth)
        return values.reshape(len(descriptors), rows, depth)

    return get


def _field(descriptors: Array, bit: int) -> Array:
    """Return a 14-bit field of the descriptors, converted from units of 16 bytes to bytes [warp groups, 1, 1]."""
    return (descriptors >> np.uint64(bit) & np.uint64(0x3FFF)).astype(np.int64)[:, None, None] << 4


def _span(descriptors: Array) -> int:
    swizzles = np.unique(descriptors >> np.uint64(62))
    if len(swizzles) != 1:
        raise DeviceFault("opcode", "warp groups differ in the swizzle of a matrix")
    return SPANS[int(swizzles[0])]


def _along_k(descriptors: Array, row: Array, column: Array, itemsize: int) -> Array:
    """Return the addresses of a matrix where k is contiguous: atoms of 8 rows of `span` bytes."""
    span, byte = _span(descriptors), column * itemsize
    offset = row % 8 * span + byte % span + row // 8 * _field(descriptors, 32) + byte // span * _field(descriptors, 16)
    return swizzled(offset + _field(descriptors, 0), span)


def _across_k(descriptors: Array, row: Array, column: Array, itemsize: int) -> Array:
    """Return the addresses of a matrix where m or n is contiguous: atoms of `span` bytes for each of 8 values of k."""
    span, byte = _span(descriptors), row * itemsize
    leading, stride = _field(descriptors, 16), _field(descriptors, 32)
    if span == 16:
        leading, stride = stride, leading
    offset = column % 8 * span + byte % span + byte // span * leading + column // 8 * stride
    return swizzled(offset + _field(descriptors, 0), span)
