"""From a fused module to one step: a total order on two streams, events, and a buffer plan.

Orders that are tried: the program's, and list schedules by longest path to the end. A list schedule starts a
collective as soon as its input is ready and leaves what waits for it to the latest moment, because while a
collective runs everything that does not need it goes first. The shortest predicted step that fits the memory
limit wins; of steps that differ by less than the prediction is worth (2 %), the one with the fewest bytes, then the shortest.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace

from meshgen.codegen import memory
from meshgen.codegen.buffers import Buffers, plan_buffers
from meshgen.codegen.costs import default_costs
from meshgen.codegen.program import Program, collect
from meshgen.codegen.timeline import Costs, Task, exposures, start_times
from meshgen.errors import CodegenError, Diagnostic, place_text
from meshgen.ir.graph import Module
from meshgen.ir.reasons import REASONS, reason_of
from meshgen.runtime.plan import STREAMS, Item, Schedule

SAME_STEP = 1.02  # steps within this ratio of the shortest are equal
Priority = Callable[[int], tuple[float, int]]


def schedule(module: Module, target: str = "cuda:sm_90", *, costs: Costs | None = None,
             memory_limit: int | None = None) -> Schedule:  # fmt: skip
    """The step of a `fuse`-stage module (`partition` is fine too: what is not fused becomes a kernel per op).

    Args:
        target: what the durations are predicted for.
        costs: durations of kernels and collectives; default: the roofline and link models of `target`.
        memory_limit: bytes of arena to stay within where some order allows it.
    Raises:
        CodegenError: MG0303 when even the smallest order needs more than `memory_limit`; MG0301 for control
            flow around transfers between meshes that cannot be written out.
    """
    return _planned(module, costs or default_costs(target), "input", memory_limit)


def _planned(module: Module, costs: Costs, inputs_are: str, memory_limit: int | None) -> Schedule:
    """The schedule of a module, or of a region of one, to which its inputs are given."""
    program = program_of(module, costs, inputs_are)
    timed = [(round(start_times(program.tasks, order)[1], 12), order) for order in orders(program.tasks)]
    shortest = min(seconds for seconds, _ in timed)
    timed = [(shortest if seconds <= shortest * SAME_STEP else seconds, order) for seconds, order in timed]
    plans: list[Schedule] = []
    for seconds in sorted({seconds for seconds, _ in timed}):
        plans += [assemble(program, order) for other, order in timed if other == seconds]
        smallest = min(plans, key=lambda plan: (plan.arena_bytes, plan.step_seconds))
        if memory_limit is None or smallest.arena_bytes <= memory_limit:
            return smallest
    raise CodegenError(_too_big(min(plan.arena_bytes for plan in plans), memory_limit or 0))


def program_of(module: Module, costs: Costs, inputs_are: str = "input") -> Program:
    """What is to be scheduled, with the schedules of regions that communicate."""
    return collect(module, costs, inputs_are, lambda region: _planned(region, costs, "given", None))


def _too_big(needed: int, limit: int) -> Diagnostic:
    return Diagnostic(
        "MG0303",
        f"the step needs {needed} bytes of device memory, but the limit is {limit} ({needed - limit} too many)",
        hint="shard more values, or raise the limit",
    )


def orders(tasks: Sequence[Task]) -> list[list[int]]:
    """Issue orders worth trying, each once; the program's is first."""
    path = _longest_paths(tasks)
    found = [
        list(range(len(tasks))),
        list_order(tasks, lambda n: (-round(path[n], 12), n)),
        list_order(tasks, lambda n: (0.0, n)),
    ]
    return [order for number, order in enumerate(found) if order not in found[:number]]


def _longest_paths(tasks: Sequence[Task]) -> list[float]:
    """Seconds from the start of each task to the end of the step if streams had no limit."""
    path = [0.0] * len(tasks)
    for number in reversed(range(len(tasks))):
        path[number] += tasks[number].seconds
        for need in tasks[number].needs:
            path[need] = max(path[need], path[number])
    return path


