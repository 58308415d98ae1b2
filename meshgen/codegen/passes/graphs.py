"""Rewrites of all graphs of a local program: its own, and the regions of its control flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from meshgen.ir.graph import Graph, Module, Node
from meshgen.ir.regions import flow_regions


def on_graphs(module: Module, rewrite: Callable[[Graph], Graph]) -> Module:
    """The module with every graph rewritten; itself where that changes nothing."""
    return with_graph(module, _rewritten(module.graph, rewrite))


def with_graph(module: Module, graph: Graph) -> Module:
    """The module with another graph; itself where that is the same."""
    return module if _is_same(graph, module.graph) else replace(module, graph=graph)


def _rewritten(graph: Graph, rewrite: Callable[[Graph], Graph]) -> Graph:
    found = rewrite(graph)
    nodes = [_with_regions(node, rewrite) if node.regions else node for node in found.nodes]
    return found if _all_is(nodes, found.nodes) else Graph(found.name, found.inputs, nodes, found.outputs)


def _with_regions(node: Node, rewrite: Callable[[Graph], Graph]) -> Node:
    if not (before := flow_regions(node)):
        return node
    regions = [_rewritten(region, rewrite) for region in before]
    return node if all(map(_is_same, regions, before)) else replace(node, regions=tuple(regions))


def _is_same(graph: Graph, before: Graph) -> bool:
    return graph is before or (_all_is(graph.nodes, before.nodes) and _all_is(graph.outputs, before.outputs))


def _all_is(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))
