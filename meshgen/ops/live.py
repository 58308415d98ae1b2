"""Dead code: which nodes of a local program are there for something."""

from __future__ import annotations

from meshgen.ir.graph import Graph, Node
from meshgen.ir.regions import needed_nodes
from meshgen.ops.classes import AWAITED


def live_nodes(graph: Graph) -> list[Node]:
    """Nodes whose results are used, and those that other devices wait for; every device drops the same collectives."""
    return needed_nodes(graph.nodes, graph.outputs, lambda node: node.op in AWAITED)
