"""The graph builder: appends nodes to a graph, with a method for each common op that infers result types and
attributes.

Subclasses add methods for per-device tiles (`sharding/partitioners/builder.py`), for views of rows, and for the
attributes that the parser reads (`mlir/arith/builder.py`).
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
    """Appends nodes to `graph`. Each new node and its results get the source location `loc`."""

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
        """Append a node with one result per entry of `types`, and return the results. All other methods call this
        method.
        """
        results = [Value(t, loc=self.loc) for t in types]
        self.add(Node(op, list(operands), results, attrs, self.loc, regions=regions, notes=notes))
        return results

    def add(self, node: Node) -> None:
        """Append an existing node."""
        self.graph.nodes.append(node)

    def emit(self, op: str, operands: Sequence[Value], result: TensorType, /, **attrs: Any) -> Value:
        """Append a node with one result and return the result."""
        return self.append(op, operands, [result], attrs)[0]

    def make(self, results: Sequence[Value]) -> None:
        """Replace the result values of the last node by `results`. The replaced values must have no uses yet."""
        self.graph.nodes[-1].results[:] = results

    def elementwise(self, op: str, *operands: Value, dtype: str = "") -> Value:
        """Append an element-wise op on operands of equal shape.

        The element type of the result is `dtype`; by default that of the last operand.
        """
        result_type = operands[-1].type
        return self.emit(op, operands, TensorType(result_type.shape, dtype) if dtype else result_type)

    def compare(self, direction: str, left: Value, right: Value) -> Value:
        """Compare two values and return an i1 tensor; floats compare by value, not in total order.

        `direction` is `LT`, `LE`, `EQ`, `NE`, `GE` or `GT`.
        """
        result = TensorType(left.type.shape, "i1")
        compare_type = "FLOAT" if is_float(left.type.dtype) else "SIGNED"
        return self.emit("compare", [left, right], result, direction=direction, compare_type=compare_type)

    def splat(self, scalar: Scalar | complex | np.ndarray[Any, Any], like: TensorType) -> Value:
        """Append a constant of type `like` with all elements equal to `scalar`."""
        value = np.broadcast_to(np.asarray(scalar, like.numpy_dtype), like.sizes)
        return self.emit("constant", [], like, value=value)

    def spread(self, value: Value, shape: Sequence[int | None], dims: Sequence[int] = ()) -> Value:
        """Broadcast `value` to `shape`: dim i of `value` becomes dim `dims[i]` of the result.

        Returns `value` unchanged if `shape` is 0-d.
        """
        if not shape:
            return value
        return self.emit("broadcast_in_dim", [value], value.type.with_shape(shape), dims=tuple(dims))

    def broadcast_scalar(self, scalar: Scalar, like: TensorType) -> Value:
        """Return a tensor of type `like` with all elements equal to `scalar`, without memory for its elements.

        The tensor is the broadcast of a 0-d constant, so kernels need not load it.
        """
        return self.spread(self.splat(scalar, like.with_shape(())), like.shape)

    def convert(self, value: Value, dtype: str) -> Value:
        """Convert a value to element type `dtype`, or return it unchanged if it has this type already."""
        if value.type.dtype == dtype:
            return value
        return self.emit("convert", [value], TensorType(value.type.shape, dtype))

    def bits(self, value: Value, dtype: str) -> Value:
        """Reinterpret the bits of each element as element type `dtype`, which must have the same width."""
        if value.type.dtype == dtype:
            return value
        return self.emit("bitcast_convert", [value], TensorType(value.type.shape, dtype))

    def reshape(self, value: Value, shape: Sequence[int | None]) -> Value:
        """Append a reshape to `shape`. The elements keep their row-major order."""
        return self.emit("reshape", [value], value.type.with_shape(shape))

    def shaped(self, value: Value, shape: Sequence[int | None]) -> Value:
        """Reshape a value, or return it unchanged if it has this shape already."""
        return value if value.type.shape == tuple(shape) else self.reshape(value, shape)

    def permuted(self, value: Value, perm: Sequence[int]) -> Value:
        """Transpose a value by `perm`, or return it unchanged if `perm` is the identity."""
        return value if list(perm) == sorted(perm) else self.transpose(value, perm)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """Append a transpose: dim d of the result is dim `perm[d]` of `value`."""
        shape = [value.type.shape[dim] for dim in perm]
        return self.emit("transpose", [value], value.type.with_shape(shape), perm=tuple(perm))

    def slice(self, value: Value, start: Sequence[int], limit: Sequence[int]) -> Value:
        """Append a slice of the elements [`start`, `limit`) of each dim."""
        result_type = value.type.with_shape(stop - first for first, stop in zip(start, limit, strict=True))
        return self.emit(
            "slice", [value], result_type, start=tuple(start), limit=tuple(limit), stride=(1,) * result_type.rank
        )

    def rows(self, value: Value, dim: int, start: int, stop: int) -> Value:
        """Append a slice of the index range [`start`, `stop`) along dim `dim`."""
        first, limit = [0] * value.type.rank, [*value.type.sizes]
        first[dim], limit[dim] = start, stop
        return self.slice(value, first, limit)

    def pad(self, value: Value, fill: Value, low: Sequence[int], high: Sequence[int]) -> Value:
        """Pad each dim with `low` elements before and `high` elements after; negative amounts crop. `fill` is 0-d."""
        sizes = zip(low, value.type.sizes, high, strict=True)
        result_type = value.type.with_shape(before + size + after for before, size, after in sizes)
        return self.emit(
            "pad", [value, fill], result_type, low=tuple(low), high=tuple(high), interior=(0,) * result_type.rank
        )

    def concatenate(self, values: Sequence[Value], dim: int) -> Value:
        """Append a concatenation of `values` along dim `dim`."""
        shape = list(values[0].type.shape)
        shape[dim] = sum(value.type.sizes[dim] for value in values)
        return self.emit("concatenate", values, values[0].type.with_shape(shape), dim=dim)
