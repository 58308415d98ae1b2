"""Loops that communicate, written out: a static schedule needs every collective by itself.

Only loops whose trips are known and whose body holds collectives; others stay one launch. Copies of a body are
the same kernels, so they are generated and compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.loops import trip_count
from meshgen.runtime.plan import COLLECTIVES

MOST_NODES = 100_000  # of one loop written out; beyond it the loop stays and scheduling refuses it


def unroll(module: Module) -> Module:
    """The module (stage `partition`) with every loop that communicates written out; itself if there is none."""
    if not any(_communicates(node) for node in module.graph.nodes):
        return module
    graph = Graph(module.graph.name, list(module.graph.inputs))
    env = {value: value for value in graph.inputs}
    producers = module.graph.producers()
    for node in module.graph.nodes:
        _emit(node, env, graph, producers)
    graph.outputs = [env[value] for value in module.graph.outputs]
    return replace(module, graph=graph)


def communicates(graph: Graph) -> bool:
    """Whether a graph, or a region in it, holds a collective."""
    return any(node.op in COLLECTIVES or _communicates(node) for node in graph.nodes)


def _communicates(node: Node) -> bool:
    return any(communicates(region) for region in node.regions)


def _trips(node: Node, producers: Mapping[Value, Node]) -> int | None:
    """How often a loop is to be written out; None: it stays."""
    if node.op != "while" or not _communicates(node) or communicates(node.regions[0]):
        return None
    trips = trip_count(node, producers)
    return trips if trips is not None and trips * len(node.regions[1].nodes) <= MOST_NODES else None


def _emit(node: Node, env: dict[Value, Value], into: Graph, producers: Mapping[Value, Node]) -> None:
    """Add a copy of the node, or of its body once per trip; `env` maps old values to new ones."""
    trips = _trips(node, producers)
    if trips is None:
        copy = _copy(node, env)
        into.nodes.append(copy)
        return
    body = node.regions[1]
    inner_producers = {**producers, **body.producers()}
    state = [env[value] for value in node.operands]
    for _ in range(trips):
        inner = {**env, **dict(zip(body.inputs, state, strict=True))}
        for child in body.nodes:
            _emit(child, inner, into, inner_producers)
        state = [inner[value] for value in body.outputs]
    env.update(zip(node.results, state, strict=True))


def _copy(node: Node, env: dict[Value, Value]) -> Node:
    results = [replace(value) for value in node.results]
    regions = tuple(_copy_region(region, env) for region in node.regions)
    env.update(zip(node.results, results, strict=True))
    operands = [env[value] for value in node.operands]
    return Node(node.op, operands, results, dict(node.attrs), node.loc, node.sharding, regions)


def _copy_region(region: Graph, outer: Mapping[Value, Value]) -> Graph:
    env = {**outer, **{value: replace(value) for value in region.inputs}}
    copy = Graph(region.name, [env[value] for value in region.inputs])
    copy.nodes = [_copy(node, env) for node in region.nodes]
    copy.outputs = [env[value] for value in region.outputs]
    return copy
