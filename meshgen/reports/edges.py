"""The edges of a materialized program: values on their way to uses that need them with another sharding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meshgen.errors import Location
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import flow_graphs
from meshgen.ops.classes import LOCAL_OPS
from meshgen.reports.interface import Compiled
from meshgen.spec import Sharding


@dataclass(frozen=True)
class Edge:
    """A value on its way to uses that need it with another sharding."""

    value: Value
    uses: tuple[Node, ...]
    source: Sharding
    target: Sharding
    why: str
    places: tuple[Location, ...]  # of its users and its producer
    maker: Node | None = None  # None: an input

    @property
    def users(self) -> tuple[Value, ...]:
        """The results of its uses."""
        return tuple(value for node in self.uses for value in node.results)


def edges_of(part: Compiled) -> Mapping[int, Edge]:
    """Return the edges of the program of one mesh by their numbers, computed once; none if it was entered later."""
    if (module := part.stages.get("materialize")) is None:
        return {}
    known = part.decisions.setdefault("edges", {})
    if module.graph not in known:
        known[module.graph] = _edges(module.graph)
    return known[module.graph]


def _edges(whole: Graph) -> dict[int, Edge]:
    steps: dict[int, list[Node]] = {}
    makers: dict[Value, Node] = {}
    uses: dict[Value, list[Node]] = {}
    for graph in flow_graphs(whole):
        makers |= graph.index.producers
        for node in graph.nodes:
            for number in node.notes.edges:
                steps.setdefault(number, []).append(node)
            for value in node.operands:
                uses.setdefault(value, []).extend([node] if node.op not in LOCAL_OPS else ())
            if node.op in LOCAL_OPS and node.operands[0] in uses:  # a slice for the uses does not count as a use
                uses[node.result] = uses[node.operands[0]]
    return {number: _edge(nodes, makers, uses) for number, nodes in steps.items()}


def _edge(steps: Sequence[Node], makers: Mapping[Value, Node], uses: Mapping[Value, list[Node]]) -> Edge:
    start, end = steps[0].operands[0], steps[-1].results[0]
    maker = makers.get(start)
    assert start.sharding is not None and end.sharding is not None, "values are sharded after materialize"
    places = [steps[0].loc, maker.loc if maker else start.loc]
    why = steps[0].notes.why
    found = tuple(place for place in places if place)
    return Edge(start, tuple(uses.get(end, ())), start.sharding, end.sharding, why, found, maker)
