"""Copies of strided boxes, as launches of the kernels of `meshgen.kernels.copy_ptx` or as plain memory copies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from meshgen.ccl.steps import Box
from meshgen.kernels.copy_ptx import MOST_ELEMENTS, RANK, THREADS

WORDS = (16, 8, 4, 2, 1)  # element sizes in bytes that a thread can move with one load and one store, widest first


@dataclass(frozen=True)
class Run:
    """A plain copy of bytes that are contiguous in source and target."""

    target: int
    source: int
    nbytes: int


@dataclass(frozen=True)
class Call:
    """A launch of the kernel that copies elements of `itemsize` bytes: its number of blocks and its parameter values."""

    itemsize: int
    blocks: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class _Sides:
    """The strided layout of a box on each side of a copy.

    Attributes:
        addresses: address of the first element, for each side.
        strides: stride of each dim in bytes, for each side.
    """

    shape: tuple[int, ...]
    addresses: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    itemsize: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def joined(self) -> _Sides:
        """Return the same box in as few dims as possible: without dims of size 1, and with contiguous dims merged."""
        dims = [(n, *strides) for n, *strides in zip(self.shape, *self.strides, strict=True) if n != 1]
        merged: list[tuple[int, ...]] = []
        for count, *strides in dims:
            if merged and all(outer == count * inner for outer, inner in zip(merged[-1][1:], strides, strict=True)):
                merged[-1] = (merged[-1][0] * count, *strides)
            else:
                merged.append((count, *strides))
        columns = tuple(zip(*merged, strict=True)) if merged else ((),) * (1 + len(self.strides))
        return _Sides(columns[0], self.addresses, columns[1:], self.itemsize)

    def widened(self) -> _Sides:
        """Return the box with the widest possible elements.

        Widening requires that the innermost dim is contiguous and every address and stride is aligned on all sides.
        """
        if not self.shape or any(strides[-1] != self.itemsize for strides in self.strides):
            return self
        row_bytes = self.shape[-1] * self.itemsize
        aligned_values = [row_bytes, *self.addresses, *(step for strides in self.strides for step in strides[:-1])]
        word = next(word for word in WORDS if all(step % word == 0 for step in aligned_values))
        if word <= self.itemsize:
            return self
        strides = tuple((*side_strides[:-1], word) for side_strides in self.strides)
        return _Sides((*self.shape[:-1], row_bytes // word), self.addresses, strides, word)

    def split(self) -> Iterator[_Sides]:
        """Split the box into boxes of at most `RANK` dims and fewer than `MOST_ELEMENTS` elements."""
        if len(self.shape) <= RANK and self.size < MOST_ELEMENTS:
            yield self
            return
        for row in range(self.shape[0]):
            addresses = tuple(a + row * s[0] for a, s in zip(self.addresses, self.strides, strict=True))
            yield from _Sides(self.shape[1:], addresses, tuple(s[1:] for s in self.strides), self.itemsize).split()

    def call(self) -> Call:
        missing_dims = RANK - len(self.shape)
        shape = (*(1,) * missing_dims, *self.shape)
        strides = itertools.chain.from_iterable((*(0,) * missing_dims, *side_strides) for side_strides in self.strides)
        blocks = -(-self.size // THREADS)
        return Call(self.itemsize, blocks, (*self.addresses, self.size, *shape[1:], *strides))


def copies(target: Box, source: Box, target_start: int, source_start: int) -> Iterator[Run | Call]:
    """Yield the launches or plain copies that copy a box.

    `target_start` and `source_start` are the addresses of the two buffers.
    """
    if not target.size:
        return
    sides = _sides((target, target_start), (source, source_start)).joined().widened()
    if len(sides.shape) < 2 and all(strides in ((), (sides.itemsize,)) for strides in sides.strides):
        yield Run(sides.addresses[0], sides.addresses[1], sides.size * sides.itemsize)
        return
    for subbox in sides.split():
        yield subbox.call()


def _sides(*boxes: tuple[Box, int]) -> _Sides:
    itemsize = boxes[0][0].itemsize
    addresses = tuple(start + box.byte_offset for box, start in boxes)
    strides = tuple(tuple(step * itemsize for step in box.strides) for box, _ in boxes)
    return _Sides(boxes[0][0].shape, addresses, strides, itemsize)
