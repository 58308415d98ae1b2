"""Parts of a kernel that have nothing to do with each other: one kernel updates many tensors of unequal shapes.

    p0' = p0 - g0    f32[512,64]          two segments: each is a range of the kernel's programs
    p1' = p1 - g1    f32[96]

Parts over equally many elements (reductions: over the same dims) that read such a value in common are one segment, which reads it once. So what a program
reads, no program of another segment overwrites: operands of several segments are not overwritten at all (`runtime/in_place.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.matchers import values_behind
from meshgen.ops.classes import DOTS, LOOPS
from meshgen.ops.rows import row_length, runs_of_rows, sums_beside_rows

T = TypeVar("T")


def segments(body: Graph) -> list[Graph]:
    """The segments, as bodies over the same values, in the order of their first outputs; the body itself if it is one."""
    if len(body.outputs) < 2:
        return [body]
    made = {value: node for node in body.nodes for value in node.results}
    parts = [_Part(body, made, number) for number in range(len(body.outputs))]
    joined = connected(parts, lambda part: [node for node in part.nodes if node.operands])
    groups = connected(joined, _rows_shared if sums_beside_rows(body.nodes) else _shared)
    return (
        [body]
        if len(groups) == 1
        else [_segment(body, [part for parts in group for part in parts]) for group in groups]
    )


class _Part:
    """What one output is made of: nodes and inputs."""

    def __init__(self, body: Graph, made: dict[Value, Node], number: int) -> None:
        self.number = number
        self.output = body.outputs[number]
        self.values = dict.fromkeys(values_behind([self.output], made.get))
        self.nodes = {made[value]: None for value in self.values if value in made}
        self.inputs = [value for value in body.inputs if value in self.values]


def _shared(group: list[_Part]) -> Iterable[Hashable]:
    """What makes one segment of two parts that have it: large inputs that both go over alike, and being single elements.

    Of products only those do that differ in their right operand alone.
    """
    if dots := {node: None for part in group for node in part.nodes if node.op in DOTS}:
        for dot in dots:
            if len(group) == 1 and dot.result is group[0].output and dot.operands[1] in group[0].inputs:
                yield dot.operands[0], dot.operands[1].type, dot.result.type, dot.attrs
        return
    loops = {node: None for part in group for node in part.nodes if node.op in LOOPS}
    over = {(part.output.type.size, ()) for part in group if not loops}
    over |= {(node.operands[0].type.size, node.operands[0].type.sizes, node.attrs.get("dims")) for node in loops}
    if len(over) > 1:
        return
    (space,) = over
    yield from ((value, space) for part in group for value in part.inputs if value.type.size == space[0])
    if space == (1, ()):
        yield "one element"


def _rows_shared(group: list[_Part]) -> Iterable[Hashable]:
    """The same in a body that also sums up the rows that it reduces: one kernel goes over them for both."""
    yield from _shared(group)
    loops = {node: None for part in group for node in part.nodes if node.op in LOOPS}
    rows = {(node.operands[0].type.size, row_length(node) or _length(node)) for node in loops}
    if len(rows) == 1 and (0 not in (space := rows.pop())):
        yield from ((value, space) for part in group for value in part.inputs if value.type.size == space[0])


def _length(node: Node) -> int:
    runs = runs_of_rows(node)
    return runs.length if runs else 0


def connected(items: Sequence[T], keys: Callable[[T], Iterable[Hashable]]) -> list[list[T]]:
    """Items in groups: those that have a key in common, directly or over others. Groups and their items keep the order."""
    group = list(range(len(items)))
    first: dict[Hashable, int] = {}

    def root(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    for number, item in enumerate(items):
        for key in keys(item):
            ends = sorted((root(number), root(first.setdefault(key, number))))
            group[ends[1]] = ends[0]
    found: dict[int, list[T]] = {}
    for number, item in enumerate(items):
        found.setdefault(root(number), []).append(item)
    return list(found.values())


def _segment(body: Graph, group: list[_Part]) -> Graph:
    nodes = {node for part in group for node in part.nodes}
    inputs = {value for part in group for value in part.inputs}
    outputs = [body.outputs[number] for number in sorted(part.number for part in group)]
    kept = [node for node in body.nodes if node in nodes]
    return Graph(body.name, [v for v in body.inputs if v in inputs], kept, outputs)
