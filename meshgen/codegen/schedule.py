"""From a fused module to one step: a total order on two streams, events, and a buffer plan.

Orders that are tried: the program's, and list schedules (`orders.py`). The shortest predicted step that needs no more memory than the
program's order (or than the limit that is given) wins; of steps that differ by less than the prediction is worth (2 %), the one with the
fewest bytes, then the shortest. Where the shortest would need more, list schedules that keep within that are tried too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from meshgen.codegen import memory
from meshgen.codegen.buffers import Buffers, plan_buffers
from meshgen.codegen.collect import collect
from meshgen.codegen.costs import default_costs
from meshgen.codegen.orders import Budget, Order, Priority, Storage, list_order, longest_paths
from meshgen.codegen.program import Program
from meshgen.codegen.timeline import SAME_STEP, Costs, Task, exposures, start_times
from meshgen.errors import CodegenError, Diagnostic, place_text
from meshgen.ir.graph import Module, Value
from meshgen.ir.reasons import REASONS, reason_of
from meshgen.runtime.plan import STREAMS, Item, Schedule, aligned

FIXED = ("input", "constant")  # kinds of buffers that are in place before the step
MEMORY_CAP = (
    "memory_cap"  # attribute of a module: bytes that its step may take, where that is not what its own order takes
)
PERTURBED = 12  # further priorities that are tried for a program in chunks, and by what part of it a path then varies: half of what
_SPREAD = 0.3  # 400 of them find was found by 12, on transformer blocks in 2 and 4 chunks
MOST_CAPPED = 3  # priorities, of the best without a cap, that are tried with one
# Budgets for what may be alive, as shares of the cap: the scheduler foresees more than is alive at once, and buffers leave gaps.
CAP_SHARES = (1.2, 1.1, 1.05, 1.0, 0.95, 0.9)


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


def shortest_step(module: Module, target: str) -> float:
    """Seconds of the step of a fused module if it could take any memory."""
    program = program_of(module, default_costs(target))
    return min(each.seconds for each in _listed(program, PERTURBED if MEMORY_CAP in module.attrs else 0).values())


def sequential_bytes(module: Module, target: str) -> int:
    """The arena of a fused module where its launches run in program order."""
    program = program_of(module, default_costs(target))
    return assemble(program, Order(tuple(range(len(program.tasks))))).arena_bytes


def unlimited(module: Module, target: str) -> Schedule:
    """The step that may take any memory."""
    return schedule(module, target, memory_limit=memory.MOST_BYTES)


def _planned(module: Module, costs: Costs, inputs_are: str, memory_limit: int | None) -> Schedule:
    """The schedule of a module, or of a region of one, to which its inputs are given."""
    program = program_of(module, costs, inputs_are)
    if memory_limit is None and inputs_are == "input":
        memory_limit = module.attrs.get(MEMORY_CAP)
    listed = _listed(program, PERTURBED if MEMORY_CAP in module.attrs else 0)
    in_order = _Tried(program, Order(tuple(range(len(program.tasks)))))
    cap = in_order.plan.arena_bytes if memory_limit is None else memory_limit
    tried = [in_order, *listed.values()]
    best = best_within(tried, memory.MOST_BYTES)
    if best is None or best.arena_bytes > cap:
        capped = capped_orders(program, cap - _fixed_bytes(in_order.plan), [*listed][:MOST_CAPPED])
        best = best_within(tried := [*tried, *(_Tried(program, order) for order in capped)], cap)
    if best is None:
        raise CodegenError(_too_big(min(each.plan.arena_bytes for each in tried), cap))
    return best


def _listed(program: Program, perturbed: int) -> dict[Priority, _Tried]:
    """The list schedules by what is urgent in them, the shortest first."""
    tried = {way: _Tried(program, list_order(program.tasks, way)) for way in priorities(program.tasks, perturbed)}
    return dict(sorted(tried.items(), key=lambda each: each[1].seconds))


class _Tried:
    """An order with its step; where its buffers lie is found out when somebody asks."""

    def __init__(self, program: Program, order: Order) -> None:
        self._program, self._order = program, order
        self.seconds = start_times(order.tasks(program.tasks), order.numbers)[1]

    @cached_property
    def plan(self) -> Schedule:
        return assemble(self._program, self._order)


def best_within(tried: Sequence[_Tried], cap: int) -> Schedule | None:
    """Of the steps that take no more than so many bytes the shortest; of those that take about as long, the one with the fewest
    bytes, then the shortest. None where no step fits.
    """
    found: list[Schedule] = []
    for each in sorted(tried, key=lambda each: each.seconds):
        if found and each.seconds > found[0].step_seconds * SAME_STEP:
            break
        if each.plan.arena_bytes <= cap:
            found.append(each.plan)
    return min(found, key=lambda plan: (plan.arena_bytes, plan.step_seconds), default=None)


def _fixed_bytes(plan: Schedule) -> int:
    """What is in place before the step."""
    return sum(aligned(b.type.nbytes) for n, b in enumerate(plan.buffers) if b.storage == n and b.kind in FIXED)


def program_of(module: Module, costs: Costs, inputs_are: str = "input") -> Program:
    """What is to be scheduled, with the schedules of regions that communicate."""
    return collect(module, costs, inputs_are, lambda region: _planned(region, costs, "given", None))


def _too_big(needed: int, limit: int) -> Diagnostic:
    return Diagnostic(
        "MG0303",
        f"the step needs {needed} bytes of device memory, but the limit is {limit} ({needed - limit} too many)",
        hint="shard more values, or raise the limit",
    )


def orders(tasks: Sequence[Task]) -> list[Order]:
    """Issue orders worth trying, each once; the program's is first."""
    found = [Order(tuple(range(len(tasks)))), *(list_order(tasks, priority) for priority in priorities(tasks))]
    return [order for number, order in enumerate(found) if order not in found[:number]]


