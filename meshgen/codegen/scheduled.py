"""A schedule as a module at stage `schedule`, which prints as text, and back.

The nodes stand in the order of issue, constants first and views behind what they view. Each launch carries its
slot (stream, events, times) and each value its place in the arena; the module's attributes hold the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from meshgen.ir.dialects.schedule import Place, Slot
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.reasons import reason_of
from meshgen.runtime.plan import Buffer, Exposure, Item, Schedule

PLACED = ("slot", "places")


def scheduled(module: Module, plan: Schedule) -> Module:
    """The module (of stage `fuse`) in the order and with the places of its schedule."""
    values = list(module.graph.values())
    numbers = {value: number for number, value in enumerate(values)}
    makers = module.graph.producers()
    exposures = {e.item: (e.hidden, e.exposed) for e in plan.exposures}
    waiting = [node for node in module.graph.nodes if node.op in ("constant", "view")]
    graph = Graph(module.graph.name, list(module.graph.inputs), [], list(module.graph.outputs))
    made = set(graph.inputs)
    _add_ready(graph, waiting, made, plan, numbers)
    for number, item in enumerate(plan.items):
        node = makers[values[item.outputs[0]]]
        attrs: dict[str, Any] = {"kernel": item.kernel} if item.kernel else dict(node.attrs)
        attrs["slot"] = Slot(
            item.stream, item.waits, item.records, item.seconds, item.start, exposures.get(number), item.source
        )
        operands = [values[buffer] for buffer in item.inputs]
        _add(graph, replace(node, op=item.op, operands=operands, attrs=attrs, regions=()), made, plan, numbers)
        _add_ready(graph, waiting, made, plan, numbers)
    attrs = {
        **module.attrs,
        "arena_bytes": plan.arena_bytes,
        "step_seconds": plan.step_seconds,
        "in_places": [_row(plan, number) for number in plan.inputs],
    }
    return replace(module, graph=graph, stage="schedule", kernels=dict(plan.kernels), attrs=attrs)


def _row(plan: Schedule, number: int) -> list[int | str]:
    buffer = plan.buffers[number]
    return [number, buffer.name, buffer.kind, buffer.storage, buffer.offset, buffer.source]


def _add(graph: Graph, node: Node, made: set[Value], plan: Schedule, numbers: dict[Value, int]) -> None:
    """Append a node whose results have their places."""
    buffers = [(numbers[result], plan.buffers[numbers[result]]) for result in node.results]
    places = tuple(Place(n, b.name, b.kind, b.storage, b.offset, b.source) for n, b in buffers)
    graph.nodes.append(replace(node, attrs={**node.attrs, "places": places}))
    made.update(node.results)


def _add_ready(graph: Graph, waiting: list[Node], made: set[Value], plan: Schedule, numbers: dict[Value, int]) -> None:
    """Append the constants and views whose operands are there."""
    for node in list(waiting):
        if all(operand in made for operand in node.operands):
            waiting.remove(node)
            _add(graph, node, made, plan, numbers)


def plan_of(module: Module) -> Schedule:
    """The schedule of a module at stage `schedule`."""
    places = dict(_places(module))
    number_of = {value: place.number for value, place in places.items()}
    items: list[Item] = []
    exposures: list[Exposure] = []
    for node in module.graph.nodes:
        slot = node.attrs.get("slot")
        if not isinstance(slot, Slot):
            continue
        if slot.exposure is not None:
            exposures.append(Exposure(len(items), *slot.exposure))
        items.append(_item(node, slot, number_of))
    buffers = {
        p.number: Buffer(p.name, value.type, p.kind, p.storage, p.offset, p.source) for value, p in places.items()
    }
    return Schedule(
        tuple(items),
        tuple(buffers[number] for number in sorted(buffers)),
        int(module.attrs["arena_bytes"]),
        tuple(number_of[value] for value in module.graph.inputs),
        tuple(number_of[value] for value in module.graph.outputs),
        module.kernels,
        float(module.attrs["step_seconds"]),
        tuple(exposures),
    )


def _places(module: Module) -> Iterator[tuple[Value, Place]]:
    for value, row in zip(module.graph.inputs, module.attrs["in_places"], strict=True):
        yield value, Place(*row)
    for node in module.graph.nodes:
        yield from zip(node.results, node.attrs["places"], strict=True)


def _item(node: Node, slot: Slot, number_of: dict[Value, int]) -> Item:
    kernel = str(node.attrs["kernel"]) if node.op == "kernel" else ""
    return Item(
        op=node.op,
        kernel=kernel,
        attrs={} if kernel else {k: v for k, v in node.attrs.items() if k not in (*PLACED, "why")},
        inputs=tuple(number_of[value] for value in node.operands),
        outputs=tuple(number_of[value] for value in node.results),
        stream=slot.stream,
        waits=slot.waits,
        records=slot.records,
        seconds=slot.seconds,
        start=slot.start,
        why="" if kernel else reason_of(node),
        source=slot.source,
    )
