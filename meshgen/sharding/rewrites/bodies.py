"""Apply a rewrite of graphs to the bodies of loops and branches as well, innermost first.

Example: a rewrite folds `slice (pad %x : f32[64])`. In `while (...) { %p = pad %x  %y = slice %p }` it first turns the
body into `{ %y = pad %x }`, then rewrites the graph around the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from meshgen.ir.graph import Graph, Node
from meshgen.ir.regions import flow_regions

Rewrite = Callable[[Graph], Graph | None]


def in_bodies(graph: Graph, rewrite: Rewrite) -> Graph | None:
    """Return the graph with the regions of its loops and branches rewritten, or None if no region changed."""
    changed: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.regions and any(rewritten := [rewrite(region) for region in flow_regions(node)]):
            regions = tuple(new or old for new, old in zip(rewritten, node.regions, strict=True))
            changed[node] = replace(node, regions=regions)
    return replace(graph, nodes=[changed.get(node, node) for node in graph.nodes]) if changed else None


def everywhere(rewrite: Rewrite) -> Rewrite:
    """Return a rewrite that applies `rewrite` to all bodies inside a graph, then to the graph itself."""

    def rewritten(graph: Graph) -> Graph | None:
        inner = in_bodies(graph, rewritten)
        return rewrite(inner or graph) or inner

    return rewritten
