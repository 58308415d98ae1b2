"""Helpers that rewrite all graphs of a local program: the main graph and the regions of its control flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from meshgen.ir.graph import Graph, Module, Node
from meshgen.ir.regions import flow_regions


def on_graphs(module: Module, rewrite: Callable[[Graph], Graph]) -> Module:
    """Apply `rewrite` to every graph of the module. Returns the module itself if nothing changes."""
    return with_graph(module, _rewritten(module.graph, rewrite))


def with_graph(module: Module, graph: Graph) -> Module:
    """Return the module with `graph` as its main graph, or the module itself if the graph is the same."""
    return module if _is_same(graph, module.graph) else replace(module, graph=graph)


def _rewritten(graph: Graph, rewrite: Callable[[Graph], Graph]) -> Graph:
    after = rewrite(graph)
    nodes = [_with_regions(node, rewrite) if node.regions else node for node in after.nodes]
    return after if _all_identical(nodes, after.nodes) else Graph(after.name, after.inputs, nodes, after.outputs)


def _with_regions(node: Node, rewrite: Callable[[Graph], Graph]) -> Node:
    if not (before := flow_regions(node)):
        return node
    regions = [_rewritten(region, rewrite) for region in before]
    return node if all(map(_is_same, regions, before)) else replace(node, regions=tuple(regions))


def _is_same(graph: Graph, before: Graph) -> bool:
    return graph is before or (
        _all_identical(graph.nodes, before.nodes) and _all_identical(graph.outputs, before.outputs)
    )


def _all_identical(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(map(is_, left, right))
