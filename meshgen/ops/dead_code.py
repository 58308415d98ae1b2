"""Dead code elimination."""

from __future__ import annotations

from dataclasses import replace

from meshgen.ir.graph import Graph, Node
from meshgen.ir.regions import needed_nodes
from meshgen.ops.classes import AWAITED


def live_nodes(graph: Graph) -> list[Node]:
    """Return the nodes whose results are used, and the collectives that other devices wait for.

    Collectives of the latter kind are live on every device, because dropping one on some devices would hang the others.
    """
    return needed_nodes(graph.nodes, graph.outputs, _is_awaited)


def without_dead(graph: Graph) -> Graph:
    """Return the graph without its dead nodes, including those in regions."""
    nodes = [replace(n, regions=tuple(map(without_dead, n.regions))) if n.regions else n for n in graph.nodes]
    return Graph(graph.name, graph.inputs, needed_nodes(nodes, graph.outputs, _is_awaited), graph.outputs)


def _is_awaited(node: Node) -> bool:
    return node.op in AWAITED or any(_is_awaited(inner) for region in node.regions for inner in region.nodes)
