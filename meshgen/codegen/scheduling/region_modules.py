"""Wrapping of a control flow region in a separate module, so that it can be scheduled. Its caller provides the
arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_scan
from meshgen.ir.regions import used_by
from meshgen.spec import Sharding


def region_module(module: Module, node: Node, region: Graph, outside: Sequence[Value]) -> Module:
    """Return a region of `node` as a module. The captured values `outside` follow the region's own arguments.

    A value that the body of a scan carries is donated to its next value, which overwrites it if its last use allows
    that. The same holds for rows that the body only writes. No value is donated to a next value that does not depend on
    it, because that next value may be computed while the old value is still in use.
    """
    graph = Graph(region.name, [*region.inputs, *outside], region.nodes, region.outputs)
    donations = {n: n for n in range(len(node.results)) if _follows(region, n)} if is_scan(node) else {}
    ends: dict[str, list[Any]] = {name: [] for name in ("in_types", "out_types", "in_annotations", "out_annotations")}
    replicated = {
        "in_shardings": [Sharding(())] * len(graph.inputs),
        "out_shardings": [Sharding(())] * len(graph.outputs),
    }
    return replace(module, graph=graph, donations=donations, arguments="local", **ends, **replicated)


def _follows(region: Graph, index: int) -> bool:
    """Whether output `index` of a region depends on input `index`, or no node of the region uses this input."""
    reached = {region.inputs[index]}
    for node in region.nodes:
        if not reached.isdisjoint(used_by(node)):
            reached.update(node.results)
    return len(reached) == 1 or region.outputs[index] in reached
