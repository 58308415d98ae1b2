"""Represent values as rows of larger ones: a slice is a view, and is emitted only if a user needs it by itself.

Example, x : f32[1024]: `x[2:]` and `x[:-2]` have 1022 rows, whose tiles begin elsewhere than x's, so an op that combines
them would move rows for that alone. In the frame of x, with x's size and tiles, they are x shifted by two rows and x itself;
the other rows of the frame may hold anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.builder import Builder, Scalar
from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ir.predicates import is_constant
from meshgen.sharding.partitioners.builder import INDEX


class Frame(NamedTuple):
    """A dim as part of a longer one: its row r is row `at` + r of `size` rows."""

    size: int
    at: int = 0


class View(NamedTuple):
    """A view, whose row r along dim d is row `at[d]` + r of `value`."""

    value: Value
    at: tuple[int, ...]


class FrameWriter(Builder):
    """Rewrites a graph, with values as views of others."""

    def __init__(self, old: Graph) -> None:
        super().__init__(Graph(old.name, old.inputs))
        self.producers = old.index.producers
        self._views: dict[Value, View] = {}
        self._seen: set[Value] = set(old.values())  # values that others refer to
        self._made: dict[tuple[Value, tuple[Frame, ...]], Value] = {}
        self._shifted: dict[tuple[Value, tuple[int, ...], tuple[int, ...]], Value] = {}

    def set(self, old: Value, new: Value, at: Sequence[int]) -> None:
        """Record that rows of `new` are `old`; if they are all of it and `new` is unnamed yet, it is `old` itself."""
        last = self.graph.nodes[-1] if self.graph.nodes else None
        if new.type == old.type and new not in self._seen and last is not None and last.results == [new]:
            last.results[:] = [old]
            return
        self._seen.add(new)
        self._views[old] = View(new, tuple(at))

    def view(self, value: Value) -> View:
        return self._views.get(value, View(value, (0,) * value.type.rank))

    def is_view(self, value: Value) -> bool:
        """Whether a value is a view, not emitted by itself."""
        return value in self._views

    def plain(self, value: Value) -> Value:
        """The value itself, emitted here if it was a view so far."""
        if not self.is_view(value):
            return value
        view, sizes = self._views.pop(value), value.type.sizes
        limit = tuple(start + size for start, size in zip(view.at, sizes, strict=True))
        around, self.loc = self.loc, self.producers[value].loc
        self.slice(view.value, view.at, limit)
        self.make([value])
        self.loc = around
        return value

    def framed(self, value: Value, frames: Sequence[Frame]) -> Value:
        """The value in frames, one per dim; the other rows hold anything."""
        key = value, tuple(frames)
        if key not in self._made:
            self._made[key] = self._framed(value, frames)
            self._seen.add(self._made[key])
        return self._made[key]

    def _framed(self, value: Value, frames: Sequence[Frame]) -> Value:
        if (spread := self._spread(value, frames)) is not None:
            return spread
        if self.is_view(value) and not self._is_near(value, frames):
            self.plain(value)
        view, sizes = self.view(value), self.view(value).value.type.sizes
        lows = [frame.at - at for frame, at in zip(frames, view.at, strict=True)]
        wanted = tuple(frame.size for frame in frames)
        is_shift = [new == old for new, old in zip(wanted, sizes, strict=True)]
        # Shifts first: users may differ in the rows that they slice off.
        shifted = self._moved(view.value, _where(is_shift, lows), sizes)
        return self._moved(shifted, _where([not each for each in is_shift], lows), wanted)

    def _moved(self, value: Value, low: tuple[int, ...], sizes: tuple[int, ...]) -> Value:
        """A value with its rows shifted by `low`, in a tensor of other sizes."""
        if value.type.sizes == sizes and not any(low):
            return value
        if (value, low, sizes) not in self._shifted:
            high = tuple(new - old - first for new, old, first in zip(sizes, value.type.sizes, low, strict=True))
            fill = self.splat(0, TensorType((), value.type.dtype))
            self._shifted[value, low, sizes] = self.pad(value, fill, low, high)
            self._seen.add(self._shifted[value, low, sizes])
        return self._shifted[value, low, sizes]

    def _spread(self, value: Value, frames: Sequence[Frame]) -> Value | None:
        """A value that is constant along all dims whose size changes, made again with the other size."""
        node = self.producers.get(value)
        if self.is_view(value) or node is None or node.op not in ("broadcast_in_dim", "constant"):
            return None
        kind = value.type.with_shape(frame.size for frame in frames)
        if is_constant(node):
            array = np.asarray(node.attrs.value)
            return None if any(array.strides) and array.size > 1 else self.splat(array.flat[0], kind)
        (source,) = node.operands
        tied = {t for d, t in enumerate(node.attrs.dims) if source.type.sizes[d] == value.type.sizes[t]}
        if any(frames[d] != Frame(value.type.sizes[d]) for d in tied):
            return None
        return self.spread(self.plain(source), kind.shape, node.attrs.dims)

    def _is_near(self, value: Value, frames: Sequence[Frame]) -> bool:
        """Whether along each dim few rows are moved, or the value has nearly all rows of what it is a view of."""
        view = self.view(value)
        for frame, at, size, rows in zip(frames, view.at, view.value.type.sizes, value.type.sizes, strict=True):
            shift, most = abs(frame.at - at), max(size, frame.size)
            near = DEFAULT.rewriting.near
            if min(shift, most - shift) * near > most and (size - rows) * near > size:
                return False
        return True

    def inside(self, kind: TensorType, dim: int, first: int, stop: int) -> Value | None:
        """Whether an element of a tensor is in rows [first, stop) of a dim; None if all are."""
        index = TensorType((kind.sizes[dim],), INDEX)
        ends = [("GE", first)] * (first > 0) + [("LT", stop)] * (stop < kind.sizes[dim])
        tests: list[Value] = []
        for direction, end in ends:
            row = self.emit("iota", [], index, dim=0)
            tests.append(self.compare(direction, row, self.splat(end, index)))
        if len(tests) == 2:
            tests = [self.elementwise("and", *tests)]
        return self.spread(tests[0], kind.shape, (dim,)) if tests else None

    def kept(self, value: Value, dim: int, first: int, stop: int, other: Value | Scalar) -> Value:
        """Rows [first, stop) of a value along a dim, and those of another value, or a scalar, elsewhere."""
        mask = self.inside(value.type, dim, first, stop)
        if mask is None:
            return value
        rest = other if isinstance(other, Value) else self.splat(other, value.type)
        return self.elementwise("select", mask, value, rest)


def _where(mask: Sequence[bool], numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(number if is_in else 0 for is_in, number in zip(mask, numbers, strict=True))
