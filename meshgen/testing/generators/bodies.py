"""Random regions, which are built op by op like programs, also from ops that have regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.testing.generators.writer import Writer

DEEPEST = 2  # maximum nesting depth of regions. Chosen: keeps programs small


@dataclass
class Body(Writer):
    """A region under construction, which can use the values around it. Where a program would get a new input, a region
    gets a constant.
    """

    depth: int = 1

    def new_input(self, type_: TensorType | None = None) -> Value:
        return self.constant(type_ or TensorType(self.shape(self.integer(0, 3)), "f32"))


def depth_of(writer: Writer) -> int:
    return writer.depth if isinstance(writer, Body) else 0


def grown(writer: Writer, graph: Graph, result: Value, captured: Sequence[Value] = ()) -> tuple[Value, bool]:
    """Append a few random ops to a region.

    The inputs of the region count as inexact, because a loop may carry rounded values. The values of `captured`, which
    are defined outside of the region, are exact if they are exact there.

    Returns:
        A value with the type of `result`, which may be `result` itself, and whether the value is exact.
    """
    exact = {*writer.exact}
    visible = [*captured, *graph.inputs]
    exact_visible = [value for value in visible if value in exact]
    body = Body(
        writer.rng, writer.mesh, writer.ops, graph, visible, exact_visible, writer.variety, depth_of(writer) + 1
    )
    if result not in body.values:
        body.values.append(result)
    type_, count = result.type, len(graph.nodes) + writer.integer(1, 5)
    while len(graph.nodes) < count:
        writer.one_of(writer.ops)(body)
    created = [v for node in graph.nodes for v in node.results if v.type == type_]
    return (created[-1], created[-1] in body.exact) if created else (result, result in body.exact)
