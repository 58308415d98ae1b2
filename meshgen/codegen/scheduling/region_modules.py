"""A region of control flow as a module of its own, whose arguments are given to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_scan
from meshgen.ir.regions import used_by
from meshgen.spec import Sharding


def region_module(module: Module, node: Node, region: Graph, outside: Sequence[Value]) -> Module:
    """A region of a node as a module, in which the values `outside` that it captures follow its own arguments.

    What the body of a scan carries is updated in place where its last use allows it: it is donated to its next value. So are rows
    that it only writes. A value that does not depend on the one before may be made while that is in use.
    """
    graph = Graph(region.name, [*region.inputs, *outside], region.nodes, region.outputs)
    given = {n: n for n in range(len(node.results)) if _follows(region, n)} if is_scan(node) else {}
    ends: dict[str, list[Any]] = {name: [] for name in ("in_types", "out_types", "in_annotations", "out_annotations")}
    whole = {"in_shardings": [Sharding(())] * len(graph.inputs), "out_shardings": [Sharding(())] * len(graph.outputs)}
    return replace(module, graph=graph, donations=given, arguments="local", **ends, **whole)


def _follows(region: Graph, number: int) -> bool:
    """Whether an output depends on the input of the same number, or nothing else does."""
    reached = {region.inputs[number]}
    for node in region.nodes:
        if not reached.isdisjoint(used_by(node)):
            reached.update(node.results)
    return len(reached) == 1 or region.outputs[number] in reached
