"""The schedule as a stage of the program: launches in issue order, annotated with time slots and buffers of results."""

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
    """Return a `fuse`-stage module with its nodes in the order of the schedule `plan`.

    Constants come first and views at their first use, because neither is launched.
    """
    graph = module.graph
    launched = [node for node in graph.nodes if node.op not in UNLAUNCHED]
    buffer_of = {value: index for index, value in enumerate(graph.values())}
    slots = _slots(plan)
    order = _issue_order(launched, buffer_of, plan)
    unlaunched = [node for node in graph.nodes if node.op in UNLAUNCHED and not is_constant(node)]
    views = {value: node for node in unlaunched for value in node.results}
    nodes = [_placed(node, buffer_of, plan) for node in graph.nodes if is_constant(node)]
    for slot, item, node in zip(slots, plan.items, order, strict=True):
        nodes += _views([*node.operands, *captured(node)], views, buffer_of, plan)
        nodes.append(_placed(_with_regions(node, module, item.regions), buffer_of, plan, slot))
    nodes += _views(graph.outputs, views, buffer_of, plan)
    return replace(module, stage="schedule", graph=Graph(graph.name, graph.inputs, nodes, graph.outputs))


def _with_regions(node: Node, module: Module, steps: Sequence[Schedule]) -> Node:
    """Return `node` with the nodes of its regions ordered by the regions' schedules. Kernels have bodies, not regions."""
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
    """Return the node of each item of the schedule.

    Nodes are identified by their results. Nodes without results keep their program order.
    """
    by_results = {tuple(number_of[v] for v in node.results): node for node in launched if node.results}
    silent = iter([node for node in launched if not node.results])
    return [by_results[item.outputs] if item.outputs else next(silent) for item in plan.items]


def _views(
    values: Sequence[Value], views: dict[Value, Node], number_of: Mapping[Value, int], plan: Schedule
) -> list[Node]:
    """Return those of `views` that `values` need and that were not emitted yet, each after the view that it reads."""
    emitted: list[Node] = []
    for value in values:
        if node := views.pop(value, None):
            for other in node.results:
                views.pop(other, None)
            emitted += [*_views(node.operands, views, number_of, plan), _placed(node, number_of, plan)]
    return emitted


def _placed(node: Node, number_of: Mapping[Value, int], plan: Schedule, slot: Slot | None = None) -> Node:
    places: list[Place] = []
    for value in node.results:
        buffer = plan.buffers[number_of[value]]
        places.append(Place(number_of[value], buffer.name, buffer.kind, buffer.storage, buffer.offset, buffer.source))
    return replace(node, notes=replace(node.notes, places=tuple(places), slot=slot))
