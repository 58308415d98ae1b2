"""Matrices that the threads of a warp hold together: `ldmatrix`, `stmatrix`, `mma.sync`.

Products are exact and summed with the accumulator in f64, then rounded once to its type: a GPU adds in blocks with a few bits
behind the last place cut off, so results differ in the last bits. Of tf32 operands the 13 low bits are ignored.
Source: PTX ISA 8.7, "Warp-Level Matrix Instructions", with the layouts of fragments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.program import Instruction
from meshgen.emulator.table import Reader, address_reader, opcode, reader, vector_of, writer
from meshgen.emulator.types import BITS, FLOATS, TYPES, Array, DType, unknown
from meshgen.emulator.wave import WARP, Action, Mask, Wave

_U32 = np.dtype(np.uint32)
_LANE = np.arange(WARP)
GROUP, INSIDE = _LANE >> 2, _LANE & 3  # of a thread: which four it belongs to, and which of them it is
_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


class Warps(NamedTuple):
    """Whole warps that act: the block and the warp of each, in order; `all` where that is every warp of the wave."""

    blocks: Array
    warps: Array
    all: bool


def whole_warps(wave: Wave, mask: Mask) -> Warps:
    """The warps of a group. Raises DeviceFault "barrier" where only a part of one is there."""
    if mask is None and wave.alive is None:
        number = np.arange(wave.blocks * wave.warps)
        return Warps(number // wave.warps, number % wave.warps, True)
    lanes = wave.lanes_by_warp(mask)
    some = lanes.any(2)
    if (some & ~lanes.all(2)).any():
        raise DeviceFault("barrier", "not all threads of a warp take part in a warp-wide operation")
    blocks, warps = np.nonzero(some)
    return Warps(blocks, warps, False)


def of_warps(wave: Wave, value: Array, chosen: Warps) -> Array:
    """A value as [warps, 32]."""
    whole = wave.full(value).reshape(wave.blocks, wave.warps, WARP)
    return whole.reshape(-1, WARP) if chosen.all else whole[chosen.blocks, chosen.warps]


def to_threads(wave: Wave, value: Array, chosen: Warps) -> Array:
    """Values of warps [warps, 32] as [blocks, threads]; zeros for the others."""
    if chosen.all:
        return value.reshape(wave.shape)
    whole = np.zeros((wave.blocks, wave.warps, WARP), value.dtype)
    whole[chosen.blocks, chosen.warps] = value
    return whole.reshape(wave.shape)


def _matrix_modifiers(instruction: Instruction) -> tuple[int, bool]:
    """How many 8x8 matrices of 16-bit elements, and whether transposed."""
    found = list(instruction.modifiers)
    known = {"sync", "aligned", "m8n8", "trans", "shared", "shared::cta", "b16", *_COUNTS}
    counts = [_COUNTS[word] for word in found if word in _COUNTS]
    if not set(found) <= known or len(counts) != 1 or "m8n8" not in found:
        raise unknown(instruction)
    return counts[0], "trans" in found


@opcode("ldmatrix")
def _ldmatrix(instruction: Instruction) -> Action:
    """Matrix number i has its 8 rows of 16 bytes where threads 8 i to 8 i + 7 say."""
    count, transposed = _matrix_modifiers(instruction)
    address = address_reader(instruction.operands[1], instruction)
    puts = [writer(each, _U32, instruction) for each in vector_of(instruction.operands[0])]
    if len(puts) != count:
        raise unknown(instruction)

    def run(wave: Wave, mask: Mask) -> None:
        chosen = whole_warps(wave, mask)
        rows = of_warps(wave, address(wave), chosen)[:, : 8 * count]
        places = wave.shared.places(rows, chosen.blocks[:, None], 16)
        raw = wave.shared.load(places, 16, chosen.warps[:, None])
        tiles = np.ascontiguousarray(raw).view(np.uint16).reshape(len(rows), count, 8, 8)
        if transposed:
            tiles = np.ascontiguousarray(tiles.swapaxes(2, 3))
        values = tiles.view(np.uint32).reshape(len(rows), count, WARP)
        for number, put in enumerate(puts):
            put(wave, to_threads(wave, np.ascontiguousarray(values[:, number]), chosen), mask)

    return run


@opcode("stmatrix")
def _stmatrix(instruction: Instruction) -> Action:
    """The way back of `ldmatrix`."""
    count, transposed = _matrix_modifiers(instruction)
    address = address_reader(instruction.operands[0], instruction)
    sources = [reader(each, _U32, instruction) for each in vector_of(instruction.operands[1])]
    if len(sources) != count:
        raise unknown(instruction)

    def run(wave: Wave, mask: Mask) -> None:
        chosen = whole_warps(wave, mask)
        rows = of_warps(wave, address(wave), chosen)[:, : 8 * count]
        values = np.stack([of_warps(wave, source(wave), chosen) for source in sources], 1)
        tiles = values.view(np.uint16).reshape(len(rows), count, 8, 8)
        if transposed:
            tiles = np.ascontiguousarray(tiles.swapaxes(2, 3))
        raw = tiles.reshape(len(rows), 8 * count, 8).view(np.complex128)[..., 0]
        wave.shared.store(wave.shared.places(rows, chosen.blocks[:, None], 16), raw, chosen.warps[:, None])

    return run


Layout = tuple[Array, Array]  # rows and columns of the elements that threads hold, [32, elements]


def layout_a(height: int, width: int, packed: int) -> Layout:
    """The left matrix: registers alternate between the upper and the lower 8 rows, then go on along k."""
    halves = height // 8
    registers = np.arange(height * width // WARP // packed)[:, None]
    element = np.arange(packed)
    rows = GROUP[:, None, None] + 8 * (registers % halves) + 0 * element
    columns = INSIDE[:, None, None] * packed + element + registers // halves * 4 * packed
    return rows.reshape(WARP, -1), columns.reshape(WARP, -1)


def layout_b(depth: int, packed: int) -> Layout:
    """The right matrix, 8 columns: registers go along k."""
    registers = np.arange(8 * depth // WARP // packed)[:, None]
    rows = INSIDE[:, None, None] * packed + np.arange(packed) + registers * 4 * packed
    return rows.reshape(WARP, -1), np.broadcast_to(GROUP[:, None], (WARP, rows[0].size))


def gathering(layout: Layout, shape: tuple[int, int]) -> Array:
    """For each element of a matrix, which of the threads' elements it is."""
    rows, columns = layout
    found = np.empty(shape, np.int64)
    found[rows, columns] = np.arange(rows.size).reshape(rows.shape)
    return found.ravel()


