"""Represent values as rows of larger values. A slice is then a view, which is emitted only if a user needs the slice
itself.

Example, x : f32[1024]: `x[2:]` and `x[:-2]` have 1022 rows, and their tiles begin elsewhere than the tiles of x. An op
that combines both slices would have to move rows just to align their tiles. In the frame of x, with its size and tiles,
they are x shifted by two rows, and x itself; the other rows of the frame may hold anything.
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
    """The position of a dim within a longer dim (its frame): row r of the dim is row `at` + r of the frame's `size`
    rows.
    """

    size: int
    at: int = 0


class View(NamedTuple):
    """A value that is not emitted, since it consists of rows of `value`: row r along dim d is row `at[d]` + r of
    `value`.
    """

    value: Value
    at: tuple[int, ...]


class FrameWriter(Builder):
    """Builder that rewrites a graph, in which values may be views (`View`) of other values."""

    def __init__(self, old: Graph) -> None:
        super().__init__(Graph(old.name, old.inputs))
        self.producers = old.index.producers
        self._views: dict[Value, View] = {}
        self._seen: set[Value] = set(old.values())  # values that other nodes refer to, so `set` must not replace them
        self._made: dict[tuple[Value, tuple[Frame, ...]], Value] = {}
        self._shifted: dict[tuple[Value, tuple[int, ...], tuple[int, ...]], Value] = {}

    def set(self, old: Value, new: Value, at: Sequence[int]) -> None:
        """Record that the value `old` consists of the rows of `new` from `at` on.

        If `old` is all of `new`, and no other node refers to `new` yet, `old` takes the place of `new` in the graph.
        """
        last = self.graph.nodes[-1] if self.graph.nodes else None
        if new.type == old.type and new not in self._seen and last is not None and last.results == [new]:
            last.results[:] = [old]
            return
        self._seen.add(new)
        self._views[old] = View(new, tuple(at))

    def view(self, value: Value) -> View:
        return self._views.get(value, View(value, (0,) * value.type.rank))

    def is_view(self, value: Value) -> bool:
        """Whether a value is a view that is not emitted itself."""
        return value in self._views

    def plain(self, value: Value) -> Value:
        """Return the value itself, emitted now if it was a view."""
        if not self.is_view(value):
            return value
        view, sizes = self._views.pop(value), value.type.sizes
        limit = tuple(start + size for start, size in zip(view.at, sizes, strict=True))
        saved_loc, self.loc = self.loc, self.producers[value].loc
        self.slice(view.value, view.at, limit)
        self.make([value])
        self.loc = saved_loc
        return value

    def framed(self, value: Value, frames: Sequence[Frame]) -> Value:
        """Return the value extended to `frames`, one per dim.

        The rows that the value does not have may hold anything.
        """
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
        frame_sizes = tuple(frame.size for frame in frames)
        is_shift = [new == old for new, old in zip(frame_sizes, sizes, strict=True)]
        # Shift first: users may differ only in the rows that they slice off afterwards.
        shifted = self._moved(view.value, _where(is_shift, lows), sizes)
        return self._moved(shifted, _where([not is_same for is_same in is_shift], lows), frame_sizes)

    def _moved(self, value: Value, low: tuple[int, ...], sizes: tuple[int, ...]) -> Value:
        """Return a value with its rows shifted by `low`, in a tensor of size `sizes`."""
        if value.type.sizes == sizes and not any(low):
            return value
        if (value, low, sizes) not in self._shifted:
            high = tuple(new - old - first for new, old, first in zip(sizes, value.type.sizes, low, strict=True))
            fill = self.splat(0, TensorType((), value.type.dtype))
            self._shifted[value, low, sizes] = self.pad(value, fill, low, high)
            self._seen.add(self._shifted[value, low, sizes])
        return self._shifted[value, low, sizes]

    def _spread(self, value: Value, frames: Sequence[Frame]) -> Value | None:
        """Return the value with the frames' sizes if it is constant along all dims whose size changes, else None."""
        node = self.producers.get(value)
        if self.is_view(value) or node is None or node.op not in ("broadcast_in_dim", "constant"):
            return None
        tensor_type = value.type.with_shape(frame.size for frame in frames)
        if is_constant(node):
            array = np.asarray(node.attrs.value)
            return None if any(array.strides) and array.size > 1 else self.splat(array.flat[0], tensor_type)
        (source,) = node.operands
        tied = {t for d, t in enumerate(node.attrs.dims) if source.type.sizes[d] == value.type.sizes[t]}
        if any(frames[d] != Frame(value.type.sizes[d]) for d in tied):
            return None
        return self.spread(self.plain(source), tensor_type.shape, node.attrs.dims)

    def _is_near(self, value: Value, frames: Sequence[Frame]) -> bool:
        """Whether few rows move along each dim, or the value has nearly all rows of the value that it is a view of."""
        view = self.view(value)
        for frame, at, size, rows in zip(frames, view.at, view.value.type.sizes, value.type.sizes, strict=True):
            shift, most = abs(frame.at - at), max(size, frame.size)
            near = DEFAULT.rewriting.near
            if min(shift, most - shift) * near > most and (size - rows) * near > size:
                return False
        return True

    def inside(self, tensor_type: TensorType, dim: int, first: int, stop: int) -> Value | None:
        """Return a mask of the elements in rows [first, stop) of a dim, or None if these are all rows."""
        index = TensorType((tensor_type.sizes[dim],), INDEX)
        ends = [("GE", first)] * (first > 0) + [("LT", stop)] * (stop < tensor_type.sizes[dim])
        tests: list[Value] = []
        for direction, end in ends:
            row = self.emit("iota", [], index, dim=0)
            tests.append(self.compare(direction, row, self.splat(end, index)))
        if len(tests) == 2:
            tests = [self.elementwise("and", *tests)]
        return self.spread(tests[0], tensor_type.shape, (dim,)) if tests else None

    def kept(self, value: Value, dim: int, first: int, stop: int, other: Value | Scalar) -> Value:
        """Return rows [first, stop) of a value along a dim, with the rows of `other` (a value or a scalar)
        elsewhere.
        """
        mask = self.inside(value.type, dim, first, stop)
        if mask is None:
            return value
        rest = other if isinstance(other, Value) else self.splat(other, value.type)
        return self.elementwise("select", mask, value, rest)


def _where(mask: Sequence[bool], numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(number if is_in else 0 for is_in, number in zip(mask, numbers, strict=True))
