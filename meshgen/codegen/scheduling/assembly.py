"""Assembly of a step from an order of its launches: events between streams, buffer offsets in one arena, and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from meshgen.codegen.scheduling import memory
from meshgen.codegen.scheduling.buffers import Buffers, Lives, Places, lifetimes_of, placed, plan_buffers
from meshgen.codegen.scheduling.orders import Order
from meshgen.codegen.scheduling.program import Program
from meshgen.codegen.scheduling.timeline import Task, exposures, start_times
from meshgen.errors import location_text
from meshgen.ir.attributes.base import NO_ATTRIBUTES
from meshgen.ir.attributes.control import Loop
from meshgen.ir.predicates import is_scan
from meshgen.ir.reasons import reason_of
from meshgen.runtime.plan import STREAMS, Item, Schedule


class EvaluatedOrder:
    """An order of the launches with its predicted times and, computed on demand, its buffer offsets."""

    def __init__(self, program: Program, order: Order) -> None:
        self.program, self.order = program, order
        self._tasks = order.tasks(program.tasks)
        self.start, self.seconds = start_times(self._tasks, order.numbers)

    @property
    def arena_bytes(self) -> int:
        return self.places.arena_bytes

    def exceeds(self, nbytes: int) -> bool:
        """Whether the arena is larger than `nbytes`."""
        return self.least_bytes > nbytes or self.arena_bytes > nbytes

    @cached_property
    def waits(self) -> Sequence[Sequence[int]]:
        """Return for each position in the order the earlier positions for whose events the launch waits."""
        return find_waits(self._tasks, self.order.numbers)

    @cached_property
    def places(self) -> Places:
        """Return the arena offsets of the launches' results and scratch."""
        return placed(self._lives, self.least_bytes)

    @cached_property
    def least_bytes(self) -> int:
        """Return a lower bound of `arena_bytes` that is cheaper to compute than `arena_bytes`."""
        return memory.least_bytes(self._lives.all)

    @cached_property
    def _lives(self) -> Lives:
        return lifetimes_of(self.program, self.order.numbers, self.waits)


def assemble(tried: EvaluatedOrder) -> Schedule:
    """Return the schedule (events, buffers and times) for an order."""
    program, waits = tried.program, tried.waits
    buffers = plan_buffers(program, tried.places)
    event_of = {w: event for event, w in enumerate(sorted({w for waited in waits for w in waited}))}
    items = tuple(
        replace(
            _item(program, n, buffers),
            waits=tuple(event_of[w] for w in waits[position]),
            records=event_of.get(position),
            start=tried.start[n],
        )
        for position, n in enumerate(tried.order.numbers)
    )
    graph, buffer_of = program.module.graph, buffers.number_of
    ins, outs = (tuple(buffer_of[v] for v in side) for side in (graph.inputs, graph.outputs))
    is_region = program.input_kind == "given"
    donated = (
        {}
        if is_region
        else {ins[donated_input]: outs[next_output] for donated_input, next_output in program.donated.items()}
    )
    return Schedule(
        items, buffers.all, tried.arena_bytes, ins, outs, program.kernels, tried.seconds, exposures(items), donated
    )


def _item(program: Program, index: int, buffers: Buffers) -> Item:
    """Return the schedule item of a launch, without its start time and events."""
    node, task, name = program.nodes[index], program.tasks[index], program.names[index]
    flow = program.flows.get(index)
    is_collective = not name and flow is None
    attrs = node.attrs if is_collective or is_scan(node) else NO_ATTRIBUTES
    return Item(
        op="kernel" if name else node.op,
        kernel=name,
        attrs=Loop(trips=flow.trips) if flow and flow.trips and not is_scan(node) else attrs,
        inputs=tuple(buffers.number_of[v] for v in program.reads(index)),
        outputs=tuple(buffers.number_of[v] for v in node.results),
        stream=task.stream,
        seconds=task.seconds,
        why=reason_of(node) if is_collective else "",
        edges=node.notes.edges,
        source=location_text(node.loc),
        regions=flow.regions if flow else (),
        scratch=buffers.scratch_of.get(index),
    )


def find_waits(tasks: Sequence[Task], order: Sequence[int]) -> list[list[int]]:
    """Return for each position in `order` the earlier positions that it must wait for by event, with as few waits as
    possible.

    An earlier task of the same stream, or a task that an earlier wait already covers, needs no event.
    """
    position_of = {index: p for p, index in enumerate(order)}
    rank_on_stream, counts = [0] * len(order), [0] * STREAMS
    ends: list[memory.Clock] = []
    stream_clocks: list[memory.Clock] = [(0,) * STREAMS] * STREAMS
    waits: list[list[int]] = []
    for p, index in enumerate(order):
        stream = tasks[index].stream
        clock, waited = stream_clocks[stream], list[int]()
        for need in sorted((position_of[n] for n in tasks[index].needs), reverse=True):
            if clock[tasks[order[need]].stream] < rank_on_stream[need]:
                waited.append(need)
                clock = memory.join([clock, ends[need]])
        counts[stream] += 1
        rank_on_stream[p] = counts[stream]
        stream_clocks[stream] = tuple(rank_on_stream[p] if s == stream else c for s, c in enumerate(clock))
        ends.append(stream_clocks[stream])
        waits.append(sorted(waited))
    return waits