class Product(NamedTuple):
    """An `mma`: its shape, types, and how threads hold it."""

    shape: tuple[int, int, int]
    kinds: tuple[str, str, str, str]  # of d, a, b, c
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
           "e4m3": (16, 32), "e5m2": (16, 32)}  # depths  # fmt: skip


@opcode("mma")
def _mma(instruction: Instruction) -> Action:
    product = _read_product(instruction)
    d, a, b, c = (vector_of(operand) for operand in instruction.operands)
    kinds = product.kinds
    element = TYPES[kinds[1]]
    held = np.dtype(np.uint64) if element.itemsize == 8 else _U32
    left, right = ([reader(each, held, instruction) for each in part] for part in (a, b))
    packed = max(1, 4 // element.itemsize)
    if (len(a) * packed * WARP, len(b) * packed * WARP) != (product.a.size, product.b.size):
        raise unknown(instruction)
    sums = Accumulators(instruction, d, c, TYPES[kinds[0]])
    sums.require(product.shape[0] * 8 // WARP, instruction)
    saturates = "satfinite" in instruction.modifiers

    def run(wave: Wave, mask: Mask) -> None:
        chosen = whole_warps(wave, mask)
        rows, columns, depth = product.shape
        x = elements(wave, left, chosen, kinds[1])[:, product.a].reshape(-1, rows, depth)
        y = elements(wave, right, chosen, kinds[2])[:, product.b].reshape(-1, depth, columns)
        sums.add(wave, x @ y, chosen, mask, saturates=saturates)

    return run


def _read_product(instruction: Instruction) -> Product:
    found = list(instruction.modifiers)
    shape = next((match for word in found if (match := _SHAPE.fullmatch(word))), None)
    known = {"sync", "aligned", "row", "col", "satfinite", "kind::f8f6f4", *found[-4:]}
    if shape is None or not set(found) <= known | {shape[0]} or found[-3] not in _INPUTS or found[-2] not in _INPUTS:
        raise unknown(instruction)
    rows, columns, depth = (int(each) for each in shape.groups())
    height = 8 if found[-3] == "f64" and rows == 8 else 16
    if (rows, columns) != (height, 8) or depth not in _SHAPES[found[-3]] or found[-4] != found[-1]:
        raise unknown(instruction)
    return _product((rows, columns, depth), (found[-4], found[-3], found[-2], found[-1]))


def elements(wave: Wave, registers: Sequence[Reader], chosen: Warps, kind: str) -> Array:
    """Registers of threads as f64 [warps, 32 * elements]."""
    bits = np.stack([of_warps(wave, read(wave), chosen) for read in registers], -1)
    return as_numbers(bits, kind).reshape(len(bits), -1)


def as_numbers(bits: Array, kind: str) -> Array:
    """Registers [.., n] as f64, with the elements of each side by side."""
    if kind == "tf32":
        bits = bits & np.uint32(0xFFFFE000)
    values = bits.view(TYPES[kind])
    if TYPES[kind] in FLOATS and kind not in ("f16", "f64"):
        values = values.astype(np.float32)  # ml_dtypes goes by f32 too, and slower
    return values.astype(np.float64)


class Accumulators:
    """The sums of a product: registers of f32, f64 or s32, or two f16 in each.

    Thread 4 g + i of a warp has of every eight rows row g, and of every eight columns 2 i and 2 i + 1: first of all rows, then
    of the next columns. The sums of all registers are one array, which the next product takes as it is; registers are parts of it.
    """

    def __init__(
        self, instruction: Instruction, targets: Sequence[object], sources: Sequence[object], kind: DType
    ) -> None:
        self._kind = kind
        self._held = BITS[max(4, kind.itemsize)]
        self._reads = [reader(each, self._held, instruction) for each in sources]  # type: ignore[arg-type]
        self._puts = [writer(each, self._held, instruction) for each in targets]  # type: ignore[arg-type]
        self._sources, self._targets = ([getattr(each, "name", "") for each in part] for part in (sources, targets))
        self._is_plain = all(getattr(each, "width", 0) == self._held.itemsize for each in targets)

    def require(self, count: int, instruction: Instruction) -> None:
        """Raises DeviceFault where the registers of a thread do not hold `count` sums."""
        held = len(self._puts) * self._held.itemsize // self._kind.itemsize
        if held != count or len(self._reads) != len(self._puts):
            raise unknown(instruction)

    def add(self, wave: Wave, products: Array, chosen: Warps, mask: Mask, *, keeps: Array | None = None,
            saturates: bool = False) -> None:  # fmt: skip
        """Add products in f64 [warps, rows, columns], rounded once; integers wrap, or saturate.

        Args:
            keeps: of each thread [warps, 32], whether what its registers held counts; None: it does.
        """
        parts = self._parts(products)
        kept: Array | float = 0.0
        if keeps is None or keeps.any():
            kept = self._kept(wave, chosen, parts.shape)
        if keeps is not None and not keeps.all() and keeps.any():
            by_thread = keeps.reshape(-1, 8, 4)
            kept = np.where(by_thread if self._packed == 1 else by_thread[..., None], kept, 0)
        sums = np.empty(parts.shape, self._kind)
        if self._kind.kind == "i":
            whole = parts + kept
            sums[...] = (np.clip(whole, -(2.0**31), 2.0**31 - 1) if saturates else whole).astype(np.int64)
        else:
            np.add(parts, kept, out=sums, dtype=np.float64, casting="same_kind")
        self._put(wave, sums, chosen, mask)

    @property
    def _packed(self) -> int:
        """Sums of a register."""
        return self._held.itemsize // self._kind.itemsize

    def _parts(self, products: Array) -> Array:
        """Matrices in the order of registers, then of threads, then within a register."""
        warps, rows, columns = products.shape
        parts = products.reshape(warps, rows // 8, 8, columns // 8, 4, 2)
        return parts.transpose(3, 1, 5, 0, 2, 4) if self._packed == 1 else parts.transpose(3, 1, 0, 2, 4, 5)

    def _kept(self, wave: Wave, chosen: Warps, shape: tuple[int, ...]) -> Array:
        """What the registers hold."""
        held = self._held_by(wave, self._sources)
        if held is None:
            held = np.stack([of_warps(wave, read(wave), chosen) for read in self._reads])
        elif not chosen.all:
            held = held[:, chosen.blocks, chosen.warps]
        return held.reshape(-1).view(self._kind).reshape(shape)

    def _put(self, wave: Wave, sums: Array, chosen: Warps, mask: Mask) -> None:
        rows = sums.reshape(-1).view(self._held).reshape(len(self._puts), -1, WARP)
        if not self._is_plain:  # some sums are not wanted
            for put, row in zip(self._puts, rows, strict=True):
                put(wave, to_threads(wave, row, chosen), mask)
            return
        shape = len(rows), wave.blocks, wave.warps, WARP
        if chosen.all:
            whole = rows.reshape(shape)
        else:
            held = self._held_by(wave, self._targets)
            kept = (
                np.stack([wave.full(wave.registers[name]) for name in self._targets]) if held is None else held.copy()
            )
            whole = kept.reshape(shape)
            whole[:, chosen.blocks, chosen.warps] = rows
        parts = list(whole.reshape(len(rows), *wave.shape))
        wave.registers.update(zip(self._targets, parts, strict=True))
        wave.sums[self._targets[0]] = parts, whole

    def _held_by(self, wave: Wave, names: Sequence[str]) -> Array | None:
        """Registers [registers, blocks, warps, 32] as one array, where a product wrote them and nothing has since."""
        parts, whole = wave.sums.get(names[0], ([], None))
        registers = wave.registers
        is_there = len(parts) == len(names) and all(registers[n] is each for n, each in zip(names, parts, strict=True))
        return whole if is_there else None
