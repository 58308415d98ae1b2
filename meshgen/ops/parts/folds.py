"""Split reductions and split cumulative reductions (scans)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.matchers import Producer
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.evaluate.window import cumulative_dim, fold_kind
from meshgen.ops.parts.base import Parts, cut, even_counts
from meshgen.ops.precision import accumulator_type


@dataclass(frozen=True)
class _Dims:
    """The dims of a reduction, and the dim to split.

    Attributes:
        shape: the operand shape. Adjacent reduced dims are merged into one.
        dims: the reduced dims of `shape`.
        cut: the dim of `shape` that is split.
        counts: the possible numbers of parts.
    """

    shape: tuple[int, ...]
    dims: tuple[int, ...]
    cut: int
    counts: Sequence[int]

    @staticmethod
    def of(node: Node) -> _Dims:
        sizes, dims = node.operands[0].type.sizes, tuple(sorted(node.attrs.dims))
        if dims == tuple(range(dims[0], dims[-1] + 1)):
            sizes = (*sizes[: dims[0]], math.prod(sizes[d] for d in dims), *sizes[dims[-1] + 1 :])
            dims = dims[:1]
        longest = max(dims, key=lambda d: (sizes[d], -d))
        other_size = math.prod(sizes[d] for d in dims if d != longest)
        return _Dims(
            sizes, dims, longest, even_counts(sizes[longest], -(-DEFAULT.fusion.split_least // max(1, other_size)))
        )

    @property
    def of_parts(self) -> tuple[int, ...]:
        """The dims that the partial reductions reduce, in the shape of the split operand."""
        return tuple(d + (d >= self.cut) for d in self.dims)

    @property
    def place(self) -> int:
        """The dim of the partial results that enumerates the parts."""
        return sum(d not in self.dims for d in range(self.cut))

    def pieces(self, builder: Builder, value: Value, count: int) -> tuple[Value, TensorType]:
        """Split a value into parts. Returns the value with the type that the partial results have after reduction."""
        pieces = cut(builder, value, self.cut, count, self.shape)
        return pieces, pieces.type.with_shape(n for d, n in enumerate(pieces.type.sizes) if d not in self.of_parts)


def _fold_type(kind: str, dtype: str) -> str:
    """Return the element type of the partial results.

    Narrow floats are summed in f32 and rounded once at the end. A maximum or minimum is exact in the type itself.
    """
    return dtype if kind in ("maximum", "minimum") else accumulator_type(dtype)


def reduce(node: Node, producer: Producer) -> Parts | None:
    """Split a `reduce`. The parts start from the neutral element; only the combination starts from the initial value."""
    if not node.attrs.dims:
        return None
    (value, init), kind, dims, result = node.operands, node.attrs.kind, _Dims.of(node), node.result.type
    wide = _fold_type(kind, result.dtype)

    def partial(builder: Builder, count: int) -> list[Value]:
        split_value, partial_type = dims.pieces(builder, builder.convert(value, wide), count)
        start = builder.splat(neutral(kind, wide), TensorType((), wide))
        return [builder.emit("reduce", [split_value, start], partial_type, dims=dims.of_parts, kind=kind)]

    def combine(builder: Builder, partials: list[Value]) -> list[Value]:
        operands = [partials[0], builder.convert(init, wide)]
        folded = builder.emit("reduce", operands, TensorType(result.shape, wide), dims=(dims.place,), kind=kind)
        return [builder.convert(folded, result.dtype)]

    return Parts(dims.counts, partial, combine)


def reduce_region(node: Node, producer: Producer) -> Parts | None:
    """Split a `reduce_region`. Parts and combination start from the initial values; StableHLO allows repeated use of
    them.
    """
    if not node.attrs.dims:
        return None
    half, dims = len(node.operands) // 2, _Dims.of(node)
    values, inits = node.operands[:half], node.operands[half:]

    def partial(builder: Builder, count: int) -> list[Value]:
        split_values, partial_types = zip(*(dims.pieces(builder, value, count) for value in values), strict=True)
        return builder.append(node.op, [*split_values, *inits], partial_types, {"dims": dims.of_parts}, node.regions)

    def combine(builder: Builder, partials: list[Value]) -> list[Value]:
        result_types = [value.type for value in node.results]
        return builder.append(node.op, [*partials, *inits], result_types, {"dims": (dims.place,)}, node.regions)

    return Parts(dims.counts, partial, combine)


def cumulative(node: Node, producer: Producer) -> Parts | None:
    """Split a `reduce_window` that is a scan: scan each part, then add the scan of the preceding parts' totals."""
    scan = cumulative_dim(node, producer(node.operands[-1]))
    if scan is None:
        return None
    dim, kind = scan, fold_kind(node.regions[0])
    assert kind is not None, "a cumulative reduction is a plain one"
    result, is_reverse = node.result.type, not node.attrs.low[dim]
    wide = _fold_type(kind, result.dtype)

    def initial(builder: Builder) -> Value:
        return builder.splat(neutral(kind, wide), TensorType((), wide))

    def partial(builder: Builder, count: int) -> list[Value]:
        split_value = cut(builder, builder.convert(node.operands[0], wide), dim, count)
        return [_scan(builder, split_value, initial(builder), dim + 1, is_reverse, kind)]

    def combine(builder: Builder, partials: list[Value]) -> list[Value]:
        (scanned,) = partials
        count, length = scanned.type.sizes[dim : dim + 2]
        edge = 0 if is_reverse else length - 1
        last = builder.rows(scanned, dim + 1, edge, edge + 1)
        ends = builder.reshape(last, (*result.sizes[:dim], count, *result.sizes[dim + 1 :]))
        init = initial(builder)
        totals = _scan(builder, ends, init, dim, is_reverse, kind)
        preceding = builder.rows(totals, dim, *((1, count) if is_reverse else (0, count - 1)))
        one_part = [int(d == dim) for d in range(result.rank)]
        no_padding = [0] * result.rank
        carry_in = builder.pad(preceding, init, *((no_padding, one_part) if is_reverse else (one_part, no_padding)))
        dims = tuple(d for d in range(scanned.type.rank) if d != dim + 1)
        folded = builder.elementwise(kind, builder.spread(carry_in, scanned.type.sizes, dims), scanned)
        return [builder.convert(builder.reshape(folded, result.sizes), result.dtype)]

    return Parts(even_counts(result.sizes[dim], DEFAULT.fusion.split_least), partial, combine)


def _scan(builder: Builder, value: Value, init: Value, dim: int, is_reverse: bool, kind: str) -> Value:
    """Append a cumulative reduction of kind `kind` along dim `dim`."""
    rank, scalar = value.type.rank, value.type.with_shape(())
    ones, none = (1,) * rank, (0,) * rank
    window = tuple(n if d == dim else 1 for d, n in enumerate(value.type.sizes))
    pads = tuple(n - 1 for n in window)
    attrs = {
        "window_dimensions": window, "window_strides": ones, "base_dilations": ones, "window_dilations": ones,
        "low": none if is_reverse else pads, "high": pads if is_reverse else none,
    }  # fmt: skip
    region = Graph("", [Value(scalar), Value(scalar)])
    region.outputs = [region.add(kind, region.inputs, [scalar]).result]
    (scanned,) = builder.append("reduce_window", [value, init], [value.type], attrs, (region,))
    return scanned
