"""The schedule as a stage of the program: launches in issue order, each with its slot, its results with their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.codegen.scheduling.region_modules import region_module
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.notes import Place, Slot
from meshgen.ir.predicates import is_constant
from meshgen.ir.regions import captured
from meshgen.ops.classes import UNLAUNCHED
from meshgen.runtime.plan import Schedule


def scheduled(module: Module, plan: Schedule) -> Module:
    """A `fuse`-stage module in the order of `plan`, which was made from it.

    Views are placed at their first use and constants first, because neither is launched.
    """
    graph = module.graph
    launched = [node for node in graph.nodes if node.op not in UNLAUNCHED]
    number_of = {value: number for number, value in enumerate(graph.values())}
    slots = _slots(plan)
    order = _issue_order(launched, number_of, plan)
    unlaunched = [node for node in graph.nodes if node.op in UNLAUNCHED and not is_constant(node)]
    views = {value: node for node in unlaunched for value in node.results}
    nodes = [_placed(node, number_of, plan) for node in graph.nodes if is_constant(node)]
    for slot, item, node in zip(slots, plan.items, order, strict=True):
        nodes += _views([*node.operands, *captured(node)], views, number_of, plan)
        nodes.append(_placed(_with_regions(node, module, item.regions), number_of, plan, slot))
    nodes += _views(graph.outputs, views, number_of, plan)
    return replace(module, stage="schedule", graph=Graph(graph.name, graph.inputs, nodes, graph.outputs))


def _with_regions(node: Node, module: Module, steps: Sequence[Schedule]) -> Node:
    """Control flow with its regions in the order of their steps; kernels have bodies, not regions."""
    if not steps:
        return node
    outside, regions = captured(node), list[Graph]()
    for region, step in zip(node.regions, steps, strict=True):
        inside = scheduled(region_module(module, node, region, outside), step).graph
        regions.append(Graph(region.name, region.inputs, inside.nodes, inside.outputs))
    return replace(node, regions=tuple(regions))


def _slots(plan: Schedule) -> list[Slot]:
    exposure = {e.item: (e.hidden, e.exposed) for e in plan.exposures}
    return [
        Slot(item.stream, item.waits, item.records, item.seconds, item.start, exposure.get(number), item.source)
        for number, item in enumerate(plan.items)
    ]


def _issue_order(launched: Sequence[Node], number_of: Mapping[Value, int], plan: Schedule) -> list[Node]:
    """The node of each item: results tell them apart; what has none stays in program order."""
    by_results = {tuple(number_of[v] for v in node.results): node for node in launched if node.results}
    silent = iter([node for node in launched if not node.results])
    return [by_results[item.outputs] if item.outputs else next(silent) for item in plan.items]


def _views(
    values: Sequence[Value], views: dict[Value, Node], number_of: Mapping[Value, int], plan: Schedule
) -> list[Node]:
    """The views among `values` that were not written yet, each after the view that it is of."""
    found: list[Node] = []
    for value in values:
        if node := views.pop(value, None):
            for other in node.results:
                views.pop(other, None)
            found += [*_views(node.operands, views, number_of, plan), _placed(node, number_of, plan)]
    return found


def _placed(node: Node, number_of: Mapping[Value, int], plan: Schedule, slot: Slot | None = None) -> Node:
    places: list[Place] = []
    for value in node.results:
        buffer = plan.buffers[number_of[value]]
        places.append(Place(number_of[value], buffer.name, buffer.kind, buffer.storage, buffer.offset, buffer.source))
    return replace(node, notes=replace(node.notes, places=tuple(places), slot=slot))
