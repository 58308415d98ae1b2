"""Replace nodes of a graph by others, where all values that are read elsewhere stay the same ones.

def rule(builder: Builder, node: Node) -> Sequence[Value] | None:
    if node.op != "square":
        return None
    return [builder.elementwise("multiply", node.operands[0], node.operands[0])]

graph = rewritten(graph, rule)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, Value

Rule = Callable[[Builder, Node], Sequence[Value] | None]
"""Append nodes and return a value that they make for each result of the node; or append none and return None: the node stays."""


def rewritten(graph: Graph, rule: Rule) -> Graph:
    """Return the graph with a rule applied to its nodes in program order; the graph itself where all stay. Regions are left as they are."""
    after = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    for node in graph.nodes:
        builder = Builder(Graph(""), node.loc)
        values = rule(builder, node)
        if values is not None:
            take_place(builder.graph, values, node.results)
        after.nodes += [node] if values is None else builder.graph.nodes
    return graph if after.nodes == graph.nodes else after


def take_place(graph: Graph, values: Sequence[Value], results: Sequence[Value]) -> None:
    """Let the nodes that make `values`, which no node of the graph reads, make `results` instead."""
    producers = graph.index.producers
    for value, result in zip(values, results, strict=True):
        made = producers[value].results
        made[made.index(value)] = result
