"""Apply a change to each loop of a program, from the innermost outwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.loops import trip_count
from meshgen.ir.predicates import is_control, is_loop


def rewrite_loops(
    graph: Graph, change: Callable[[Node], list[Node]], around: Mapping[Value, Node] | None = None
) -> Graph:
    """Replace each loop of the graph by the nodes that `change` returns for it. Loops that run at most once stay as
    they are.

    Args:
        around: if the graph is a region, the producers of the values that it captures.
    """
    nodes: list[Node] = []
    producers = {**(around or {}), **graph.index.producers}
    for node in graph.nodes:
        if node.regions and is_control(node):
            node = replace(node, regions=tuple(rewrite_loops(region, change, producers) for region in node.regions))
        runs_often = is_loop(node) and trip_count(node, producers) not in (0, 1)
        nodes += change(node) if runs_often else [node]
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)
