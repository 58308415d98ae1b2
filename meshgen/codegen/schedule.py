"""From a fused module to one step: a total order on two streams, events, and a buffer plan.

Orders that are tried: the program's, and list schedules (`orders.py`). The shortest predicted step that needs no more memory than the
program's order (or than the limit that is given) wins; of steps that differ by less than the prediction is worth (2 %), the one with the
fewest bytes, then the shortest. Where the shortest would need more, list schedules that keep within that are tried too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from meshgen.codegen import memory
from meshgen.codegen.buffers import Buffers, plan_buffers
from meshgen.codegen.costs import default_costs
from meshgen.codegen.orders import Budget, Order, Priority, Storage, list_order, longest_paths
from meshgen.codegen.program import Program, collect
from meshgen.codegen.timeline import SAME_STEP, Costs, Task, exposures, start_times
from meshgen.errors import CodegenError, Diagnostic, place_text
from meshgen.ir.graph import Module, Value
from meshgen.ir.reasons import REASONS, reason_of
from meshgen.runtime.plan import STREAMS, Item, Schedule, aligned

FIXED = ("input", "constant")  # kinds of buffers that are in place before the step
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


def unlimited(module: Module, target: str) -> Schedule:
    """The step that may take any memory."""
    return schedule(module, target, memory_limit=memory.MOST_BYTES)


def _planned(module: Module, costs: Costs, inputs_are: str, memory_limit: int | None) -> Schedule:
    """The schedule of a module, or of a region of one, to which its inputs are given."""
    program = program_of(module, costs, inputs_are)
    plans = [assemble(program, order) for order in orders(program.tasks)]
    cap = plans[0].arena_bytes if memory_limit is None else memory_limit
    if best_of(plans).arena_bytes > cap:
        plans += [assemble(program, order) for order in capped_orders(program, cap - _fixed_bytes(plans[0]))]
    fitting = [plan for plan in plans if plan.arena_bytes <= cap]
    if not fitting:
        raise CodegenError(_too_big(min(plan.arena_bytes for plan in plans), cap))
    return best_of(fitting)


def best_of(plans: Sequence[Schedule]) -> Schedule:
    """The shortest step; of those that take about as long, the one with the fewest bytes, then the shortest."""
    shortest = min(plan.step_seconds for plan in plans)
    equal = [plan for plan in plans if plan.step_seconds <= shortest * SAME_STEP]
    return min(equal, key=lambda plan: (plan.arena_bytes, plan.step_seconds))


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


def priorities(tasks: Sequence[Task]) -> list[Priority]:
    """What is urgent: the longest path to the end, or what the program has first."""
    path = longest_paths(tasks)
    return [lambda n: (-round(path[n], 12), n), lambda n: (0.0, n)]


def capped_orders(program: Program, nbytes: int) -> Iterator[Order]:
    """Orders in which about so many bytes are alive at most; gaps between buffers may need some of them."""
    storages = storages_of(program)
    for share in CAP_SHARES:
        for priority in priorities(program.tasks):
            yield list_order(program.tasks, priority, Budget(int(nbytes * share), storages))


def storages_of(program: Program) -> tuple[Storage, ...]:
    """What the launches make: one for each place of values, and one for what a launch needs for itself."""
    storages = program.storages
    maker = {root: min(m.number for m in made) for root, made in storages.made.items() if program.place(root) is root}
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
