"""Copies of boxes as launches of the kernels of `meshgen.kernels.ptx`, or as plain copies of bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from meshgen.ccl.steps import Box
from meshgen.kernels.ptx import MOST_ELEMENTS, RANK, THREADS

WORDS = (16, 8, 4, 2, 1)  # bytes that a thread can move at once


@dataclass(frozen=True)
class Run:
    """Bytes that are contiguous on both sides."""

    target: int
    source: int
    nbytes: int


@dataclass(frozen=True)
class Call:
    """A launch of the copy kernel for elements of `itemsize` bytes: its blocks, and the value of each parameter."""

    itemsize: int
    blocks: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class _Sides:
    """A box on one or two sides: `addresses` of its first element and `strides` in bytes, of each side."""

    shape: tuple[int, ...]
    addresses: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    itemsize: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def joined(self) -> _Sides:
        """The same elements with as few dims as possible: no dims of size 1, contiguous dims merged."""
        dims = [(n, *strides) for n, *strides in zip(self.shape, *self.strides, strict=True) if n != 1]
        found: list[tuple[int, ...]] = []
        for count, *strides in dims:
            if found and all(outer == count * own for outer, own in zip(found[-1][1:], strides, strict=True)):
                found[-1] = (found[-1][0] * count, *strides)
            else:
                found.append((count, *strides))
        columns = tuple(zip(*found, strict=True)) if found else ((),) * (1 + len(self.strides))
        return _Sides(columns[0], self.addresses, columns[1:], self.itemsize)

    def widened(self) -> _Sides:
        """With the widest words possible: elements contiguous on all sides, and everything aligned."""
        if not self.shape or any(strides[-1] != self.itemsize for strides in self.strides):
            return self
        row = self.shape[-1] * self.itemsize
        steps = [row, *self.addresses, *(step for strides in self.strides for step in strides[:-1])]
        word = next(word for word in WORDS if all(step % word == 0 for step in steps))
        if word <= self.itemsize:
            return self
        strides = tuple((*own[:-1], word) for own in self.strides)
        return _Sides((*self.shape[:-1], row // word), self.addresses, strides, word)

    def pieces(self) -> Iterator[_Sides]:
        """Boxes of at most `RANK` dims and fewer than `MOST_ELEMENTS` elements."""
        if len(self.shape) <= RANK and self.size < MOST_ELEMENTS:
            yield self
            return
        for row in range(self.shape[0]):
            addresses = tuple(a + row * s[0] for a, s in zip(self.addresses, self.strides, strict=True))
            yield from _Sides(self.shape[1:], addresses, tuple(s[1:] for s in self.strides), self.itemsize).pieces()

    def call(self) -> Call:
        missing = RANK - len(self.shape)
        shape = (*(1,) * missing, *self.shape)
        strides = itertools.chain.from_iterable((*(0,) * missing, *own) for own in self.strides)
        blocks = -(-self.size // THREADS)
        return Call(self.itemsize, blocks, (*self.addresses, self.size, *shape[1:], *strides))


def copies(target: Box, source: Box, target_start: int, source_start: int) -> Iterator[Run | Call]:
    """The launches or plain copies for a copy of boxes; `start`: the address of a box's buffer."""
    if not target.size:
        return
    sides = _sides((target, target_start), (source, source_start)).joined().widened()
    if len(sides.shape) < 2 and all(strides in ((), (sides.itemsize,)) for strides in sides.strides):
        yield Run(sides.addresses[0], sides.addresses[1], sides.size * sides.itemsize)
        return
    for piece in sides.pieces():
        yield piece.call()


def _sides(*boxes: tuple[Box, int]) -> _Sides:
    itemsize = boxes[0][0].itemsize
    addresses = tuple(start + box.byte_offset for box, start in boxes)
    strides = tuple(tuple(step * itemsize for step in box.strides) for box, _ in boxes)
    return _Sides(boxes[0][0].shape, addresses, strides, itemsize)
