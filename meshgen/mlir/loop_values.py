"""`Spread`, a value with one dim per loop of a structured operation, and functions that reshape, slice and reduce it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.mlir.arith.builder import Builder

Loops = tuple[int, ...]


class Spread(NamedTuple):
    """A value computed inside a loop nest, stored over the loops that it depends on: the loop `loops[d]` indexes dim d."""

    value: Value
    loops: Loops


def transposed(builder: Builder, value: Value, order: Sequence[int]) -> Value:
    """Transpose a value so that dim i of the result is dim `order[i]`."""
    if list(order) == list(range(len(order))):
        return value
    kind = value.type.with_shape(value.type.shape[dim] for dim in order)
    return builder.lazy("transpose", [value], kind, perm=tuple(order))


def over(builder: Builder, spread: Spread, loops: Sequence[int], sizes: Sequence[int | None]) -> Value:
    """Transpose and broadcast a value so that it has one dim per loop in `loops`, in this order."""
    order = sorted(range(len(spread.loops)), key=lambda dim: loops.index(spread.loops[dim]))
    value = transposed(builder, spread.value, order)
    if len(order) == len(loops):
        return value
    return builder.broadcast(value, [sizes[loop] for loop in loops], [loops.index(spread.loops[dim]) for dim in order])


def sliced(builder: Builder, value: Value, start: Sequence[int], limit: Sequence[int], stride: Sequence[int]) -> Value:
    """Slice a value. Returns the value unchanged if the slice covers all of it."""
    if not any(start) and tuple(limit) == value.type.shape and all(step == 1 for step in stride):
        return value
    shape = [max(0, -(-(b - a) // s)) for a, b, s in zip(start, limit, stride, strict=True)]
    attrs = {"start": tuple(start), "limit": tuple(limit), "stride": tuple(stride)}
    return builder.emit("slice", [value], value.type.with_shape(shape), **attrs)


def reshaped_dim(builder: Builder, value: Value, dim: int, parts: Sequence[int | None]) -> Value:
    """Reshape dim `dim` into dims of the sizes `parts`. If `parts` is empty, the dim, which must have size 1, is
    dropped.
    """
    return builder.reshape(value, (*value.type.shape[:dim], *parts, *value.type.shape[dim + 1 :]))


def reduced(builder: Builder, spread: Spread, kind: str, kept: Sequence[int]) -> Spread:
    """Reduce a value over all loops except those in `kept`."""
    dims = tuple(dim for dim, loop in enumerate(spread.loops) if loop not in kept)
    if not dims:
        return spread
    value, loops = spread.value, tuple(loop for loop in spread.loops if loop in kept)
    if all(value.type.shape[dim] == 1 for dim in dims):
        for dim in reversed(dims):
            value = reshaped_dim(builder, value, dim, [])
        return Spread(value, loops)
    return Spread(builder.reduce(kind, value, dims), loops)


def in_order(builder: Builder, spread: Spread, order: Loops) -> Value:
    """Transpose a value so that its dims are the loops in `order`."""
    return transposed(builder, spread.value, [spread.loops.index(loop) for loop in order])


def fold_region(kind: str, dtype: str) -> Graph:
    """Return the region of a reduction that applies the binary op `kind` to scalars of type `dtype`."""
    scalar = TensorType((), dtype)
    region = Graph("", [Value(scalar), Value(scalar)])
    region.outputs = list(region.add(kind, region.inputs, [scalar]).results)
    return region