def priorities(tasks: Sequence[Task], perturbed: int = 0) -> list[Priority]:
    """What is urgent: the longest path to the end, or what the program has first.

    Chunks of one chain have equal paths and keep step, so that all of them communicate at once: paths that are `perturbed` at random,
    so many of them, let some go ahead.
    """
    path = longest_paths(tasks)
    rng = random.Random(0)
    found: list[Priority] = [lambda n: (-round(path[n], 12), n), lambda n: (0.0, n)]
    for _ in range(perturbed):
        found.append(_by([-seconds * (1 + rng.gauss(0, _SPREAD)) for seconds in path]))
    return found


def _by(urgency: Sequence[float]) -> Priority:
    return lambda n: (urgency[n], n)


def capped_orders(program: Program, nbytes: int, ways: Sequence[Priority]) -> Iterator[Order]:
    """Orders in which about so many bytes are alive at most; gaps between buffers may need some of them."""
    storages = storages_of(program)
    for share in CAP_SHARES:
        for priority in ways:
            yield list_order(program.tasks, priority, Budget(int(nbytes * share), storages))


def storages_of(program: Program) -> tuple[Storage, ...]:
    """What the launches make: one for each place of values, and one for what a launch needs for itself."""
    maker: dict[Value, int] = {}
    for root, made in program.storages.made.items():
        if (place := program.place(root)) in program.storages.made:  # else it is in place before the step
            maker[place] = min(maker.get(place, made[0].number), *(m.number for m in made))
    users: dict[Value, set[int]] = {value: set() for value in maker}
    for number in range(len(program.nodes)):
        for value in program.reads(number):
            if (place := program.place(value)) in users:
                users[place].add(number)
    stays = {program.place(value) for value in program.module.graph.outputs}
    made = [Storage(aligned(v.type.nbytes), n, tuple(sorted(users[v])), v in stays) for v, n in maker.items()]
    return (*made, *(Storage(aligned(nbytes), n, ()) for n, nbytes in program.scratch_bytes.items()))


def assemble(program: Program, issued: Order) -> Schedule:
    """The schedule with the launches in an order: events, buffers, times."""
    order, tasks = issued.numbers, issued.tasks(program.tasks)
    waits = find_waits(tasks, order)
    buffers = plan_buffers(program, order, waits)
    event_of = {w: event for event, w in enumerate(sorted({w for waited in waits for w in waited}))}
    start, step_seconds = start_times(tasks, order)
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
    ins, outs = (tuple(number_of[v] for v in side) for side in (graph.inputs, graph.outputs))
    donated = {ins[own]: outs[other] for own, other in program.donated.items()}
    return Schedule(
        items, buffers.all, buffers.arena_bytes, ins, outs, program.kernels, step_seconds, exposures(items), donated
    )


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
