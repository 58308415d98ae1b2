"""The kernels of a graph: its groups as they grow, then with less traffic, then joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meshgen.codegen.fusion.groups import Grouping
from meshgen.codegen.fusion.joins import Joins
from meshgen.codegen.fusion.traffic import Traffic
from meshgen.ir.graph import Graph, Node

_LAST: list[Grouping] = []  # what was found last: passes that leave the graph as it is ask again


def grouped(graph: Graph) -> Grouping:
    """The kernels of a graph."""
    found = next((each for each in _LAST if each.graph is graph), None)
    if found is None:
        found = Grouping(graph)
        traffic = Traffic(found)
        joins = Joins(traffic)
        traffic.dissolve()
        traffic.recompute()
        if joins.join_epilogues():
            traffic.dissolve()  # a dot may compute again what reductions may not
        joins.join_kernels()
        found.groups = [g for g in found.groups if g.members]
        _LAST[:] = [found]
    return found


def forget() -> None:
    """Keep no grouping: the next graph is another one."""
    _LAST.clear()


def with_joins(grouping: Grouping, nodes: Mapping[Node, Node]) -> Graph:
    """The graph with joins in place of concatenations, each a kernel of its own that reads what launches make.

    The grouping becomes that of this graph: nothing else changes, as such a kernel reads and writes the same values.
    """
    graph = replace(grouping.graph, nodes=[nodes.get(node, node) for node in grouping.graph.nodes])
    grouping.graph, grouping.producer = graph, graph.index.producers
    grouping.position = {node: place for place, node in enumerate(graph.nodes)}
    for node in nodes.values():
        group = grouping.owner[node.result]
        group.kind, group.members[:] = "opaque", [node]
        grouping.must.update(dict.fromkeys(map(grouping.view_root, node.operands)))
    return graph
