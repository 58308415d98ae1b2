"""Optimization barriers as order: code generation reads through them, and who reads a result comes after all operands.

    before   %a, %b = optimization_barrier %x, %g        %y = sine %a
    after    %y = sine %x                                not before %x and %g are there

So a kernel that has %g in registers may compute %y on it, and nothing is copied. The launches that result are ordered by barriers again
(`fuse.py`), which are views.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from meshgen.codegen.fusion.group import Group
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.predicates import is_optimization_barrier
from meshgen.ir.regions import rewired, used_by
from meshgen.ops.live import live_nodes

Order = Mapping[Node, tuple[Value, ...]]
"""By node, the values that must be there before it runs, beside those that it reads."""
NO_ORDER: Order = {}


def without_barriers(graph: Graph) -> tuple[Graph, Order]:
    """The graph with the results of its optimization barriers replaced by the operands, and the order that they asked for.

    Returns the graph itself if it has none. What only barriers used is gone. Barriers in regions stay.
    """
    if not any(map(is_optimization_barrier, graph.nodes)):
        return graph, {}
    now: dict[Value, Value] = {}
    behind: dict[Value, tuple[Value, ...]] = {}  # by result of a barrier, what it waits for
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
    """What nodes read and wait for: `fusion/rematerialized.FreeNodes`."""

    def sources_of(self, node: Node) -> tuple[Value, ...]: ...
    def waits_of(self, node: Node) -> tuple[Value, ...]: ...


class Groups(Protocol):
    """Who makes values: `fusion/groups.Grouping`."""

    owner: dict[Value, Group]
    producer: Mapping[Value, Node]

    @property
    def free(self) -> Reads: ...
    def order(self, first: Group, then: Group) -> None: ...


def makers_of(values: Iterable[Value], of: Groups) -> dict[Group, None]:
    """The groups that make some values; where every reader computes a value itself, the groups that make what it is computed from."""
    found, seen, stack = dict[Group, None](), set[Value](), list(values)
    while stack:
        value = stack.pop()
        node = of.producer.get(value)
        if value in seen or node is None:
            continue
        seen.add(value)
        if value in of.owner:
            found[of.owner[value]] = None
        else:
            stack += (*of.free.sources_of(node), *of.free.waits_of(node))
    return found


def wait(group: Group, values: Collection[Value], of: Groups) -> None:
    """Let a group run after some values are there."""
    group.waits.update(dict.fromkeys(values))
    for maker in makers_of(values, of):
        if maker is not group:
            of.order(maker, group)
