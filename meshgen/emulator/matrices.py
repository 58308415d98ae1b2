"""Matrices that are distributed over the threads of a warp: `ldmatrix`, `stmatrix`, `mma.sync`.

The emulator multiplies exactly, accumulates in f64, and rounds once to the accumulator type. A GPU adds in blocks and
truncates after a few extra bits, so the last bits of results differ. The 13 low bits of tf32 operands are ignored.
Source: PTX ISA 8.7, "Warp-Level Matrix Instructions", with the layouts of fragments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from meshgen.emulator.decoder_table import Reader, address_reader, opcode, reader, vector_of, writer
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.program import Instruction
from meshgen.emulator.types import BITS, FLOATS, TYPES, Array, DType, unknown
from meshgen.emulator.wave import WARP, Action, Mask, Wave

_U32 = np.dtype(np.uint32)
_LANE = np.arange(WARP)
# group index (of four threads) of each thread in a warp, and its index in that group
GROUP, INSIDE = _LANE >> 2, _LANE & 3
_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


class Warps(NamedTuple):
    """Complete warps that execute an instruction.

    `blocks` and `warps` have the block index and the warp index of each warp, in ascending order. `all` is true if
    these are all warps of the wave.
    """

    blocks: Array
    warps: Array
    all: bool


def complete_warps(wave: Wave, mask: Mask) -> Warps:
    """Return the warps whose threads are all in `mask`. Raises DeviceFault "barrier" if only some threads of a warp are
    in `mask`.
    """
    if mask is None and wave.alive is None:
        index = np.arange(wave.blocks * wave.warps)
        return Warps(index // wave.warps, index % wave.warps, True)
    lanes = wave.lanes_by_warp(mask)
    has_threads = lanes.any(2)
    if (has_threads & ~lanes.all(2)).any():
        raise DeviceFault("barrier", "not all threads of a warp take part in a warp-wide operation")
    blocks, warps = np.nonzero(has_threads)
    return Warps(blocks, warps, False)


def of_warps(wave: Wave, value: Array, chosen: Warps) -> Array:
    """Return the elements of `value` for the threads of the chosen warps, as [warps, 32]."""
    by_warp = wave.full(value).reshape(wave.blocks, wave.warps, WARP)
    return by_warp.reshape(-1, WARP) if chosen.all else by_warp[chosen.blocks, chosen.warps]


def to_threads(wave: Wave, value: Array, chosen: Warps) -> Array:
    """Scatter values [warps, 32] of the chosen warps to [blocks, threads]. All other threads get zeros."""
    if chosen.all:
        return value.reshape(wave.shape)
    by_warp = np.zeros((wave.blocks, wave.warps, WARP), value.dtype)
    by_warp[chosen.blocks, chosen.warps] = value
    return by_warp.reshape(wave.shape)


def _matrix_modifiers(instruction: Instruction) -> tuple[int, bool]:
    """Return the number of 8x8 matrices of 16-bit elements, and whether they are transposed."""
    modifiers = list(instruction.modifiers)
    supported = {"sync", "aligned", "m8n8", "trans", "shared", "shared::cta", "b16", *_COUNTS}
    counts = [_COUNTS[word] for word in modifiers if word in _COUNTS]
    if not set(modifiers) <= supported or len(counts) != 1 or "m8n8" not in modifiers:
        raise unknown(instruction)
    return counts[0], "trans" in modifiers


@opcode("ldmatrix")
def _ldmatrix(instruction: Instruction) -> Action:
    """Decode `ldmatrix`: threads 8 i to 8 i + 7 provide the addresses of the 8 rows of matrix i, each of 16 bytes."""
    count, transposed = _matrix_modifiers(instruction)
    address = address_reader(instruction.operands[1], instruction)
    puts = [writer(target, _U32, instruction) for target in vector_of(instruction.operands[0])]
    if len(puts) != count:
        raise unknown(instruction)

    def run(wave: Wave, mask: Mask) -> None:
        chosen = complete_warps(wave, mask)
        rows = of_warps(wave, address(wave), chosen)[:, : 8 * count]
        positions = wave.shared.positions(rows, chosen.blocks[:, None], 16)
        raw = wave.shared.load(positions, 16, chosen.warps[:, None])
        tiles = np.ascontiguousarray(raw).view(np.uint16).reshape(len(rows), count, 8, 8)
        if transposed:
            tiles = np.ascontiguousarray(tiles.swapaxes(2, 3))
        values = tiles.view(np.uint32).reshape(len(rows), count, WARP)
        for index, put in enumerate(puts):
            put(wave, to_threads(wave, np.ascontiguousarray(values[:, index]), chosen), mask)

    return run


@opcode("stmatrix")
def _stmatrix(instruction: Instruction) -> Action:
    """Decode `stmatrix`, the inverse of `ldmatrix`."""
    count, transposed = _matrix_modifiers(instruction)
    address = address_reader(instruction.operands[0], instruction)
    sources = [reader(operand, _U32, instruction) for operand in vector_of(instruction.operands[1])]
    if len(sources) != count:
        raise unknown(instruction)

    def run(wave: Wave, mask: Mask) -> None:
        chosen = complete_warps(wave, mask)
        rows = of_warps(wave, address(wave), chosen)[:, : 8 * count]
        values = np.stack([of_warps(wave, source(wave), chosen) for source in sources], 1)
        tiles = values.view(np.uint16).reshape(len(rows), count, 8, 8)
        if transposed:
            tiles = np.ascontiguousarray(tiles.swapaxes(2, 3))
        raw = tiles.reshape(len(rows), 8 * count, 8).view(np.complex128)[..., 0]
        wave.shared.store(wave.shared.positions(rows, chosen.blocks[:, None], 16), raw, chosen.warps[:, None])

    return run


Layout = tuple[Array, Array]  # row and column of each element that a thread holds, [32, elements]


def layout_a(height: int, width: int, packed: int) -> Layout:
    """Return the layout of the left operand a. Registers first alternate between the upper and the lower 8 rows, then
    advance along k.
    """
    halves = height // 8
    registers = np.arange(height * width // WARP // packed)[:, None]
    element = np.arange(packed)
    rows = GROUP[:, None, None] + 8 * (registers % halves) + 0 * element
    columns = INSIDE[:, None, None] * packed + element + registers // halves * 4 * packed
    return rows.reshape(WARP, -1), columns.reshape(WARP, -1)


def layout_b(depth: int, packed: int) -> Layout:
    """Return the layout of the right operand b, which has 8 columns. Registers advance along k."""
    registers = np.arange(8 * depth // WARP // packed)[:, None]
    rows = INSIDE[:, None, None] * packed + np.arange(packed) + registers * 4 * packed
    return rows.reshape(WARP, -1), np.broadcast_to(GROUP[:, None], (WARP, rows[0].size))


def gathering(layout: Layout, shape: tuple[int, int]) -> Array:
    """Invert a layout: return for each element of a matrix of `shape` the index in the flattened array [threads,
    elements].
    """
    rows, columns = layout
    indices = np.empty(shape, np.int64)
    indices[rows, columns] = np.arange(rows.size).reshape(rows.shape)
    return indices.ravel()


class Product(NamedTuple):
    """A decoded `mma` instruction: shape (m, n, k), types, and the indices that gather operands a and b from
    registers.
    """

    shape: tuple[int, int, int]
    kinds: tuple[str, str, str, str]  # types of d, a, b, c
    a: Array
    b: Array


@functools.cache
def _product(shape: tuple[int, int, int], kinds: tuple[str, str, str, str]) -> Product:
    rows, columns, depth = shape
    packed = max(1, 4 // TYPES[kinds[1]].itemsize)
    a = gathering(layout_a(rows, depth, packed), (rows, depth))
    b = gathering(layout_b(depth, packed), (depth, columns))
    return Product(shape, kinds, a, b)


_INPUTS = {"f16", "bf16", "tf32", "f64", "s8", "u8", "e4m3", "e5m2"}
_SHAPES = {"f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8), "f64": (4, 8, 16), "s8": (16, 32), "u8": (16, 32),
           "e4m3": (16, 32), "e5m2": (16, 32)}  # Supported sizes of k, by operand type.  # fmt: skip


@opcode("mma")
def _mma(instruction: Instruction) -> Action:
    product = _read_product(instruction)
    d, a, b, c = (vector_of(operand) for operand in instruction.operands)
    kinds = product.kinds
    element = TYPES[kinds[1]]
    register_dtype = np.dtype(np.uint64) if element.itemsize == 8 else _U32
    left, right = ([reader(register, register_dtype, instruction) for register in part] for part in (a, b))
    packed = max(1, 4 // element.itemsize)
    if (len(a) * packed * WARP, len(b) * packed * WARP) != (product.a.size, product.b.size):
        raise unknown(instruction)
    sums = Accumulators(instruction, d, c, TYPES[kinds[0]])
    sums.require(product.shape[0] * 8 // WARP, instruction)
    saturates = "satfinite" in instruction.modifiers

    def run(wave: Wave, mask: Mask) -> None:
        chosen = complete_warps(wave, mask)
        rows, columns, depth = product.shape
        x = elements(wave, left, chosen, kinds[1])[:, product.a].reshape(-1, rows, depth)
        y = elements(wave, right, chosen, kinds[2])[:, product.b].reshape(-1, depth, columns)
        sums.add(wave, x @ y, chosen, mask, saturates=saturates)

    return run


def _read_product(instruction: Instruction) -> Product:
    modifiers = list(instruction.modifiers)
    shape = next((match for word in modifiers if (match := _SHAPE.fullmatch(word))), None)
    supported = {"sync", "aligned", "row", "col", "satfinite", "kind::f8f6f4", *modifiers[-4:]}
    if (
        shape is None
        or not set(modifiers) <= supported | {shape[0]}
        or modifiers[-3] not in _INPUTS
        or modifiers[-2] not in _INPUTS
    ):
        raise unknown(instruction)
    rows, columns, depth = (int(size) for size in shape.groups())
    height = 8 if modifiers[-3] == "f64" and rows == 8 else 16
    if (rows, columns) != (height, 8) or depth not in _SHAPES[modifiers[-3]] or modifiers[-4] != modifiers[-1]:
        raise unknown(instruction)
    return _product((rows, columns, depth), (modifiers[-4], modifiers[-3], modifiers[-2], modifiers[-1]))


def elements(wave: Wave, registers: Sequence[Reader], chosen: Warps, kind: str) -> Array:
    """Return the operand registers of the chosen warps as f64 [warps, 32 * elements]."""
    bits = np.stack([of_warps(wave, read(wave), chosen) for read in registers], -1)
    return as_numbers(bits, kind).reshape(len(bits), -1)


def as_numbers(bits: Array, kind: str) -> Array:
    """Convert registers [.., n] to f64 [.., n * elements]; the elements of a register are adjacent."""
    if kind == "tf32":
        bits = bits & np.uint32(0xFFFFE000)
    values = bits.view(TYPES[kind])
    if TYPES[kind] in FLOATS and kind not in ("f16", "f64"):
        values = values.astype(np.float32)  # ml_dtypes converts to f64 by way of f32 as well, but more slowly
    return values.astype(np.float64)


class Accumulators:
    """The accumulator registers of a matrix operation: f32, f64 or s32, or two f16 per register.

    In each 8x8 block of the result, thread 4 g + i of a warp holds row g, columns 2 i and 2 i + 1. Registers advance
    along the rows first, then along the columns. All registers are views of one array, which the next matrix operation
    reuses without a copy.
    """

    def __init__(
        self, instruction: Instruction, targets: Sequence[object], sources: Sequence[object], kind: DType
    ) -> None:
        self._kind = kind
        self._held = BITS[max(4, kind.itemsize)]
        self._reads = [reader(operand, self._held, instruction) for operand in sources]  # type: ignore[arg-type]
        self._puts = [writer(operand, self._held, instruction) for operand in targets]  # type: ignore[arg-type]
        self._sources, self._targets = (
            [getattr(operand, "name", "") for operand in operands] for operands in (sources, targets)
        )
        self._is_plain = all(getattr(operand, "width", 0) == self._held.itemsize for operand in targets)

    def require(self, count: int, instruction: Instruction) -> None:
        """Raise DeviceFault unless the registers of a thread hold `count` elements."""
        capacity = len(self._puts) * self._held.itemsize // self._kind.itemsize
        if capacity != count or len(self._reads) != len(self._puts):
            raise unknown(instruction)

    def add(self, wave: Wave, products: Array, chosen: Warps, mask: Mask, *, keeps: Array | None = None,
            saturates: bool = False) -> None:  # fmt: skip
        """Add `products`, f64 [warps, rows, columns], and round once. Integers wrap around, or saturate if `saturates`.

        Args:
            keeps: whether each thread [warps, 32] adds to its old accumulator instead of replacing it. None adds in all
                threads.
        """
        parts = self._parts(products)
        old: Array | float = 0.0
        if keeps is None or keeps.any():
            old = self._current_values(wave, chosen, parts.shape)
        if keeps is not None and not keeps.all() and keeps.any():
            by_thread = keeps.reshape(-1, 8, 4)
            old = np.where(by_thread if self._packed == 1 else by_thread[..., None], old, 0)
        sums = np.empty(parts.shape, self._kind)
        if self._kind.kind == "i":
            exact = parts + old
            sums[...] = (np.clip(exact, -(2.0**31), 2.0**31 - 1) if saturates else exact).astype(np.int64)
        else:
            np.add(parts, old, out=sums, dtype=np.float64, casting="same_kind")
        self._put(wave, sums, chosen, mask)

    @property
    def _packed(self) -> int:
        """Return the number of accumulator elements per register."""
        return self._held.itemsize // self._kind.itemsize

    def _parts(self, products: Array) -> Array:
        """Reorder matrices to register order: by register, then by thread, then within a register."""
        warps, rows, columns = products.shape
        parts = products.reshape(warps, rows // 8, 8, columns // 8, 4, 2)
        return parts.transpose(3, 1, 5, 0, 2, 4) if self._packed == 1 else parts.transpose(3, 1, 0, 2, 4, 5)

    def _current_values(self, wave: Wave, chosen: Warps, shape: tuple[int, ...]) -> Array:
        """Return the current contents of the accumulator registers."""
        values = self._joined_array(wave, self._sources)
        if values is None:
            values = np.stack([of_warps(wave, read(wave), chosen) for read in self._reads])
        elif not chosen.all:
            values = values[:, chosen.blocks, chosen.warps]
        return values.reshape(-1).view(self._kind).reshape(shape)

    def _put(self, wave: Wave, sums: Array, chosen: Warps, mask: Mask) -> None:
        rows = sums.reshape(-1).view(self._held).reshape(len(self._puts), -1, WARP)
        if not self._is_plain:  # this path also handles discarded results (`_`) and wider registers
            for put, row in zip(self._puts, rows, strict=True):
                put(wave, to_threads(wave, row, chosen), mask)
            return
        shape = len(rows), wave.blocks, wave.warps, WARP
        if chosen.all:
            joined = rows.reshape(shape)
        else:
            current = self._joined_array(wave, self._targets)
            values = (
                np.stack([wave.full(wave.registers[name]) for name in self._targets])
                if current is None
                else current.copy()
            )
            joined = values.reshape(shape)
            joined[:, chosen.blocks, chosen.warps] = rows
        parts = list(joined.reshape(len(rows), *wave.shape))
        wave.registers.update(zip(self._targets, parts, strict=True))
        wave.sums[self._targets[0]] = parts, joined

    def _joined_array(self, wave: Wave, names: Sequence[str]) -> Array | None:
        """Return the registers `names` as the array [registers, blocks, warps, 32] of which they are views.

        Returns:
            None if the registers were modified since a matrix operation wrote them.
        """
        parts, joined = wave.sums.get(names[0], ([], None))
        registers = wave.registers
        is_unmodified = len(parts) == len(names) and all(
            registers[n] is part for n, part in zip(names, parts, strict=True)
        )
        return joined if is_unmodified else None
