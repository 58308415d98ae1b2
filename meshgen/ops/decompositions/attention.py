"""What attention means: a softmax between two products.

scores = dot(q, k)                       [rows.., keys..] in the type that the first region takes
s      = region 0 of scores, in f32
e      = exp(s - max(s)),  total = sum(e)
p      = region 1 of e / total
out    = dot(p, v),  lse = max(s) + log(total)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ops.factors import FIXED, KEYS, QUERIES, VALUES, Factors, Names
from meshgen.ops.types.attention import POSITION, STATISTIC


@dataclass(frozen=True)
class Spread:
    """A value whose dims are factors, in the order of the scores."""

    value: Value
    names: Names


def attention(node: Node, builder: Builder) -> Sequence[Value]:
    """Append the products and the softmax; returns the result and the log-sum-exp."""
    return AttentionWriter(node, builder).written()


class AttentionWriter:
    """Writes the decomposition of one attention; values of the scores' size have `order` as dims."""

    def __init__(self, node: Node, builder: Builder) -> None:
        self.node, self.builder, self.factors = node, builder, Factors.of(node)
        self.order = (*self.factors.rows, *self.factors.keys)

    def written(self) -> Sequence[Value]:
        node, builder, factors = self.node, self.builder, self.factors
        queries, keys, values = node.operands[:FIXED]
        kind = node.regions[0].inputs[0].type.dtype
        scores = self.product(Spread(queries, factors.operands[QUERIES]), Spread(keys, factors.operands[KEYS]),
                              self.order, kind, node.attrs.precision)  # fmt: skip
        softmaxed = builder.convert(self.function(node.regions[0], scores), STATISTIC)
        high = self.reduced("maximum", softmaxed, -math.inf)
        lowered = self.finite(high) if node.attrs.zero_empty else high
        exponentials = builder.elementwise("exponential", self.less(softmaxed, lowered))
        total = self.reduced("add", exponentials, 0)
        divisor = self._one_if_zero(total) if node.attrs.zero_empty else total
        shares = builder.elementwise("divide", exponentials, self.wide(divisor))
        weights = self.function(node.regions[1], shares)
        out = self.product(Spread(weights, self.order), Spread(values, factors.operands[VALUES]), factors.results[0],
                           node.results[0].type.dtype, node.attrs.value_precision)  # fmt: skip
        logarithm = builder.elementwise("log", total)
        return out, builder.elementwise("add", logarithm, high)

    # ---- values of the scores' size, and of one per row

    def function(self, region: Graph, first: Value) -> Value:
        """A region of each element of a value of the scores' size; the result has that size too, whatever it depends on."""
        found: dict[Value, Spread] = {}
        given = [Spread(first, self.order), *self._elements(), *map(self._position, self.node.attrs.positions)]
        found.update(zip(region.inputs, given, strict=True))
        for inner in region.nodes:
            parts = [found[value] for value in inner.operands]
            names = self._ordered({f for part in parts for f in part.names})
            operands = [self._spread(part, names) for part in parts]
            shape = self.factors.shape(names)
            types = [result.type.with_shape(shape) for result in inner.results]
            if inner.op == "constant":
                made = self.builder.append("constant", [], types, dict(inner.attrs.given))
            else:
                made = self.builder.append(inner.op, operands, types, dict(inner.attrs.given))
            found.update((v, Spread(now, names)) for v, now in zip(inner.results, made, strict=True))
        return self._spread(found[region.outputs[0]], self.order)

    def _elements(self) -> list[Spread]:
        found: list[Spread] = []
        for value, names in zip(self.node.operands[FIXED : FIXED + len(self.factors.elements())], self.factors.elements(), strict=True):  # fmt: skip
            found.append(Spread(self.arranged(value, names, self._ordered({*names})), self._ordered({*names})))
        return found

    def _position(self, name: str) -> Spread:
        kind = POSITION.with_shape((self.factors.sizes[name],))
        return Spread(self.builder.emit("iota", [], kind, dim=0), (name,))

    def _ordered(self, names: set[str]) -> Names:
        return tuple(name for name in self.order if name in names)

    def _spread(self, part: Spread, names: Names) -> Value:
        if part.names == names:
            return part.value
        return self.builder.spread(part.value, self.factors.shape(names), [names.index(f) for f in part.names])

    def arranged(self, value: Value, names: Names, order: Names) -> Value:
        """A value with its dims in another order."""
        return value if names == order else self.builder.transpose(value, [names.index(f) for f in order])

    def wide(self, rows: Value) -> Value:
        """A value per row for each element of it."""
        return self._spread(Spread(rows, self.factors.rows), self.order)

    def less(self, value: Value, rows: Value) -> Value:
        """A value of the scores' size without one per row."""
        return self.builder.elementwise("subtract", value, self.wide(rows))

    def reduced(self, kind: str, value: Value, start: float) -> Value:
        """A value per row from one of the scores' size in f32."""
        init = self.builder.splat(start, value.type.with_shape(()))
        dims = tuple(range(len(self.factors.rows), len(self.order)))
        return self.builder.emit("reduce", [value, init], value.type.with_shape(self.factors.shape(self.factors.rows)), kind=kind, dims=dims)  # fmt: skip

    def finite(self, value: Value) -> Value:
        """A value, 0 where it is infinite."""
        test = self.builder.emit("is_finite", [value], TensorType(value.type.shape, "i1"))
        return self.builder.elementwise("select", test, value, self.builder.broadcast_scalar(0, value.type))

    def _one_if_zero(self, value: Value) -> Value:
        zero, one = (self.builder.broadcast_scalar(number, value.type) for number in (0, 1))
        return self.builder.elementwise("select", self.builder.compare("EQ", value, zero), one, value)

    # ---- products

    def product(self, left: Spread, right: Spread, order: Names, dtype: str, precision: tuple[str, ...]) -> Value:
        """The product of two values, of which factors that are not in `order` are summed, with these dims."""
        sides = (left.names, right.names)
        both = [f for f in left.names if f in right.names]
        batch, summed = [f for f in both if f in order], [f for f in both if f not in order]
        batch.sort(key=order.index)
        free = [f for side, other in (sides, sides[::-1]) for f in side if f not in other]
        attrs: dict[str, Any] = {
            f"{side}_{what}": tuple(names.index(f) for f in part)
            for side, names in zip(("lhs", "rhs"), sides, strict=True)
            for what, part in (("batch", batch), ("contract", summed))
        }
        if precision:
            attrs["precision"] = precision
        made = (*batch, *free)
        kind = TensorType(self.factors.shape(made), dtype)
        return self.arranged(self.builder.emit("dot_general", [left.value, right.value], kind, **attrs), made, order)
