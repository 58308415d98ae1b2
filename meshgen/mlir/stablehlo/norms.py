"""Importers of StableHLO's batch normalization, which is expanded. Statistics are over all dims except the feature dim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from meshgen.ir.graph import TensorType, Value, is_float
from meshgen.mlir.arith.builder import Builder, all_computed
from meshgen.mlir.attributes import integer_of
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.fields import number
from meshgen.mlir.stablehlo.base import GenericOperation
from meshgen.mlir.text_operation import Field, define


class _Norm(NamedTuple):
    """A builder of the nodes into which a batch normalization is expanded. All tensors have the shape of the operand x."""

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
        """Return the sum of `value` over all dims except the feature dim."""
        return self.builder.reduce("add", value, self.dims)

    def mean(self, value: Value) -> Value:
        count = math.prod(self.kind.sizes[d] for d in self.dims)
        total = self.total(value)
        return self.builder.apply("divide", total, self.builder.constant(count, total.type))

    def times(self, *values: Value) -> Value:
        product, *factors = values
        for factor in factors:
            product = self.builder.apply("multiply", product, factor)
        return product

    def less(self, left: Value, right: Value) -> Value:
        return self.builder.apply("subtract", left, right)

    def inverse_deviation(self, variance: Value) -> Value:
        """Return 1 / sqrt(variance + epsilon)."""
        shifted = self.builder.apply("add", variance, self.builder.constant(self.epsilon, variance.type))
        return self.builder.apply("rsqrt", shifted)


def _norm(b: Builder, count: int, values: Sequence[Value]) -> _Norm:
    """Return the builder for an operation whose `count` operands are `values`. Raises Refused if they are invalid."""
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
    scaled = norm.times(centered, norm.spread(norm.times(scale, norm.inverse_deviation(variance))))
    return norm.builder.apply("add", scaled, norm.spread(offset))


def _inference(b: Builder, *operands: Value) -> Value:
    """Return x normalized with the mean and variance that are operands. The operands are (x, scale, offset, mean,
    variance).
    """
    norm = _norm(b, 5, operands)
    x, scale, offset, mean, variance = operands
    return _applied(norm, x, scale, offset, mean, variance)


def _training(b: Builder, *operands: Value) -> list[Value]:
    """Return x normalized with its own mean and variance, the mean, and the variance. The operands are (x, scale,
    offset).
    """
    norm = _norm(b, 3, operands)
    x, scale, offset = operands
    mean = norm.mean(x)
    centered = norm.less(x, norm.spread(mean))
    variance = norm.mean(norm.times(centered, centered))
    return [_applied(norm, x, scale, offset, mean, variance), mean, variance]


def _gradient(b: Builder, *operands: Value) -> list[Value]:
    """Return the gradients of x, scale and offset. The operands are (x, scale, mean, variance, gradient of the result).

    With c = x - mean, r = 1 / sqrt(variance + epsilon) and g the gradient of the result, the gradients are:

        x       scale r (g - mean(g) - c r^2 mean(g c))
        scale   sum(g c r)
        offset  sum(g)
    """
    norm = _norm(b, 5, operands)
    x, scale, mean, variance, grad = operands
    centered, roots = norm.less(x, norm.spread(mean)), norm.inverse_deviation(variance)
    products = norm.times(grad, centered)
    variance_term = norm.times(centered, norm.spread(norm.times(roots, roots, norm.mean(products))))
    projected = norm.less(norm.less(grad, norm.spread(norm.mean(grad))), variance_term)
    to_x = norm.times(projected, norm.spread(norm.times(scale, roots)))
    return [to_x, norm.times(norm.total(products), roots), norm.total(grad)]


PART = Dialect(
    operations=define(GenericOperation, "stablehlo", {
        "5 -> 1": "batch_norm_inference", "3 -> 3": "batch_norm_training", "5 -> 3": "batch_norm_grad",
    }, FIELDS=(Field("epsilon", kind="float"), number("feature_index", "feature"))),
    importers=all_computed("stablehlo", {
        "batch_norm_inference": _inference, "batch_norm_training": _training, "batch_norm_grad": _gradient,
    }),
)  # fmt: skip
