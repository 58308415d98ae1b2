"""Attention of few rows over many keys in parts of the keys: results and log-sum-exps of each part, and their mean by the exponentials of these.

%o, %l = attention %q, %k, %v {factors = "h t d, h s d, h s e -> h t e, h t"}
%p, %m = attention %q, (reshape %k), (reshape %v) {factors = "h t d, h s_part s d, h s_part s e -> s_part h t e, s_part h t"}       partial
%o = sum(exp(%m - max(%m)) * %p) / sum(exp(%m - max(%m))),    %l = max(%m) + log(sum(exp(%m - max(%m))))                             combined

Decoding has a row per head, and a cache of thousands of keys: without it a device reads the cache with a few of its multiprocessors.
"""

from __future__ import annotations

import math

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.matchers import Producer
from meshgen.ir.regions import rewired
from meshgen.ops.decompositions.attention import finite, one_if_zero
from meshgen.ops.factors import KEYS, VALUES, Factors, Names, notation
from meshgen.ops.parts.base import Parts, cut, even_counts, total

_ROWS_OF_A_TILE = 64


def attention(node: Node, producer: Producer) -> Parts | None:
    """The longest factor of the keys in parts, as many as fill the device; None where rows and heads do."""
    factors = Factors.of(node)
    name = max(factors.keys, key=lambda each: factors.sizes[each])
    counts = _filling_counts(node, factors, factors.sizes[name])
    whole = _Whole(node, factors, name)
    return Parts(counts, whole.partial, whole.combine) if counts else None


def _filling_counts(node: Node, factors: Factors, keys: int) -> list[int]:
    """The number of parts that fills the device, as other reductions fill it."""
    limits, shared = DEFAULT.fusion, {*factors.operands[KEYS], *factors.operands[VALUES]}
    rows = math.prod(factors.sizes[f] for f in factors.rows if f not in shared)
    heads = math.prod(factors.sizes[f] for f in factors.rows if f in shared)
    programs = max(1, heads * -(-rows // _ROWS_OF_A_TILE))
    nbytes = sum(node.operands[number].type.nbytes for number in (KEYS, VALUES))
    most = limits.programs if nbytes >= limits.split_big_bytes else limits.programs // 4
    if nbytes < limits.split_bytes or programs >= most:
        return []
    return [count for count in even_counts(keys, limits.split_least) if count <= limits.programs // programs][-1:]


class _Whole:
    """An attention of which a factor of the keys is cut."""

    def __init__(self, node: Node, factors: Factors, name: str) -> None:
        self.node, self.factors, self.name, self.part = node, factors, name, f"{name}_part"

    def partial(self, builder: Builder, count: int) -> list[Value]:
        node, factors = self.node, self.factors
        operands = [
            cut(builder, value, names.index(self.name), count) if self.name in names else value
            for value, names in zip(node.operands, factors.operands, strict=True)
        ]
        results = [(self.part, *names) for names in factors.results]
        types = [TensorType((count, *value.type.sizes), "f32") for value in node.results]
        attrs = node.attrs | {
            "factors": notation([*map(self._cut, factors.operands)], results),
            "positions": self._cut(node.attrs.positions),
            "zero_empty": True,
        }
        regions = tuple(self._region(region, factors.sizes[self.name] // count) for region in node.regions)
        return list(builder.append(node.op, operands, types, attrs, regions))

    def _cut(self, names: Names) -> Names:
        return tuple(f for name in names for f in ((self.part, name) if name == self.name else (name,)))

    def _region(self, region: Graph, length: int) -> Graph:
        """A function that takes the number of a part and the position in it in place of a position."""
        positions = self.node.attrs.positions
        if self.name not in positions:
            return region
        place = len(region.inputs) - len(positions) + positions.index(self.name)
        before = region.inputs[place]
        part, inside = (Value(before.type, name) for name in (self.part, self.name))
        found = Graph(region.name, [*region.inputs[:place], part, inside, *region.inputs[place + 1 :]])
        builder = Builder(found)
        start = builder.elementwise("multiply", part, builder.splat(length, part.type))
        now = {before: builder.elementwise("add", start, inside)}
        found.nodes += [rewired(node, now) for node in region.nodes]
        found.outputs = [now.get(v, v) for v in region.outputs]
        return found

    def combine(self, builder: Builder, partials: list[Value]) -> list[Value]:
        node, (partial, sums) = self.node, partials
        out, rows = self.factors.results
        kind = node.results[1].type
        high = total(builder, sums, 0, kind, "maximum")
        lowered = finite(builder, high) if node.attrs.zero_empty else high
        wide = builder.spread(lowered, sums.type.shape, range(1, sums.type.rank))
        weights = builder.elementwise("exponential", builder.elementwise("subtract", sums, wide))
        weight = total(builder, weights, 0, kind)
        dims = [out.index(f) for f in rows]
        spread = builder.spread(weights, partial.type.shape, [0, *(d + 1 for d in dims)])
        joined = total(builder, builder.elementwise("multiply", partial, spread), 0, TensorType(partial.type.shape[1:], "f32"))  # fmt: skip
        divisor = one_if_zero(builder, weight) if node.attrs.zero_empty else weight
        mean = builder.elementwise("divide", joined, builder.spread(divisor, joined.type.shape, dims))
        row = builder.elementwise("add", builder.elementwise("log", weight), high)
        return [builder.convert(mean, node.results[0].type.dtype), row]
