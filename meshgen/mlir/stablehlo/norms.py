"""Batch normalization of StableHLO, expanded when it is read: statistics over all dims but that of the features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from meshgen.ir.graph import TensorType, Value, is_float
from meshgen.mlir.arith.payload import Builder, all_computed
from meshgen.mlir.attributes import integer_of
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.fields import number
from meshgen.mlir.stablehlo.base import GenericOperation
from meshgen.mlir.text_operation import Field, define


class _Norm(NamedTuple):
    """The operation as nodes over tensors of the shape of x."""

    builder: Builder
    kind: TensorType
    feature: int
    epsilon: float

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(d for d in range(self.kind.rank) if d != self.feature)

    def spread(self, value: Value) -> Value:
        return self.builder.broadcast(value, self.kind.shape, (self.feature,))

    def total(self, value: Value) -> Value:
        """The sum over all dims but that of the features."""
        return self.builder.reduce("add", value, self.dims)

    def mean(self, value: Value) -> Value:
        count = math.prod(self.kind.sizes[d] for d in self.dims)
        total = self.total(value)
        return self.builder.apply("divide", total, self.builder.constant(count, total.type))

    def times(self, *values: Value) -> Value:
        first, *others = values
        for other in others:
            first = self.builder.apply("multiply", first, other)
        return first

    def less(self, left: Value, right: Value) -> Value:
        return self.builder.apply("subtract", left, right)

    def scales(self, variance: Value) -> Value:
        """1 / sqrt(variance + epsilon)"""
        moved = self.builder.apply("add", variance, self.builder.constant(self.epsilon, variance.type))
        return self.builder.apply("rsqrt", moved)


def _norm(b: Builder, count: int, values: Sequence[Value]) -> _Norm:
    """The operation on `count` operands. Raises Refused where they do not fit."""
    feature, epsilon = integer_of(b.attribute("feature_index")), b.number("epsilon")
    kind = values[0].type if values else TensorType((), "f32")
    fits = len(values) == count and is_float(kind.dtype) and 0 <= feature < kind.rank and None not in kind.shape
    row = TensorType((kind.shape[feature],), kind.dtype) if fits else kind
    kinds = [kind, row, row, row, kind if b.source.name.endswith("grad") else row][:count]
    if not fits or [value.type for value in values] != kinds:
        texts = ", ".join(str(value.type) for value in values)
        raise Refused("MG0104", f"expected {count} operands with feature dim {feature}, got ({texts})")
    return _Norm(b, kind, feature, epsilon or 0.0)


def _applied(norm: _Norm, x: Value, scale: Value, offset: Value, mean: Value, variance: Value) -> Value:
    centered = norm.less(x, norm.spread(mean))
    scaled = norm.times(centered, norm.spread(norm.times(scale, norm.scales(variance))))
    return norm.builder.apply("add", scaled, norm.spread(offset))


def _inference(b: Builder, *operands: Value) -> Value:
    """Of (x, scale, offset, mean, variance)."""
    norm = _norm(b, 5, operands)
    x, scale, offset, mean, variance = operands
    return _applied(norm, x, scale, offset, mean, variance)


def _training(b: Builder, *operands: Value) -> list[Value]:
    """Of (x, scale, offset): the result, the mean and the variance."""
    norm = _norm(b, 3, operands)
    x, scale, offset = operands
    mean = norm.mean(x)
    centered = norm.less(x, norm.spread(mean))
    variance = norm.mean(norm.times(centered, centered))
    return [_applied(norm, x, scale, offset, mean, variance), mean, variance]


def _gradient(b: Builder, *operands: Value) -> list[Value]:
    """Of (x, scale, mean, variance, gradient of the result): the gradients of x, of scale and of offset.

    With c = x - mean, r = 1 / sqrt(variance + epsilon) and g the gradient of the result:

    scale: sum(g c r); offset: sum(g); x: scale r (g - mean(g) - c r^2 mean(g c)).
    """
    norm = _norm(b, 5, operands)
    x, scale, mean, variance, grad = operands
    centered, roots = norm.less(x, norm.spread(mean)), norm.scales(variance)
    products = norm.times(grad, centered)
    along = norm.times(centered, norm.spread(norm.times(roots, roots, norm.mean(products))))
    rest = norm.less(norm.less(grad, norm.spread(norm.mean(grad))), along)
    to_x = norm.times(rest, norm.spread(norm.times(scale, roots)))
    return [to_x, norm.times(norm.total(products), roots), norm.total(grad)]


PART = Dialect(
    operations=define(GenericOperation, "stablehlo", {
        "5 -> 1": "batch_norm_inference", "3 -> 3": "batch_norm_training", "5 -> 3": "batch_norm_grad",
    }, FIELDS=(Field("epsilon", kind="float"), number("feature_index", "feature"))),
    importers=all_computed("stablehlo", {
        "batch_norm_inference": _inference, "batch_norm_training": _training, "batch_norm_grad": _gradient,
    }),
)  # fmt: skip
