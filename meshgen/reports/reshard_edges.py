"""Reshard edges of a materialized program: each is a value that is resharded for users that need another sharding."""

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
    """A reshard of a value from sharding `source` to sharding `target`, for the users in `uses`."""

    value: Value
    uses: tuple[Node, ...]
    source: Sharding
    target: Sharding
    why: str
    places: tuple[Location, ...]  # source locations of the reshard, and of the value's producer and users
    maker: Node | None = None  # the node that produces the value, or None for a program input

    @property
    def users(self) -> tuple[Value, ...]:
        """Return the results of the nodes that use the resharded value."""
        return tuple(value for node in self.uses for value in node.results)


def edges_of(part: Compiled) -> Mapping[int, Edge]:
    """Return the reshard edges of the program of one mesh by their numbers. The result is cached.

    Returns no edges if the program was loaded after materialization.
    """
    if (module := part.stages.get("materialize")) is None:
        return {}
    edges_by_graph = part.decisions.setdefault("edges", {})
    if module.graph not in edges_by_graph:
        edges_by_graph[module.graph] = _edges(module.graph)
    return edges_by_graph[module.graph]


def _edges(program: Graph) -> dict[int, Edge]:
    steps: dict[int, list[Node]] = {}
    producers: dict[Value, Node] = {}
    uses: dict[Value, list[Node]] = {}
    for graph in flow_graphs(program):
        producers |= graph.index.producers
        for node in graph.nodes:
            for edge_number in node.notes.edges:
                steps.setdefault(edge_number, []).append(node)
            for value in node.operands:
                uses.setdefault(value, []).extend([node] if node.op not in LOCAL_OPS else ())
            # a local slice does not count as a use, so the uses of its result take its place
            if node.op in LOCAL_OPS and node.operands[0] in uses:
                uses[node.result] = uses[node.operands[0]]
    return {edge_number: _edge(nodes, producers, uses) for edge_number, nodes in steps.items()}


def _edge(steps: Sequence[Node], producers: Mapping[Value, Node], uses: Mapping[Value, list[Node]]) -> Edge:
    start, end = steps[0].operands[0], steps[-1].results[0]
    producer = producers.get(start)
    assert start.sharding is not None and end.sharding is not None, "values are sharded after materialize"
    places = [steps[0].loc, producer.loc if producer else start.loc]
    why = steps[0].notes.why
    known_places = tuple(place for place in places if place)
    return Edge(start, tuple(uses.get(end, ())), start.sharding, end.sharding, why, known_places, producer)
