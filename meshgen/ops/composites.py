"""Composites: operations whose meaning is a graph of other operations, the decomposition that their record makes.

    %o, %l = attention %q, %k, %v        is        %s = dot_general %q, %k    %m = reduce maximum %s    ...    %o = dot_general %p, %v

A composite is recognized once, keeps its sharding rule and its types through all stages, and is expanded where no kernel claims it.
"""

from __future__ import annotations

from collections.abc import Callable

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import rewired
from meshgen.ops.decompositions.writer import FactorWriter
from meshgen.ops.registry import OPS


def is_composite(node: Node) -> bool:
    """Whether the node's op has a decomposition."""
    return node.op in OPS and OPS[node.op].decompose is not None


def decomposed(node: Node) -> Graph:
    """Return the decomposition of a composite node as a graph from its operands, each use by itself, to its results."""
    inputs = [Value(value.type, loc=value.loc) for value in node.operands]
    graph = Graph(node.op, inputs)
    inner = Node(node.op, list(inputs), node.results, node.attrs, node.loc, regions=node.regions)
    graph.outputs = _appended(inner, graph)
    return graph


def expanded(graph: Graph, is_chosen: Callable[[Node], bool] = is_composite) -> Graph:
    """Return the graph with the chosen composites replaced by their decompositions; the graph itself where none is chosen.

    Results keep their names and identities for reports. Regions of other operations are left as they are.
    """
    if not any(map(is_chosen, graph.nodes)):
        return graph
    now: dict[Value, Value] = {}
    found = Graph(graph.name, list(graph.inputs))
    for node in graph.nodes:
        node = rewired(node, now) if now else node
        if not is_chosen(node):
            found.nodes.append(node)
            continue
        for before, after in zip(node.results, _appended(node, found), strict=True):
            now[before] = after
            if after not in node.operands:
                after.name, after.id, after.sharding = before.name, before.id, before.sharding
                after.stands_for(before)
    found.outputs = [now.get(value, value) for value in graph.outputs]
    return found


def _appended(node: Node, graph: Graph) -> list[Value]:
    decompose = OPS[node.op].decompose
    assert decompose is not None, node.op
    return list(decompose(FactorWriter(node, Builder(graph, node.loc))))
