"""Represent values as rows of larger ones: a slice is a view, and is emitted only if a user needs it by itself.

Example, x : f32[1024]: `x[2:]` and `x[:-2]` have 1022 rows, whose tiles begin elsewhere than x's, so an op that combines
them would move rows for that alone. In the frame of x, with x's size and tiles, they are x shifted by two rows and x itself;
the other rows of the frame may hold anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.predicates import is_constant
from meshgen.records import dataclass
from meshgen.sharding.partitioners.builder import INDEX, Scalar


@dataclass(frozen=True)
class Frame:
    """A dim as part of a longer one: its row r is row `at` + r of `size` rows."""

    size: int
    at: int = 0


@dataclass(frozen=True)
class View:
    """A view, whose row r along dim d is row `at[d]` + r of `value`."""

    value: Value
    at: tuple[int, ...]


class FrameWriter:
    """Rewrites a graph, with values as views of others."""

    def __init__(self, old: Graph) -> None:
        self.graph = Graph(old.name, old.inputs)
        self.producers = old.producers()
        self._views: dict[Value, View] = {}
        self._seen: set[Value] = set(old.values())  # values that others refer to
        self._made: dict[tuple[Value, tuple[Frame, ...]], Value] = {}
        self._shifted: dict[tuple[Value, tuple[int, ...], tuple[int, ...]], Value] = {}

    def emit(self, op: str, operands: Sequence[Value], kind: TensorType, like: Node, /, **attrs: Any) -> Value:
        """Append a node in place of `like`; returns its result."""
        result = Value(kind, "", loc=like.loc)
        self.graph.nodes.append(Node(op, list(operands), [result], attrs, like.loc))
        return result

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
        attrs = {"start": view.at, "limit": limit, "stride": (1,) * len(sizes)}
        self.graph.nodes.append(Node("slice", [view.value], [value], attrs, self.producers[value].loc))
        return value

    def framed(self, value: Value, frames: Sequence[Frame], like: Node) -> Value:
        """The value in frames, one per dim; the other rows hold anything."""
        key = value, tuple(frames)
        if key not in self._made:
            self._made[key] = self._framed(value, frames, like)
            self._seen.add(self._made[key])
        return self._made[key]

    def _framed(self, value: Value, frames: Sequence[Frame], like: Node) -> Value:
        if (spread := self._spread(value, frames, like)) is not None:
            return spread
        if self.is_view(value) and not self._is_near(value, frames):
            self.plain(value)
        view, sizes = self.view(value), self.view(value).value.type.sizes
        lows = [frame.at - at for frame, at in zip(frames, view.at, strict=True)]
        wanted = tuple(frame.size for frame in frames)
        is_shift = [new == old for new, old in zip(wanted, sizes, strict=True)]
        # Shifts first: users may differ in the rows that they slice off.
        shifted = self._moved(view.value, _where(is_shift, lows), sizes, like)
        return self._moved(shifted, _where([not each for each in is_shift], lows), wanted, like)

    def _moved(self, value: Value, low: tuple[int, ...], sizes: tuple[int, ...], like: Node) -> Value:
        """A value with its rows shifted by `low`, in a tensor of other sizes."""
        if value.type.sizes == sizes and not any(low):
            return value
        if (value, low, sizes) not in self._shifted:
            high = tuple(new - old - first for new, old, first in zip(sizes, value.type.sizes, low, strict=True))
            fill = self.splat(0, TensorType((), value.type.dtype), like)
            attrs = {"low": low, "high": high, "interior": (0,) * len(low)}
            self._shifted[value, low, sizes] = self.emit(
                "pad", [value, fill], value.type.with_shape(sizes), like, **attrs
            )
            self._seen.add(self._shifted[value, low, sizes])
        return self._shifted[value, low, sizes]

    def _spread(self, value: Value, frames: Sequence[Frame], like: Node) -> Value | None:
        """A value that is constant along all dims whose size changes, made anew with the other size."""
        node = self.producers.get(value)
        if self.is_view(value) or node is None or node.op not in ("broadcast_in_dim", "constant"):
            return None
        kind = value.type.with_shape(frame.size for frame in frames)
        if is_constant(node):
            array = np.asarray(node.attrs.value)
            return None if any(array.strides) and array.size > 1 else self.splat(array.flat[0], kind, like)
        (source,) = node.operands
        tied = {t for d, t in enumerate(node.attrs.dims) if source.type.sizes[d] == value.type.sizes[t]}
        if any(frames[d] != Frame(value.type.sizes[d]) for d in tied):
            return None
        return self.emit("broadcast_in_dim", [self.plain(source)], kind, like, **node.attrs)

    def _is_near(self, value: Value, frames: Sequence[Frame]) -> bool:
        """Whether along each dim few rows are moved, or the value has nearly all rows of what it is a view of."""
        view = self.view(value)
        for frame, at, size, rows in zip(frames, view.at, view.value.type.sizes, value.type.sizes, strict=True):
            shift, most = abs(frame.at - at), max(size, frame.size)
            near = DEFAULT.rewriting.near
            if min(shift, most - shift) * near > most and (size - rows) * near > size:
                return False
        return True

    def splat(self, scalar: Any, kind: TensorType, like: Node) -> Value:
        value = np.broadcast_to(np.asarray(scalar, kind.numpy_dtype), kind.sizes)
        return self.emit("constant", [], kind, like, value=value)

    def inside(self, kind: TensorType, dim: int, first: int, stop: int, like: Node) -> Value | None:
        """Whether an element of a tensor is in rows [first, stop) of a dim; None if all are."""
        index, flags = (TensorType((kind.sizes[dim],), name) for name in (INDEX, "i1"))
        ends = [("GE", first)] * (first > 0) + [("LT", stop)] * (stop < kind.sizes[dim])
        tests: list[Value] = []
        for direction, end in ends:
            row = self.emit("iota", [], index, like, dim=0)
            attrs = {"direction": direction, "compare_type": "SIGNED"}
            tests.append(self.emit("compare", [row, self.splat(end, index, like)], flags, like, **attrs))
        if len(tests) == 2:
            tests = [self.emit("and", tests, flags, like)]
        shape = TensorType(kind.shape, "i1")
        return self.emit("broadcast_in_dim", tests, shape, like, dims=(dim,)) if tests else None

    def kept(self, value: Value, dim: int, first: int, stop: int, other: Value | Scalar, like: Node) -> Value:
        """Rows [first, stop) of a value along a dim, and those of another value, or a scalar, elsewhere."""
        mask = self.inside(value.type, dim, first, stop, like)
        if mask is None:
            return value
        rest = other if isinstance(other, Value) else self.splat(other, value.type, like)
        return self.emit("select", [mask, value, rest], value.type, like)


def _where(mask: Sequence[bool], numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(number if is_in else 0 for is_in, number in zip(mask, numbers, strict=True))
