"""Pattern rewriting: replace nodes of a graph. The results keep their identity, so users need not be rewritten.

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
"""Append replacement nodes and return one value per result of the node, or append nothing and return None to keep the
node.
"""


def rewritten(graph: Graph, rule: Rule) -> Graph:
    """Apply `rule` to each node of a graph in program order, and return the new graph.

    Returns `graph` itself if `rule` changes no node. Nodes in regions are not visited.
    """
    result = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    for node in graph.nodes:
        builder = Builder(Graph(""), node.loc)
        values = rule(builder, node)
        if values is not None:
            redefine_results(builder.graph, values, node.results)
        result.nodes += [node] if values is None else builder.graph.nodes
    return graph if result.nodes == graph.nodes else result


def redefine_results(graph: Graph, values: Sequence[Value], results: Sequence[Value]) -> None:
    """Replace `values` by `results` as the results of their producers in `graph`. No node of `graph` may use `values`."""
    producers = graph.index.producers
    for value, result in zip(values, results, strict=True):
        outputs = producers[value].results
        outputs[outputs.index(value)] = result
