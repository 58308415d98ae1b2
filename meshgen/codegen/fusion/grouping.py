"""Grouping of a graph into kernels: groups grow, then readers recompute values to move fewer bytes, then groups merge."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.group_growth import Grouping
from meshgen.codegen.fusion.group_merging import Joins
from meshgen.codegen.fusion.ordering import without_barriers
from meshgen.codegen.fusion.traffic import Traffic
from meshgen.ir.graph import Graph, Value


def grouped(graph: Graph) -> Grouping:
    """Group the operations of a graph into kernels.

    The graph of the grouping has no optimization barriers. They only order the groups.
    """
    grouping = Grouping(*without_barriers(graph))
    traffic = Traffic(grouping)
    joins = Joins(traffic)
    traffic.dissolve()
    traffic.recompute()
    if joins.join_epilogues():
        # A reduction that was merged into a dot's epilogue may recompute values that a separate kernel may not.
        traffic.dissolve()
    joins.join_kernels()
    grouping.groups = [g for g in grouping.groups if g.members]
    return grouping


def with_concatenations_as_joins(grouping: Grouping, graph: Graph, joined: AbstractSet[Value]) -> Graph:
    """Return the graph with joins (concatenations in place) instead of the concatenations that produce the values in
    `joined`.

    Each of these concatenations is a separate kernel that reads results of launches. The grouping is updated to the
    returned graph, without other changes, because a join reads and writes the same values. If the graph has
    optimization barriers, the grouping is not updated.
    """
    joins = {node: replace(node, op="join") for node in graph.nodes if not joined.isdisjoint(node.results)}
    joined_graph = replace(graph, nodes=[joins.get(node, node) for node in graph.nodes])
    if grouping.graph is not graph:
        return joined_graph
    grouping.graph, grouping.producer = joined_graph, joined_graph.index.producers
    grouping.position = {node: i for i, node in enumerate(joined_graph.nodes)}
    for node in joins.values():
        group = grouping.owner[node.result]
        group.form, group.members[:] = KernelForm.OPAQUE, [node]
        grouping.must.update(dict.fromkeys(map(grouping.view_root, node.operands)))
    return joined_graph
