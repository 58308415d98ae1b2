"""From a fused module to one step: a total order on two streams, events, and a buffer plan.

Orders that are tried: the program's, and list schedules by longest path to the end. A list schedule starts a
collective as soon as its input is ready and leaves what waits for it to the latest moment, because while a
collective runs everything that does not need it goes first. The shortest predicted step that fits the memory
limit wins; of steps that differ by less than the prediction is worth (2 %), the one with the fewest bytes, then the shortest.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meshgen.codegen import memory
from meshgen.codegen.costs import default_costs
from meshgen.codegen.timeline import Costs, Task, exposures, start_times
from meshgen.codegen.unroll import communicates
from meshgen.errors import CodegenError, Diagnostic, place_text
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.reasons import REASONS, reason_of
from meshgen.runtime.plan import COLLECTIVES, COMMUNICATION, COMPUTE, STREAMS, Buffer, Item, Schedule

SAME_STEP = 1.02  # steps within this ratio of the shortest are equal
Priority = Callable[[int], tuple[float, int]]


@dataclass(frozen=True)
class Program:
    """What is to be scheduled: launches with their tasks, and the storage behind every value.

    `root[v]` is the value whose bytes v's are: v itself unless v is a view.
    """

    module: Module
    nodes: tuple[Node, ...]
    kernels: dict[str, Graph]
    names: tuple[str, ...]  # kernel of each node; empty for a collective
    tasks: tuple[Task, ...]
    root: dict[Value, Value]


def schedule(module: Module, target: str = "cuda:sm_90", *, costs: Costs | None = None,
             memory_limit: int | None = None) -> Schedule:  # fmt: skip
    """The step of a `fuse`-stage module (`partition` is fine too: what is not fused becomes a kernel per op).

    Args:
        target: what the durations are predicted for.
        costs: durations of kernels and collectives; default: the roofline and link models of `target`.
        memory_limit: bytes of arena to stay within where some order allows it.
    Raises:
        CodegenError: MG0303 when even the smallest order needs more than `memory_limit`; MG0301 for control
            flow around collectives.
    """
    program = collect(module, costs or default_costs(target))
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


def _too_big(needed: int, limit: int) -> Diagnostic:
    return Diagnostic(
        "MG0303",
        f"the step needs {needed} bytes of device memory, but the limit is {limit} ({needed - limit} too many)",
        hint="shard more values, or raise the limit",
    )


def collect(module: Module, costs: Costs) -> Program:
    """Launches of the module in program order; views and constants are no launches."""
    nodes = tuple(n for n in module.graph.nodes if n.op not in ("view", "constant"))
    kernels, names = dict(module.kernels), list[str]()
    for node in nodes:
        names.append(
            "" if node.op in COLLECTIVES else node.attrs["kernel"] if node.op == "kernel" else _wrap(node, kernels)
        )
    kernels = {name: kernels[name] for name in dict.fromkeys(filter(None, names))}  # only what is launched
    root = {value: value for value in module.graph.values()}
    for node in module.graph.nodes:
        if node.op == "view":
            root[node.result] = root[node.operands[0]]
    maker = {result: number for number, node in enumerate(nodes) for result in node.results}
    seconds = {name: costs.kernel(body) for name, body in kernels.items()}
    tasks = tuple(
        Task(
            COMMUNICATION if node.op in COLLECTIVES else COMPUTE,
            costs.collective(node, module.mesh) if node.op in COLLECTIVES else seconds[name],
            tuple(sorted({maker[root[v]] for v in node.operands if root[v] in maker})),
        )
        for node, name in zip(nodes, names, strict=True)
    )
    return Program(module, nodes, kernels, tuple(names), tasks, root)


def _wrap(node: Node, kernels: dict[str, Graph]) -> str:
    """A kernel for one op that was not fused; returns its name. Raises CodegenError MG0301 if it communicates."""
    if any(communicates(region) for region in node.regions):
        raise CodegenError(
            Diagnostic(
                "MG0301",
                f"'{node.op}' has collectives in its body, which a static schedule cannot hold",
                node.loc,
                hint="only loops that count to a constant can hold collectives; or keep what it carries replicated",
            )
        )
    name = next(name for n in itertools.count() if (name := f"{node.op}_{n}") not in kernels)
    inputs = {value: Value(value.type, f"a{i}") for i, value in enumerate(dict.fromkeys(node.operands))}
    results = [Value(value.type) for value in node.results]
    body = Node(node.op, [inputs[v] for v in node.operands], results, dict(node.attrs), node.loc, None, node.regions)
    kernels[name] = Graph(name, list(inputs.values()), [body], results)
    return name


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
    buffers, number_of, arena_bytes = _plan_buffers(program, order, waits)
    event_of = {w: event for event, w in enumerate(sorted({w for waited in waits for w in waited}))}
    start, step_seconds = start_times(program.tasks, order)
    items = tuple(
        Item(
            op="kernel" if program.names[n] else program.nodes[n].op,
            kernel=program.names[n],
            attrs={} if program.names[n] else {k: v for k, v in program.nodes[n].attrs.items() if k not in REASONS},
            inputs=tuple(number_of[v] for v in _operands(program, n)),
            outputs=tuple(number_of[v] for v in program.nodes[n].results),
            stream=program.tasks[n].stream,
            waits=tuple(event_of[w] for w in waits[place]),
            records=event_of.get(place),
            seconds=program.tasks[n].seconds,
            start=start[n],
            why="" if program.names[n] else reason_of(program.nodes[n]),
            edges=program.nodes[n].attrs.get("edges", ()),
            source=place_text(program.nodes[n].loc),
        )
        for place, n in enumerate(order)
    )
    graph = program.module.graph
    return Schedule(
        items, buffers, arena_bytes, tuple(number_of[v] for v in graph.inputs), tuple(number_of[v] for v in graph.outputs),
        program.kernels, step_seconds, exposures(items),
    )  # fmt: skip


def _operands(program: Program, number: int) -> Sequence[Value]:
    """What a launch reads; a kernel made from a single op takes a repeated operand once."""
    node = program.nodes[number]
    return node.operands if node.op == "kernel" or not program.names[number] else list(dict.fromkeys(node.operands))


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


def _plan_buffers(program: Program, order: Sequence[int], waits: Sequence[Sequence[int]]
                  ) -> tuple[tuple[Buffer, ...], dict[Value, int], int]:  # fmt: skip
    """Buffers of all values in program order, their numbers, and the arena's bytes."""
    graph = program.module.graph
    values = list(graph.values())
    number_of = {value: n for n, value in enumerate(values)}
    kinds = _kinds(program)
    lives = _lifetimes(program, order, waits, kinds)
    roots = list(lives)
    offsets, arena_bytes = memory.place([lives[root] for root in roots])
    offset_of = dict(zip(roots, offsets, strict=True))
    buffers = tuple(
        Buffer(
            v.name or f"b{n}",
            v.type,
            kinds[program.root[v]],
            number_of[program.root[v]],
            offset_of[program.root[v]],
            place_text(v.loc),
        )
        for n, v in enumerate(values)
    )
    return buffers, number_of, arena_bytes


