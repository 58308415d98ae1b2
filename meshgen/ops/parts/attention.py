"""Split-KV attention: the keys are split into parts, whose outputs are combined through their log-sum-exps.

    %o, %l = attention %q, %k, %v                       {factors = "h t d, h s d, h s e -> h t e, h t"}

    %p, %m = attention %q, (reshape %k), (reshape %v)   {factors = "h t d, h s_part s d, h s_part s e ->
                                                                    s_part h t e, s_part h t"}         partial
    %o = sum(exp(%m - max(%m)) * %p) / sum(exp(%m - max(%m)))                                          combined
    %l = max(%m) + log(sum(exp(%m - max(%m))))                                                         combined

Decoding has one row per head and thousands of cached keys. Without the split, only a few multiprocessors would read
the cache.
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

# query rows per thread block when the number of blocks is estimated; chosen: a typical tile (`kernels/attention.py`)
_ROWS_OF_A_TILE = 64


def attention(node: Node, producer: Producer) -> Parts | None:
    """Split the longest factor of the keys to fill the device. Returns None if rows and heads fill it already."""
    factors = Factors.of(node)
    name = max(factors.keys, key=lambda factor: factors.sizes[factor])
    counts = _filling_counts(node, factors, factors.sizes[name])
    split = _SplitAttention(node, factors, name)
    return Parts(counts, split.partial, split.combine) if counts else None


def _filling_counts(node: Node, factors: Factors, keys: int) -> list[int]:
    """Return the largest number of parts that the device runs at once, in a list, or [] if no split is needed."""
    limits, shared = DEFAULT.fusion, {*factors.operands[KEYS], *factors.operands[VALUES]}
    rows = math.prod(factors.sizes[f] for f in factors.rows if f not in shared)
    heads = math.prod(factors.sizes[f] for f in factors.rows if f in shared)
    programs = max(1, heads * -(-rows // _ROWS_OF_A_TILE))
    nbytes = sum(node.operands[operand].type.nbytes for operand in (KEYS, VALUES))
    max_programs = limits.programs if nbytes >= limits.split_big_bytes else limits.programs // 4
    if nbytes < limits.split_bytes or programs >= max_programs:
        return []
    return [count for count in even_counts(keys, limits.split_least) if count <= limits.programs // programs][-1:]


class _SplitAttention:
    """Builds the partial attention of each part of the keys, and the combination of the parts.

    `name` is the factor of the keys that is split.
    """

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
        """Return a region whose argument for the position along the split factor is replaced by two: part, position in
        the part.
        """
        positions = self.node.attrs.positions
        if self.name not in positions:
            return region
        position_index = len(region.inputs) - len(positions) + positions.index(self.name)
        position = region.inputs[position_index]
        part_index, inside = (Value(position.type, name) for name in (self.part, self.name))
        result = Graph(
            region.name, [*region.inputs[:position_index], part_index, inside, *region.inputs[position_index + 1 :]]
        )
        builder = Builder(result)
        start = builder.elementwise("multiply", part_index, builder.splat(length, part_index.type))
        replacements = {position: builder.elementwise("add", start, inside)}
        result.nodes += [rewired(node, replacements) for node in region.nodes]
        result.outputs = [replacements.get(v, v) for v in region.outputs]
        return result

    def combine(self, builder: Builder, partials: list[Value]) -> list[Value]:
        node, (partial, sums) = self.node, partials
        out, rows = self.factors.results
        row_type = node.results[1].type
        high = total(builder, sums, 0, row_type, "maximum")
        lowered = finite(builder, high) if node.attrs.zero_empty else high
        wide = builder.spread(lowered, sums.type.shape, range(1, sums.type.rank))
        weights = builder.elementwise("exponential", builder.elementwise("subtract", sums, wide))
        weight = total(builder, weights, 0, row_type)
        dims = [out.index(f) for f in rows]
        spread = builder.spread(weights, partial.type.shape, [0, *(d + 1 for d in dims)])
        weighted_sum = total(builder, builder.elementwise("multiply", partial, spread), 0, TensorType(partial.type.shape[1:], "f32"))  # fmt: skip
        divisor = one_if_zero(builder, weight) if node.attrs.zero_empty else weight
        mean = builder.elementwise("divide", weighted_sum, builder.spread(divisor, weighted_sum.type.shape, dims))
        log_sum_exp = builder.elementwise("add", builder.elementwise("log", weight), high)
        return [builder.convert(mean, node.results[0].type.dtype), log_sum_exp]