def list_order(tasks: Sequence[Task], priority: Priority) -> list[int]:
    """Issue order in which no stream idles while a task for it is ready; among the ready, least priority first.

    Where both streams could start something at the same time the collective is issued first: a kernel
    that is launched before it fills all multiprocessors.
    """
    users: list[list[int]] = [[] for _ in tasks]
    missing = [len(task.needs) for task in tasks]
    for number, task in enumerate(tasks):
        for need in task.needs:
            users[need].append(number)
    coming: list[list[tuple[float, int]]] = [[] for _ in range(STREAMS)]  # (ready at, task)
    ready: list[list[tuple[tuple[float, int], int]]] = [[] for _ in range(STREAMS)]
    free, end, order = [0.0] * STREAMS, [0.0] * len(tasks), list[int]()
    for number, count in enumerate(missing):
        if not count:
            heapq.heappush(coming[tasks[number].stream], (0.0, number))
    while any(coming) or any(ready):
        now, stream = _next_stream(coming, ready, free)
        while coming[stream] and coming[stream][0][0] <= now:
            number = heapq.heappop(coming[stream])[1]
            heapq.heappush(ready[stream], (priority(number), number))
        number = heapq.heappop(ready[stream])[1]
        order.append(number)
        end[number] = free[stream] = now + tasks[number].seconds
        for user in users[number]:
            missing[user] -= 1
            if not missing[user]:
                at = max(end[need] for need in tasks[user].needs)
                heapq.heappush(coming[tasks[user].stream], (at, user))
    return order


def _next_stream(coming: Sequence[Sequence[tuple[float, int]]], ready: Sequence[Sequence[object]],
                 free: Sequence[float]) -> tuple[float, int]:  # fmt: skip
    """Earliest time at which some stream can start something, and that stream; communication first."""
    choices = [
        (free[s] if ready[s] else max(free[s], coming[s][0][0]), -s) for s in range(STREAMS) if ready[s] or coming[s]
    ]
    now, stream = min(choices)
    return now, -stream


def assemble(program: Program, order: Sequence[int]) -> Schedule:
    """The schedule with the launches in `order`: events, buffers, times."""
    waits = find_waits(program.tasks, order)
    buffers = plan_buffers(program, order, waits)
    event_of = {w: event for event, w in enumerate(sorted({w for waited in waits for w in waited}))}
    start, step_seconds = start_times(program.tasks, order)
    items = tuple(
        replace(
            _item(program, n, buffers),
            waits=tuple(event_of[w] for w in waits[place]),
            records=event_of.get(place),
            start=start[n],
        )
        for place, n in enumerate(order)
    )
    graph, number_of = program.module.graph, buffers.number_of
    return Schedule(
        items, buffers.all, buffers.arena_bytes, tuple(number_of[v] for v in graph.inputs),
        tuple(number_of[v] for v in graph.outputs), program.kernels, step_seconds, exposures(items),
    )  # fmt: skip


def _item(program: Program, number: int, buffers: Buffers) -> Item:
    """A launch without its place in time."""
    node, task, name = program.nodes[number], program.tasks[number], program.names[number]
    flow = program.flows.get(number)
    is_collective = not name and flow is None
    attrs = {k: v for k, v in node.attrs.items() if k not in REASONS} if is_collective else {}
    return Item(
        op="kernel" if name else node.op,
        kernel=name,
        attrs={"trips": flow.trips} if flow and (flow.trips or 1) > 1 else attrs,
        inputs=tuple(buffers.number_of[v] for v in program.reads(number)),
        outputs=tuple(buffers.number_of[v] for v in node.results),
        stream=task.stream,
        seconds=task.seconds,
        why=reason_of(node) if is_collective else "",
        edges=node.attrs.get("edges", ()),
        source=place_text(node.loc),
        regions=flow.regions if flow else (),
        scratch=buffers.scratch_of.get(number),
    )


def find_waits(tasks: Sequence[Task], order: Sequence[int]) -> list[list[int]]:
    """Per place in `order`, the places it must wait for by event: as few as possible.

    A need on the own stream, or one that an earlier wait implies already, needs no event.
    """
    place = {number: p for p, number in enumerate(order)}
    position, counts = [0] * len(order), [0] * STREAMS
    ends: list[memory.Clock] = []
    now: list[memory.Clock] = [(0,) * STREAMS] * STREAMS
    found: list[list[int]] = []
    for p, number in enumerate(order):
        stream = tasks[number].stream
        clock, waited = now[stream], list[int]()
        for need in sorted((place[n] for n in tasks[number].needs), reverse=True):
            if clock[tasks[order[need]].stream] < position[need]:
                waited.append(need)
                clock = memory.join([clock, ends[need]])
        counts[stream] += 1
        position[p] = counts[stream]
        now[stream] = tuple(position[p] if s == stream else c for s, c in enumerate(clock))
        ends.append(now[stream])
        found.append(sorted(waited))
    return found
