"""A graph whose last node is done in parts, as the record of its op says."""

from __future__ import annotations

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph
from meshgen.ops.registry import OPS


def in_parts(graph: Graph) -> list[tuple[int, Graph]]:
    """The possible numbers of parts, and the graph with its last node in so many."""
    node = graph.nodes[-1]
    parts_of = OPS[node.op].parts
    assert parts_of is not None
    parts = parts_of(node, graph.index.producers.get)
    assert parts is not None
    split: list[tuple[int, Graph]] = []
    for count in parts.counts:
        builder = Builder(Graph("", graph.inputs, graph.nodes[:-1]))
        builder.graph.outputs = parts.combine(builder, parts.partial(builder, count))
        split.append((count, builder.graph))
    return split
