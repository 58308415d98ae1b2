"""Helper for splitting the last node of a graph by the `parts` rule of its op."""

from __future__ import annotations

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph
from meshgen.ops.registry import OPS


def in_parts(graph: Graph) -> list[tuple[int, Graph]]:
    """Return each supported part count with the graph whose last node is split into that many parts."""
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
