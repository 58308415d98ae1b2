"""How often a kernel goes over rows that its registers do not hold: once for each level of reductions, and once to write what is not reduced.

    m = max x    s = sum exp(x - m)    y = exp(x - m) / s         max and sum in one pass, then one for y

A sum of exponentials is taken in the pass of the maximum that it subtracts: each lane keeps the greatest element so far and
the sum relative to it, which is scaled when a greater one comes (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from meshgen.codegen.fusion.body_space import space_of_row_sums
from meshgen.codegen.fusion.tiles import WHOLE_ROW
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.matchers import values_behind
from meshgen.ops.classes import REDUCTIONS
from meshgen.ops.segments import segments

_FLOATS = ("f32", "f64")
_COLUMN_ROWS = 64  # of a column of elements, which registers hold


class OnlineSum(NamedTuple):
    """The sum of `exponential` of an element less something of its row, where `maximum` is of the same elements."""

    maximum: Node
    exponential: Node
    shift: Value


def levels(body: Graph) -> list[list[Node]]:
    """Reductions by how many others they depend on."""
    level: dict[Value, int] = {}
    found: list[list[Node]] = []
    for node in body.nodes:
        depth = max((level.get(v, 0) for v in node.operands), default=0)
        if node.op in REDUCTIONS:
            found += [[]] * (depth + 1 - len(found))
            found[depth] = [*found[depth], node]
            depth += 1
        level.update(dict.fromkeys(node.results, depth))
    return found


def online_sums(body: Graph) -> dict[Node, OnlineSum]:
    """The second reductions that are sums of this kind, if all of them are: one loop over the rows less."""
    first, second = [*levels(body), [], []][:2]
    made = body.index.producers
    maxima = {n.operands[0]: n for n in first if n.attrs.kind == "maximum"}
    found: dict[Node, OnlineSum] = {}
    for node in second:
        exponential = made.get(node.operands[0])
        difference = made.get(exponential.operands[0]) if exponential and exponential.op == "exponential" else None
        maximum = maxima.get(difference.operands[0]) if difference and difference.op == "subtract" else None
        if node.attrs.kind != "add" or node.result.type.dtype not in _FLOATS:
            return {}
        if exponential is None or difference is None or maximum is None or maximum.attrs.dims != node.attrs.dims:
            return {}
        shift = difference.operands[1]
        if not _is_of_rows(shift, made, node.attrs.dims):
            return {}
        found[node] = OnlineSum(maximum, exponential, shift)
    return found


def _is_of_rows(value: Value, made: Mapping[Value, Node], dims: Sequence[int]) -> bool:
    """Whether a value is broadcast along the reduced dims."""
    node = made.get(value)
    return (
        node is not None
        and node.op == "broadcast_in_dim"
        and not any(d in dims and node.operands[0].type.sizes[i] > 1 for i, d in enumerate(node.attrs.dims))
    )


def repeated_bytes(body: Graph) -> int:
    """Bytes of operands that a kernel reads more than once, beyond their first read: by several segments, or over long rows."""
    parts = segments(body)
    reads = Counter(value for part in parts for value in part.inputs if part is not body)
    return sum(value.type.nbytes * (count - 1) for value, count in reads.items()) + sum(map(_again, parts))


def _again(body: Graph) -> int:
    """Of one segment."""
    if space_of_row_sums(body) or not any(_is_long(node) for node in body.nodes if node.op in REDUCTIONS):
        return 0
    online = online_sums(body)
    passes = [[v for n in nodes if n not in online for v in n.operands[:1]] for nodes in levels(body)]
    rows = max(n.result.type.size for n in body.nodes if n.op in REDUCTIONS)
    passes.append([value for value in body.outputs if value.type.size > rows])
    read = [value for ends in passes for value in _read(body, ends) if value.type.size > rows]
    return sum(value.type.nbytes * (read.count(value) - 1) for value in dict.fromkeys(read))


def _is_long(node: Node) -> bool:
    sizes, dims = node.operands[0].type.sizes, node.attrs.dims
    reduced = math.prod(sizes[d] for d in dims)
    return reduced > (WHOLE_ROW if len(sizes) - 1 in dims else _COLUMN_ROWS)


def _read(body: Graph, ends: Sequence[Value]) -> list[Value]:
    """The operands from which values are computed, where the results of reductions are known."""
    producers = body.index.producers
    reduced = {value for value, node in producers.items() if node.op in REDUCTIONS}
    read = {*values_behind(ends, producers.get, reduced.__contains__)}
    return [value for value in body.inputs if value in read]
