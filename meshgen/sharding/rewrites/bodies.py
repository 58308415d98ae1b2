"""Apply a rewrite of graphs to the bodies of loops and branches too, innermost first.

Example: with a rewrite that folds `slice (pad %x : f32[64])`, in `while (...) { %p = pad %x  %y = slice %p }` the body is
rewritten to `{ %y = pad %x }`, then the graph around the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from meshgen.ir.graph import Graph, Node
from meshgen.ir.regions import flow_regions

Rewrite = Callable[[Graph], Graph | None]


def in_bodies(graph: Graph, rewrite: Rewrite) -> Graph | None:
    """The graph with the regions of its loops and branches rewritten; None if none changed."""
    changed: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.regions and any(found := [rewrite(region) for region in flow_regions(node)]):
            regions = tuple(new or old for new, old in zip(found, node.regions, strict=True))
            changed[node] = replace(node, regions=regions)
    return replace(graph, nodes=[changed.get(node, node) for node in graph.nodes]) if changed else None


def everywhere(rewrite: Rewrite) -> Rewrite:
    """The rewrite of a graph and, before it, of the bodies in it."""

    def rewritten(graph: Graph) -> Graph | None:
        inner = in_bodies(graph, rewritten)
        return rewrite(inner or graph) or inner

    return rewritten
