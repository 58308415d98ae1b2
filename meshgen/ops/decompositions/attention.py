"""The decomposition of attention and its gradients.

scores = dot(q, k)                          [rows.., keys..]    in the input type of region 0
s = region 0 of scores, in f32
e = exp(s - max(s)), total = sum(e)         max and sum over the keys of each row
p = region 1 of e / total
out = dot(p, v), lse = max(s) + log(total)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ops.decompositions.writer import FactorWriter, Spread, arranged, product
from meshgen.ops.factors import DELTA, GRADIENT, KEYLESS, KEYS, QUERIES, ROWS, VALUES, Factors, Names, fixed
from meshgen.ops.types.attention import POSITION, STATISTIC

# Ops in region 0 that may turn all scores of a row into large negative numbers (masking).
_MASKING = ("select", "add", "subtract")


def attention(writer: FactorWriter) -> Sequence[Value]:
    """Append the decomposition of attention. Returns the output and the log-sum-exp."""
    return _Writer(writer.node, writer.builder).attention()


def gradient_of_queries(writer: FactorWriter) -> Sequence[Value]:
    """Append the decomposition of the gradient of the queries. Returns the gradient."""
    return _Writer(writer.node, writer.builder).gradient_of_queries()


def gradient_of_keys(writer: FactorWriter) -> Sequence[Value]:
    """Append the decomposition of the gradients of keys and values. Returns both gradients."""
    return _Writer(writer.node, writer.builder).gradient_of_keys()


class _Writer:
    """Builds the decomposition of one node.

    `order` has the dims of the scores: the factors of the rows, then those of the keys.
    """

    def __init__(self, node: Node, builder: Builder) -> None:
        self.node, self.builder, self.factors = node, builder, Factors.of(node)
        self.order = (*self.factors.rows, *self.factors.keys)

    def attention(self) -> Sequence[Value]:
        node, builder = self.node, self.builder
        softmaxed = self.softmaxed(self.scores())
        high = self.reduced("maximum", softmaxed, -math.inf)
        lowered = finite(builder, high) if node.attrs.zero_empty else high
        exponentials = builder.elementwise("exponential", self.less(softmaxed, lowered))
        total = self.reduced("add", exponentials, 0)
        divisor = one_if_zero(builder, total) if node.attrs.zero_empty else total
        # Placed before the second matmul: a kernel that fuses both matmuls then has the log-sum-exp in registers.
        rows = builder.elementwise("add", builder.elementwise("log", total), high)
        shares = builder.elementwise("divide", exponentials, self.wide(divisor))
        out = self.product(self.operand(VALUES), self.weights(shares), self.factors.out, node.results[0], node.attrs.value_precision[::-1])  # fmt: skip
        return out, rows

    def gradient_of_queries(self) -> Sequence[Value]:
        node, (gradient, _) = self.node, self._gradient()
        keys = self._converted(KEYS, gradient)
        return (self.product(gradient, keys, self.factors.results[0], node.results[0], node.attrs.gradient_precision),)

    def gradient_of_keys(self) -> Sequence[Value]:
        node, (gradient, shares) = self.node, self._gradient()
        of_keys, of_values = self.factors.results
        weights = self.weights(shares)
        dk = self.product(gradient, self._converted(QUERIES, gradient), of_keys, node.results[0], node.attrs.gradient_precision)  # fmt: skip
        dv = self.product(self._converted(GRADIENT, weights), weights, of_values, node.results[1], node.attrs.value_precision[::-1])  # fmt: skip
        return dk, dv

    def _gradient(self) -> tuple[Spread, Value]:
        """Return the gradient of the scores, and the probabilities."""
        node, builder = self.node, self.builder
        scores = self.scores()
        row = node.operands[ROWS]
        shifted = self.less(self.softmaxed(scores), finite(builder, row) if node.attrs.zero_empty else row)
        if any(inner.op in _MASKING for inner in node.regions[0].nodes):
            shifted = self.less(shifted, self._lost_sum(row))
        shares = builder.elementwise("exponential", shifted)
        raw = TensorType((), STATISTIC)
        product = self.product(
            self.operand(GRADIENT), self.operand(VALUES), self.order, raw, node.attrs.value_precision
        )
        probability_gradient = builder.convert(self.function(node.regions[1], product, is_rounded=False), STATISTIC)
        probability_gradient = builder.elementwise(
            "multiply", shares, self.less(probability_gradient, node.operands[DELTA])
        )
        score_gradient = self.function(node.regions[2], probability_gradient, scores)
        return Spread(score_gradient, self.order), shares

    def _lost_sum(self, row: Value) -> Value:
        """Return log(number of keys) for each row whose log-sum-exp is below `KEYLESS`, and 0 for all other rows.

        All scores of such a row are masked. The magnitude of its log-sum-exp is too large to retain the log of the sum.
        """
        keys = self.node.attrs.row_keys or math.prod(self.factors.shape(self.factors.keys))
        least, lost, none = (self.builder.broadcast_scalar(x, row.type) for x in (KEYLESS, math.log(max(keys, 1)), 0))
        return self.builder.elementwise("select", self.builder.compare("LT", row, least), lost, none)

    # ---- tensors of the scores' shape, and of one value per row

    def operand(self, index: int) -> Spread:
        return Spread(self.node.operands[index], self.factors.operands[index])

    def _converted(self, index: int, other: Spread) -> Spread:
        """Return the operand at `index`, converted to the element type of `other`, the tensor that multiplies it."""
        value, names = self.node.operands[index], self.factors.operands[index]
        return Spread(self.builder.convert(value, other.value.type.dtype), names)

    def scores(self) -> Value:
        region_type = self.node.regions[0].inputs[0].type
        return self.product(
            self.operand(QUERIES), self.operand(KEYS), self.order, region_type, self.node.attrs.precision
        )

    def softmaxed(self, scores: Value) -> Value:
        return self.builder.convert(self.function(self.node.regions[0], scores), STATISTIC)

    def weights(self, shares: Value) -> Spread:
        """Return the left operand of the matmul with the values: the probabilities `shares` after region 1."""
        return Spread(self.function(self.node.regions[1], shares), self.order)

    def function(self, region: Graph, *first: Value, is_rounded: bool = True) -> Value:
        """Apply a region to each element of tensors of the scores' shape, and broadcast the result to that shape.

        Args:
            is_rounded: if False, the conversion at the end of the region is omitted.
        """
        values: dict[Value, Spread] = {}
        of_scores = [Spread(self.builder.convert(value, arg.type.dtype), self.order) for value, arg in zip(first, region.inputs, strict=False)]  # fmt: skip
        arguments = [*of_scores, *self._elements(), *map(self._position, self.node.attrs.positions)]
        values.update(zip(region.inputs, arguments, strict=True))
        for inner in region.nodes:
            parts = [values[value] for value in inner.operands]
            names = self._ordered({f for part in parts for f in part.names})
            operands = [self._spread(part, names) for part in parts]
            shape = self.factors.shape(names)
            types = [result.type.with_shape(shape) for result in inner.results]
            if inner.op == "constant":
                results = self.builder.append("constant", [], types, dict(inner.attrs.given))
            else:
                results = self.builder.append(inner.op, operands, types, dict(inner.attrs.given))
            values.update((v, Spread(copy, names)) for v, copy in zip(inner.results, results, strict=True))
        (output,) = region.outputs
        last = region.index.producers.get(output)
        if not is_rounded and last is not None and last.op == "convert":
            output = last.operands[0]
        return self._spread(values[output], self.order)

    def _elements(self) -> list[Spread]:
        elements: list[Spread] = []
        for value, names in zip(self.node.operands[fixed(self.node.op) :], self.factors.elements, strict=True):
            elements.append(arranged(self.builder, Spread(value, names), self._ordered({*names})))
        return elements

    def _position(self, name: str) -> Spread:
        position_type = POSITION.with_shape((self.factors.sizes[name],))
        return Spread(self.builder.emit("iota", [], position_type, dim=0), (name,))

    def _ordered(self, names: set[str]) -> Names:
        return tuple(name for name in self.order if name in names)

    def _spread(self, part: Spread, names: Names) -> Value:
        if part.names == names:
            return part.value
        return self.builder.spread(part.value, self.factors.shape(names), [names.index(f) for f in part.names])

    def wide(self, rows: Value) -> Value:
        """Broadcast `rows`, one value per row, to the shape of the scores."""
        return self._spread(Spread(rows, self.factors.rows), self.order)

    def less(self, value: Value, rows: Value) -> Value:
        """Subtract `rows`, one value per row, from a tensor of the scores' shape."""
        return self.builder.elementwise("subtract", value, self.wide(rows))

    def reduced(self, kind: str, value: Value, start: float) -> Value:
        """Reduce a tensor of the scores' shape over the keys, to one value per row."""
        init = self.builder.splat(start, value.type.with_shape(()))
        dims = tuple(range(len(self.factors.rows), len(self.order)))
        return self.builder.emit("reduce", [value, init], value.type.with_shape(self.factors.shape(self.factors.rows)), kind=kind, dims=dims)  # fmt: skip

    # ---- matmuls

    def product(self, left: Spread, right: Spread, order: Names, like: Value | TensorType, precision: tuple[str, ...]) -> Value:  # fmt: skip
        """Multiply two tensors and contract the factors that are not in `order`.

        The result has the dims `order` and the element type of `like`.
        """
        dtype = (like if isinstance(like, TensorType) else like.type).dtype
        return product(self.builder, left, right, order, dtype, precision).value


def finite(builder: Builder, value: Value) -> Value:
    """Replace infinite elements by 0."""
    test = builder.emit("is_finite", [value], TensorType(value.type.shape, "i1"))
    return builder.elementwise("select", test, value, builder.broadcast_scalar(0, value.type))


def one_if_zero(builder: Builder, value: Value) -> Value:
    """Replace zeros by 1."""
    zero, one = (builder.broadcast_scalar(number, value.type) for number in (0, 1))
    return builder.elementwise("select", builder.compare("EQ", value, zero), one, value)
