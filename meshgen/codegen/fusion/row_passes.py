"""Passes over rows that do not fit in registers: one per level of dependent reductions, and one to write results of
full size.

    m = max x    s = sum exp(x - m)    y = exp(x - m) / s         one pass for max and sum, then one pass for y

A sum of exponentials is computed in the same pass as the maximum that it subtracts (online softmax). Each lane keeps
the largest element so far, and the sum relative to this element. A larger element rescales the sum.
Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from meshgen.codegen.fusion.reconstructed_space import space_of_row_sums
from meshgen.codegen.fusion.tiles import WHOLE_ROW
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.matchers import transitive_operands
from meshgen.ops.classes import REDUCTIONS
from meshgen.ops.segments import segments

_FLOATS = ("f32", "f64")
# Most elements of a column that registers hold: the tallest tile of `tiles.reduction_shape` with 64 columns.
_COLUMN_ROWS = 64


class OnlineSum(NamedTuple):
    """A sum of exp(element - shift) that the pass of a maximum can compute.

    `exponential` is the summed exponential. `maximum` reduces the same elements. `shift` is constant in a row.
    """

    maximum: Node
    exponential: Node
    shift: Value


def levels(body: Graph) -> list[list[Node]]:
    """Return the reductions of a body in levels: the longest path to a reduction in level n contains n other
    reductions.
    """
    level: dict[Value, int] = {}
    by_level: list[list[Node]] = []
    for node in body.nodes:
        depth = max((level.get(v, 0) for v in node.operands), default=0)
        if node.op in REDUCTIONS:
            by_level += [[]] * (depth + 1 - len(by_level))
            by_level[depth] = [*by_level[depth], node]
            depth += 1
        level.update(dict.fromkeys(node.results, depth))
    return by_level


def online_sums(body: Graph) -> dict[Node, OnlineSum]:
    """Return the reductions of the second level of a body, each with its online sum.

    Returns:
        An empty dict unless all of these reductions are online sums. If they are, the kernel saves one pass over the
        rows.
    """
    first, second = [*levels(body), [], []][:2]
    producers = body.index.producers
    maxima = {n.operands[0]: n for n in first if n.attrs.kind == "maximum"}
    sums: dict[Node, OnlineSum] = {}
    for node in second:
        exponential = producers.get(node.operands[0])
        difference = producers.get(exponential.operands[0]) if exponential and exponential.op == "exponential" else None
        maximum = maxima.get(difference.operands[0]) if difference and difference.op == "subtract" else None
        if node.attrs.kind != "add" or node.result.type.dtype not in _FLOATS:
            return {}
        if exponential is None or difference is None or maximum is None or maximum.attrs.dims != node.attrs.dims:
            return {}
        shift = difference.operands[1]
        if not _is_of_rows(shift, producers, node.attrs.dims):
            return {}
        sums[node] = OnlineSum(maximum, exponential, shift)
    return sums


def _is_of_rows(value: Value, producers: Mapping[Value, Node], dims: Sequence[int]) -> bool:
    """Whether `value` is a broadcast along the reduced dims `dims`, so that it is constant within a row."""
    node = producers.get(value)
    return (
        node is not None
        and node.op == "broadcast_in_dim"
        and not any(d in dims and node.operands[0].type.sizes[i] > 1 for i, d in enumerate(node.attrs.dims))
    )


def repeated_bytes(body: Graph) -> int:
    """Return the operand bytes that a kernel reads more than once, not counting the first read.

    A kernel repeats a read if several segments use the operand, or if it makes several passes over long rows.
    """
    parts = segments(body)
    reads = Counter(value for part in parts for value in part.inputs if part is not body)
    return sum(value.type.nbytes * (count - 1) for value, count in reads.items()) + sum(map(_again, parts))


def _again(body: Graph) -> int:
    """Return the operand bytes that the second and later passes of a one-segment kernel read again."""
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
    """Return the inputs from which the kernel computes the values `ends` in a pass that already has all reduction
    results.
    """
    producers = body.index.producers
    reduced = {value for value, node in producers.items() if node.op in REDUCTIONS}
    read = {*transitive_operands(ends, producers.get, reduced.__contains__)}
    return [value for value in body.inputs if value in read]
