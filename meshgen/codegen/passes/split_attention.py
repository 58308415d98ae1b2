"""Attention of few rows over many keys, split like a reduction: each part of the keys by itself, then one result of the parts.

    before   result = softmax(scores[.., n]) @ v[n, ..]
    after    scores[.., parts, n / parts]: per part the maximum, the sum, and exp(scores - maximum) @ v in f32
             result = sum(exp(maximum - highest) * product) / sum(exp(maximum - highest) * sum)      over the parts

Decoding has a row per head, and a cache of thousands of keys: without it a device reads the cache with a few of its multiprocessors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from meshgen.codegen.fusion.attention import ROWS_OF_A_TILE, Attention, attention_of
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.analysis import graph_analysis
from meshgen.ir.graph import DTYPES, Graph, Node, TensorType, Value
from meshgen.ir.regions import captured
from meshgen.ops.classes import DOTS, LAYOUT
from meshgen.ops.dot_dims import DotDims


class Split(NamedTuple):
    """An attention whose scores' dim `dim`, the keys, is cut into `parts`."""

    attention: Attention
    dim: int
    parts: int

    def replaced(self) -> set[Node]:
        """The nodes that the parts take the place of: the softmax and the product."""
        return {*self.attention.members} - {self.attention.scores, *self.attention.function}


@graph_analysis
def closed_attentions(graph: Graph) -> Sequence[Attention]:
    """The attentions of a graph of which nothing is read elsewhere but the result, and values per row after it."""
    producer, position = graph.index.producers, {node: place for place, node in enumerate(graph.nodes)}
    users: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in (*node.operands, *captured(node)):
            users.setdefault(value, []).append(node)
    found = (attention_of(node, producer.get, lambda v: users.get(v, ())) for node in graph.nodes if node.op in DOTS)
    outputs = set(graph.outputs)

    def is_closed(attention: Attention) -> bool:
        for node in attention.members - {attention.product}:
            outside = [user for user in users.get(node.result, ()) if user not in attention.members]
            if node in (attention.maximum, attention.total):
                if any(position[user] < position[attention.product] for user in outside):
                    return False
            elif outside or node.result in outputs:
                return False
        return True

    return [attention for attention in found if attention is not None and is_closed(attention)]


def split_of(attention: Attention, graph: Graph) -> Split | None:
    """How the attention is split; None where it fills the device, or is written in another form than `split` knows."""
    product, softmaxed, producer = attention.product, attention.softmaxed, graph.index.producers
    dims, probabilities = DotDims.of(product), product.operands[attention.side]
    keys = dims.contract[attention.side]
    if len(keys) != 1 or attention.maximum.attrs.dims != keys or attention.total.attrs.dims != keys:
        return None
    if probabilities.type.shape != softmaxed.type.shape or not _is_plain(attention, producer):
        return None
    parts = _parts(attention, softmaxed.type.sizes[keys[0]], graph)
    return Split(attention, keys[0], parts) if parts > 1 else None


def _is_plain(attention: Attention, producer: Mapping[Value, Node]) -> bool:
    """Whether nothing but conversions and a division by the sum stands between the softmax and the product."""
    value = attention.product.operands[attention.side]
    scales = {node for node, _ in attention.scales}
    while (node := producer[value]) is not attention.exponential:
        divisor = node.operands[-1]
        while (maker := producer.get(divisor)) is not None and maker.op in LAYOUT and maker is not attention.total:
            divisor = maker.operands[0]
        if node.op != "convert" and not (node in scales and node.op == "divide" and maker is attention.total):
            return False
        value = node.operands[0]
    return True


