"""The builder of graphs: appends nodes, one op with its types and attributes per method.

Specialisations add what is their own: the idioms of tiles (`sharding/partitioners/builder.py`), views of rows, and the
attributes of the text that is read (`mlir/arith/payload.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.errors import Location
from meshgen.ir.graph import Graph, Node, TensorType, Value, is_float
from meshgen.ir.notes import NO_NOTES, Notes

Scalar = bool | int | float


@dataclass
class Builder:
    """Appends nodes to `graph`; they and their results have the location `loc`."""

    graph: Graph
    loc: Location | None = None

    def append(
        self,
        op: str,
        operands: Sequence[Value],
        types: Sequence[TensorType],
        attrs: dict[str, Any],
        regions: tuple[Graph, ...] = (),
        notes: Notes = NO_NOTES,
    ) -> list[Value]:
        """Append a node of any number of results; returns them. All other methods go through this one."""
        results = [Value(t, loc=self.loc) for t in types]
        self.add(Node(op, list(operands), results, attrs, self.loc, regions=regions, notes=notes))
        return results

    def add(self, node: Node) -> None:
        """Append a node that exists."""
        self.graph.nodes.append(node)

    def emit(self, op: str, operands: Sequence[Value], result: TensorType, /, **attrs: Any) -> Value:
        """Append a node with one result; returns it."""
        return self.append(op, operands, [result], attrs)[0]

    def make(self, results: Sequence[Value]) -> None:
        """Let the last node have these results in place of its own, which have no use yet."""
        self.graph.nodes[-1].results[:] = results

    def elementwise(self, op: str, *operands: Value, dtype: str = "") -> Value:
        """An op on operands of one shape; its result has the element type of the last one unless given."""
        kind = operands[-1].type
        return self.emit(op, operands, TensorType(kind.shape, dtype) if dtype else kind)

    def compare(self, direction: str, left: Value, right: Value) -> Value:
        """Flags; `direction` is `LT`, `LE`, `EQ`, `NE`, `GE` or `GT`; floats are compared by their order, not as bits."""
        result = TensorType(left.type.shape, "i1")
        kind = "FLOAT" if is_float(left.type.dtype) else "SIGNED"
        return self.emit("compare", [left, right], result, direction=direction, compare_type=kind)

    def splat(self, scalar: Scalar | complex | np.ndarray[Any, Any], like: TensorType) -> Value:
        """A constant that has the same element everywhere."""
        value = np.broadcast_to(np.asarray(scalar, like.numpy_dtype), like.sizes)
        return self.emit("constant", [], like, value=value)

    def spread(self, value: Value, shape: Sequence[int | None], dims: Sequence[int] = ()) -> Value:
        """A value broadcast to a shape, of which `dims` are its own dims; itself where both are 0-d."""
        if not shape:
            return value
        return self.emit("broadcast_in_dim", [value], value.type.with_shape(shape), dims=tuple(dims))

    def broadcast_scalar(self, scalar: Scalar, like: TensorType) -> Value:
        """The same element everywhere, as a 0-d constant that is broadcast: no kernel reads it from memory."""
        return self.spread(self.splat(scalar, like.with_shape(())), like.shape)

    def convert(self, value: Value, dtype: str) -> Value:
        """The value in another element type."""
        if value.type.dtype == dtype:
            return value
        return self.emit("convert", [value], TensorType(value.type.shape, dtype))

    def bits(self, value: Value, dtype: str) -> Value:
        """The same bits as another element type of the same width."""
        if value.type.dtype == dtype:
            return value
        return self.emit("bitcast_convert", [value], TensorType(value.type.shape, dtype))

    def reshape(self, value: Value, shape: Sequence[int | None]) -> Value:
        """The same elements, in the same order, in another shape."""
        return self.emit("reshape", [value], value.type.with_shape(shape))

    def shaped(self, value: Value, shape: Sequence[int | None]) -> Value:
        """The value in a shape; itself if it has that."""
        return value if value.type.shape == tuple(shape) else self.reshape(value, shape)

    def permuted(self, value: Value, perm: Sequence[int]) -> Value:
        """As `transpose`; the value itself if its dims stay in order."""
        return value if list(perm) == sorted(perm) else self.transpose(value, perm)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """Dim d of the result is dim `perm[d]` of the value."""
        shape = [value.type.shape[dim] for dim in perm]
        return self.emit("transpose", [value], value.type.with_shape(shape), perm=tuple(perm))

    def slice(self, value: Value, start: Sequence[int], limit: Sequence[int]) -> Value:
        """Elements [start, limit) of each dim."""
        kind = value.type.with_shape(stop - first for first, stop in zip(start, limit, strict=True))
        return self.emit("slice", [value], kind, start=tuple(start), limit=tuple(limit), stride=(1,) * kind.rank)

    def rows(self, value: Value, dim: int, start: int, stop: int) -> Value:
        """Rows [start, stop) of a dim."""
        first, limit = [0] * value.type.rank, [*value.type.sizes]
        first[dim], limit[dim] = start, stop
        return self.slice(value, first, limit)

    def pad(self, value: Value, fill: Value, low: Sequence[int], high: Sequence[int]) -> Value:
        """`low` and `high` elements of a 0-d value before and after each dim; negative numbers cut off."""
        sizes = zip(low, value.type.sizes, high, strict=True)
        kind = value.type.with_shape(before + size + after for before, size, after in sizes)
        return self.emit("pad", [value, fill], kind, low=tuple(low), high=tuple(high), interior=(0,) * kind.rank)

    def concatenate(self, values: Sequence[Value], dim: int) -> Value:
        """The values one after the other along a dim."""
        shape = list(values[0].type.shape)
        shape[dim] = sum(value.type.sizes[dim] for value in values)
        return self.emit("concatenate", values, values[0].type.with_shape(shape), dim=dim)