def _kinds(program: Program) -> dict[Value, str]:
    """Kind of each storage; an input or constant that is an output as well stays what it is."""
    graph = program.module.graph
    kinds = dict.fromkeys(program.root.values(), "temporary")
    kinds |= {program.root[value]: "output" for value in graph.outputs}
    kinds |= {node.result: "constant" for node in graph.nodes if node.op == "constant"}
    return kinds | dict.fromkeys(graph.inputs, "input")


def _lifetimes(program: Program, order: Sequence[int], waits: Sequence[Sequence[int]], kinds: dict[Value, str]
               ) -> dict[Value, memory.Lifetime]:  # fmt: skip
    """When each storage is in use; storages in program order."""
    streams = [program.tasks[n].stream for n in order]
    starts, ends = memory.clocks(streams, waits)
    born: dict[Value, memory.Clock] = {}
    last: dict[Value, list[int]] = {root: [0] * STREAMS for root in program.root.values()}
    for p, n in enumerate(order):
        node, stream = program.nodes[n], streams[p]
        born |= dict.fromkeys(node.results, starts[p])
        for value in (*node.operands, *node.results):
            last[program.root[value]][stream] = ends[p][stream]
    return {
        root: memory.Lifetime(root.type.nbytes, born.get(root), tuple(last[root]), kinds[root] != "temporary")
        for root in dict.fromkeys(program.root.values())
    }


def constants_of(module: Module, plan: Schedule) -> dict[int, Node]:
    """The `constant` nodes of the module by the number of their buffer."""
    numbers = {value: n for n, value in enumerate(module.graph.values())}
    found = {numbers[node.result]: node for node in module.graph.nodes if node.op == "constant"}
    assert all(plan.buffers[n].kind == "constant" for n in found)
    return found
