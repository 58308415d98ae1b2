"""Segments: independent subgraphs of a kernel body, so that one kernel can update tensors of different shapes.

    p0' = p0 - g0    f32[512,64]      two segments: each is a range of the kernel's thread blocks
    p1' = p1 - g1    f32[96]

Two outputs are in the same segment if they have equal iteration spaces (a reduction iterates over its operand) and a
common large input, which the segment then loads once. If an operand is used by several segments, no segment updates it
in place (`runtime/in_place.py`), so no segment overwrites an element that another segment reads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.matchers import transitive_operands
from meshgen.ops.classes import DOTS, LOOPS
from meshgen.ops.row_reductions import has_row_and_run_sums, row_length, summed_runs

T = TypeVar("T")


def segments(body: Graph) -> list[Graph]:
    """Split a kernel body into segments, in the order of their first outputs. Returns [body] if there is only one
    segment.

    The graphs of the segments share the values of `body`.
    """
    if len(body.outputs) < 2:
        return [body]
    producers = {value: node for node in body.nodes for value in node.results}
    parts = [_Part(body, producers, index) for index in range(len(body.outputs))]
    joined = connected(parts, lambda part: [node for node in part.nodes if node.operands])
    groups = connected(joined, _rows_shared if has_row_and_run_sums(body.nodes) else _shared)
    return (
        [body]
        if len(groups) == 1
        else [_segment(body, [part for parts in group for part in parts]) for group in groups]
    )


class _Part:
    """An output of a kernel body, with the nodes and inputs that the output depends on."""

    def __init__(self, body: Graph, producers: dict[Value, Node], number: int) -> None:
        self.number = number
        self.output = body.outputs[number]
        self.values = dict.fromkeys(transitive_operands([self.output], producers.get))
        self.nodes = {producers[value]: None for value in self.values if value in producers}
        self.inputs = [value for value in body.inputs if value in self.values]


def _shared(group: list[_Part]) -> Iterable[Hashable]:
    """Yield the keys of a group of outputs. Groups with a common key become one segment.

    A key is a large input with the iteration space over it, or a constant for outputs of one element. For a dot, the
    key contains everything but the right operand, so dots of one left operand share a segment.
    """
    if dots := {node: None for part in group for node in part.nodes if node.op in DOTS}:
        for dot in dots:
            if len(group) == 1 and dot.result is group[0].output and dot.operands[1] in group[0].inputs:
                yield dot.operands[0], dot.operands[1].type, dot.result.type, dot.attrs
        return
    loops = {node: None for part in group for node in part.nodes if node.op in LOOPS}
    spaces = {(part.output.type.size, ()) for part in group if not loops}
    spaces |= {(node.operands[0].type.size, node.operands[0].type.sizes, node.attrs.get("dims")) for node in loops}
    if len(spaces) > 1:
        return
    (space,) = spaces
    yield from ((value, space) for part in group for value in part.inputs if value.type.size == space[0])
    if space == (1, ()):
        yield "one element"


def _rows_shared(group: list[_Part]) -> Iterable[Hashable]:
    """Yield the keys of `_shared`, and further keys so that row reductions and run sums over the same rows share a
    segment.
    """
    yield from _shared(group)
    loops = {node: None for part in group for node in part.nodes if node.op in LOOPS}
    rows = {(node.operands[0].type.size, row_length(node) or _run_length(node)) for node in loops}
    if len(rows) == 1 and (0 not in (space := rows.pop())):
        yield from ((value, space) for part in group for value in part.inputs if value.type.size == space[0])


def _run_length(node: Node) -> int:
    runs = summed_runs(node)
    return runs.length if runs else 0


def connected(items: Sequence[T], keys: Callable[[T], Iterable[Hashable]]) -> list[list[T]]:
    """Group items that have a key in common, directly or through other items (connected components).

    Groups, and the items in each group, have the order of `items`.
    """
    group = list(range(len(items)))
    first: dict[Hashable, int] = {}

    def root(index: int) -> int:
        while group[index] != index:
            index = group[index]
        return index

    for index, item in enumerate(items):
        for key in keys(item):
            ends = sorted((root(index), root(first.setdefault(key, index))))
            group[ends[1]] = ends[0]
    groups: dict[int, list[T]] = {}
    for index, item in enumerate(items):
        groups.setdefault(root(index), []).append(item)
    return list(groups.values())


def _segment(body: Graph, group: list[_Part]) -> Graph:
    nodes = {node for part in group for node in part.nodes}
    inputs = {value for part in group for value in part.inputs}
    outputs = [body.outputs[index] for index in sorted(part.number for part in group)]
    nodes_in_order = [node for node in body.nodes if node in nodes]
    return Graph(body.name, [v for v in body.inputs if v in inputs], nodes_in_order, outputs)
