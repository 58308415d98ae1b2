"""Regions that are grown like programs: any op, nested regions too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.testing.generators.writer import Writer

DEEPEST = 2  # regions in regions


@dataclass
class Body(Writer):
    """A region under construction, which sees the values around it. What it would take as an argument is a constant."""

    depth: int = 1

    def new_input(self, kind: TensorType | None = None) -> Value:
        return self.constant(kind or TensorType(self.shape(self.integer(0, 3)), "f32"))


def depth_of(writer: Writer) -> int:
    return writer.depth if isinstance(writer, Body) else 0


def grown(writer: Writer, graph: Graph, result: Value, captured: Sequence[Value] = ()) -> tuple[Value, bool]:
    """A value of the type of `result` that a few random ops make of it, and whether it is exact.

    The region's inputs are not taken for exact: a loop may bring rounded ones. Values from around it (`captured`:
    some of them) are as exact as they are there.
    """
    exact = {*writer.exact}
    seen = [*captured, *graph.inputs]
    known = [value for value in seen if value in exact]
    body = Body(writer.rng, writer.mesh, writer.ops, graph, seen, known, writer.variety, depth_of(writer) + 1)
    if result not in body.values:
        body.values.append(result)
    kind, count = result.type, len(graph.nodes) + writer.integer(1, 5)
    while len(graph.nodes) < count:
        writer.one_of(writer.ops)(body)
    made = [v for node in graph.nodes for v in node.results if v.type == kind]
    return (made[-1], made[-1] in body.exact) if made else (result, result in body.exact)
