"""Optimization barriers as ordering constraints.

Code generation treats a barrier as the identity, but users of its results run after all operands are computed.

    before   %a, %b = optimization_barrier %x, %g        %y = sine %a
    after    %y = sine %x                                runs after %x and %g are computed

A kernel that has %g in registers may thus also compute %y, and nothing is copied. After fusion, `fuse.py` inserts
barriers again to order the launches. They cost nothing, because their results are views.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from meshgen.codegen.fusion.group import Group
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.predicates import is_optimization_barrier
from meshgen.ir.regions import rewired, used_by
from meshgen.ops.dead_code import live_nodes

Order = Mapping[Node, tuple[Value, ...]]
"""Maps a node to the values that must be computed before it, in addition to its operands."""
NO_ORDER: Order = {}


def without_barriers(graph: Graph) -> tuple[Graph, Order]:
    """Return the graph without optimization barriers, and a map from nodes to the values that they must wait for.

    The operands of a barrier replace its results. Nodes that only barriers use are removed. Barriers in regions stay.
    Returns the graph itself if it has no barriers.
    """
    if not any(map(is_optimization_barrier, graph.nodes)):
        return graph, {}
    now: dict[Value, Value] = {}
    # For each result of a barrier, the values that users of the result must wait for.
    behind: dict[Value, tuple[Value, ...]] = {}
    nodes: list[Node] = []
    order: dict[Node, tuple[Value, ...]] = {}
    for node in graph.nodes:
        waits = tuple(dict.fromkeys(v for value in used_by(node) for v in behind.get(value, ())))
        node = rewired(node, now) if not now.keys().isdisjoint(used_by(node)) else node
        if is_optimization_barrier(node):
            now.update(zip(node.results, node.operands, strict=True))
            behind.update(dict.fromkeys(node.results, tuple(dict.fromkeys((*node.operands, *waits)))))
            continue
        nodes.append(node)
        if waits:
            order[node] = waits
    plain = replace(graph, nodes=nodes, outputs=[now.get(value, value) for value in graph.outputs])
    return replace(plain, nodes=live_nodes(plain)), order


class Reads(Protocol):
    """Interface to the values that nodes read and wait for; `fusion/rematerialized.FreeNodes` implements it."""

    def sources_of(self, node: Node) -> tuple[Value, ...]: ...
    def waits_of(self, node: Node) -> tuple[Value, ...]: ...


class Groups(Protocol):
    """Interface to the producers of values; `fusion/groups.Grouping` implements it."""

    owner: dict[Value, Group]
    producer: Mapping[Value, Node]

    @property
    def free(self) -> Reads: ...
    def order(self, first: Group, then: Group) -> None: ...


def producing_groups(values: Iterable[Value], of: Groups) -> dict[Group, None]:
    """Return the groups that compute `values`.

    For a value that every reader recomputes, these are the groups that compute the values it is recomputed from.
    """
    groups, seen, stack = dict[Group, None](), set[Value](), list(values)
    while stack:
        value = stack.pop()
        node = of.producer.get(value)
        if value in seen or node is None:
            continue
        seen.add(value)
        if value in of.owner:
            groups[of.owner[value]] = None
        else:
            stack += (*of.free.sources_of(node), *of.free.waits_of(node))
    return groups


def wait(group: Group, values: Collection[Value], of: Groups) -> None:
    """Make `group` run after the groups that compute `values`."""
    group.waits.update(dict.fromkeys(values))
    for source_group in producing_groups(values, of):
        if source_group is not group:
            of.order(source_group, group)