def _parts(attention: Attention, keys: int, graph: Graph) -> int:
    """Parts that fill the device, as `split-reduction` fills it; 1 where the rows do."""
    limits, producer = DEFAULT.fusion, graph.index.producers
    sides = DotDims.of(attention.product)
    values = attention.product.operands[1 - attention.side]
    width = values.type.size // max(1, keys * math.prod(values.type.sizes[d] for d in sides.batch[1 - attention.side]))
    source = values
    while (node := producer.get(source)) is not None and node.op in LAYOUT:
        source = node.operands[0]
    heads = min(values.type.size, source.type.size) // max(1, keys * width)
    programs = max(1, heads * -(-attention.rows // ROWS_OF_A_TILE))
    nbytes = 2 * min(values.type.nbytes, source.type.nbytes)
    most = limits.programs if nbytes >= limits.split_big_bytes else limits.programs // 4
    if nbytes < limits.split_bytes or programs >= most:
        return 1
    wanted = min(limits.programs // programs, keys // limits.split_least)
    return max((p for p in range(1, wanted + 1) if keys % p == 0), default=1)


class Splitter:
    """Writes the nodes of one split in place of its product."""

    def __init__(self, graph: Graph, split: Split) -> None:
        self.graph, self.split, self.attention = graph, split, split.attention
        self.loc = split.attention.product.loc

    def write(self) -> None:
        """All nodes; the maximum, the sum and the product keep their values."""
        attention, dim = self.attention, self.split.dim
        scores = self._cut(attention.softmaxed, dim)
        others = tuple(d for d in range(scores.type.rank) if d != dim + 1)
        high = self._reduce("maximum", scores, dim + 1)
        exponentials = self._op(
            "exponential", self._op("subtract", scores, self._wide(self._finite(high), scores, others))
        )
        total = self._reduce("add", exponentials, dim + 1)
        partial = self._product(exponentials)
        highest = self._reduce("maximum", high, dim, attention.maximum)
        lowered = self._finite(highest) if attention.keeps_empty else highest
        rows = tuple(d for d in range(high.type.rank) if d != dim)
        weight = self._op("exponential", self._op("subtract", high, self._wide(lowered, high, rows)))
        sums = self._reduce("add", self._op("multiply", weight, total), dim, attention.total)
        self._join(partial, self._float(weight), self._float(sums))

    def _product(self, exponentials: Value) -> Value:
        """The product of each part, in f32, with the parts after the batch dims."""
        product, side = self.attention.product, self.attention.side
        dims = DotDims.of(product)
        probabilities = self._convert(exponentials, product.operands[side].type.dtype)
        values = self._cut(product.operands[1 - side], dims.contract[1 - side][0])
        operands = [probabilities, values] if side == 0 else [values, probabilities]
        cuts = [dims.contract[number][0] for number in (0, 1)]
        batch = [(*(d + (d > cut) for d in dims.batch[i]), cut) for i, cut in enumerate(cuts)]
        attrs = {
            **product.attrs.given, "lhs_batch": batch[0], "rhs_batch": batch[1],
            "lhs_contract": (cuts[0] + 1,), "rhs_contract": (cuts[1] + 1,),
        }  # fmt: skip
        count, shape = len(dims.batch[0]), product.result.type.sizes
        to = TensorType((*shape[:count], self.split.parts, *shape[count:]), "f32")
        return self.graph.add("dot_general", operands, [to], attrs, loc=self.loc).result

    def _join(self, partial: Value, weight: Value, sums: Value) -> None:
        """The product's result from those of the parts."""
        attention, dim = self.attention, self.split.dim
        product, side = attention.product, attention.side
        dims = DotDims.of(product)
        count = len(dims.batch[0])
        start = count + (len(dims.free[0]) if side == 1 else 0)
        place = {d: i for i, d in enumerate(dims.batch[side])} | {d: start + i for i, d in enumerate(dims.free[side])}
        rows = [place[d] for d in range(product.operands[side].type.rank) if d != dim]  # where each dim of the sums is
        of_parts = [d + (d >= count) for d in rows]
        of_parts.insert(dim, count)
        weighted = self._op("multiply", partial, self._wide(weight, partial, of_parts))
        joined = self._reduce("add", weighted, count)
        if attention.scales:
            joined = self._op("divide", joined, self._wide(sums, joined, rows))
        joined = self._convert(joined, product.result.type.dtype)
        self.graph.nodes[-1] = replace(self.graph.nodes[-1], results=product.results)

    # ---- single nodes

    def _op(self, op: str, *operands: Value) -> Value:
        return self.graph.add(op, operands, [operands[0].type], {}, loc=self.loc).result

    def _convert(self, value: Value, dtype: str) -> Value:
        if value.type.dtype == dtype:
            return value
        return self.graph.add("convert", [value], [TensorType(value.type.shape, dtype)], {}, loc=self.loc).result

    def _float(self, value: Value) -> Value:
        return self._convert(value, "f32")

    def _cut(self, value: Value, dim: int) -> Value:
        shape = value.type.sizes
        to = TensorType(
            (*shape[:dim], self.split.parts, shape[dim] // self.split.parts, *shape[dim + 1 :]), value.type.dtype
        )
        return self.graph.add("reshape", [value], [to], {}, loc=self.loc).result

    def _constant(self, number: float, dtype: str) -> Value:
        value = np.array(number, DTYPES[dtype])
        return self.graph.add("constant", [], [TensorType((), dtype)], {"value": value}, loc=self.loc).result

    def _wide(self, value: Value, like: Value, dims: Sequence[int]) -> Value:
        to = TensorType(like.type.shape, value.type.dtype)
        return self.graph.add("broadcast_in_dim", [value], [to], {"dims": tuple(dims)}, loc=self.loc).result

    def _reduce(self, kind: str, value: Value, dim: int, instead: Node | None = None) -> Value:
        """A reduce over one dim, with the result of `instead`."""
        shape, dtype = value.type.sizes, value.type.dtype
        init = self._constant(-math.inf if kind == "maximum" else 0, dtype)
        to = (
            [Value(TensorType((*shape[:dim], *shape[dim + 1 :]), dtype), loc=self.loc)]
            if instead is None
            else instead.results
        )
        node = Node("reduce", [value, init], to, {"dims": (dim,), "kind": kind}, self.loc)
        self.graph.nodes.append(node)
        return node.result

    def _finite(self, value: Value) -> Value:
        """The value, 0 where it is infinite: exponentials of a part without keys are 0."""
        to = TensorType(value.type.shape, "i1")
        test = self.graph.add("is_finite", [value], [to], {}, loc=self.loc).result
        zero = self._wide(self._constant(0, value.type.dtype), value, ())
        return self.graph.add("select", [test, value, zero], [value.type], {}, loc=self.loc).result
