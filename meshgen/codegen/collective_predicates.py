"""Predicates that tell whether parts of a local program communicate."""

from __future__ import annotations

from meshgen.ccl.cost import MESSAGES
from meshgen.ir.graph import Graph, Node
from meshgen.ops.classes import COMMUNICATING


def communicates(graph: Graph) -> bool:
    """Whether a graph contains a collective, directly or in a nested region."""
    return any(node.op in COMMUNICATING or any(map(communicates, node.regions)) for node in graph.nodes)


def is_message(node: Node) -> bool:
    """Whether a node sends or receives, directly or in a nested region. The order of such nodes must not change."""
    return node.op in MESSAGES or any(is_message(inner) for region in node.regions for inner in region.nodes)
