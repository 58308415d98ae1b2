"""Scheduling of a fused module: a total order on streams, events, and a buffer plan.

The search tries the program's order, list schedules (`orders.py`), and improved versions of them
(`forward_backward.py`). The shortest predicted step wins among candidates that need no more memory than the program's
order, or than an explicit limit. Steps whose times differ by less than the accuracy of the prediction (2 %) are ranked
by the product of seconds and bytes. If the shortest step needs too much memory, the search also tries list schedules
with a memory budget.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property

from meshgen.codegen.scheduling import memory
from meshgen.codegen.scheduling.assembly import EvaluatedOrder, assemble
from meshgen.codegen.scheduling.buffers import fixed_bytes
from meshgen.codegen.scheduling.collect import collect
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.codegen.scheduling.forward_backward import justified
from meshgen.codegen.scheduling.orders import Budget, Order, Priority, Storage, by_urgency, list_order
from meshgen.codegen.scheduling.program import Program
from meshgen.codegen.scheduling.timeline import Costs, Task, least_seconds, longest_paths
from meshgen.codegen.scheduling.update_in_place import update_in_place
from meshgen.cost_model.model import DEFAULT
from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.graph import Module, Value
from meshgen.printable import bytes_text, distinguishable_sizes
from meshgen.runtime.plan import Schedule, aligned


def schedule(module: Module, target: str = "cuda:sm_90", *, costs: Costs | None = None,
             memory_limit: int | None = None) -> Schedule:  # fmt: skip
    """Return the step (schedule) of a `fuse`-stage module.

    Also accepts stage `partition`, where each unfused op becomes a kernel.

    Args:
        target: the device whose durations are predicted.
        costs: durations of kernels and collectives; default: the roofline and link models of `target`.
        memory_limit: limit of the arena in bytes per device; default: the arena size of program order.
    Raises:
        CodegenError: MG0303, even the smallest order needs more than `memory_limit`; MG0301, control flow around
            transfers between meshes cannot be unrolled.
    """
    return Steps(module, costs or default_costs(target)).plan(memory_limit)


def sequential_bytes(module: Module, target: str) -> int:
    """Return the arena bytes (per device) of a fused module whose launches run in program order."""
    return Steps(module, default_costs(target)).sequential_bytes


def unlimited(module: Module, target: str) -> Schedule:
    """Return the schedule without a memory limit."""
    return schedule(module, target, memory_limit=memory.MOST_BYTES)


def launches_of(module: Module, costs: Costs, input_kind: str = "input") -> Program:
    """Return the launches of a fused module, or of a region in a module, whose inputs the caller provides
    (`input_kind`).
    """
    return collect(module, costs, input_kind, lambda region: Steps(region, costs, "given").plan(None))


class Steps:
    """The candidate schedules of a fused module or region, evaluated on demand and cached.

    Attributes:
        program: the launches to schedule, with the schedules of regions that communicate.
    """

    def __init__(self, module: Module, costs: Costs, input_kind: str = "input") -> None:
        self._cap = module.memory_cap if input_kind == "input" else None
        self._perturbed = 0 if module.memory_cap is None else DEFAULT.scheduling.perturbed
        self.program = update_in_place(launches_of(module, costs, input_kind), costs)

    @cached_property
    def least_seconds(self) -> float:
        """Return a lower bound of the step time, valid for all orders."""
        return least_seconds(self.program.tasks)

    @property
    def shortest_seconds(self) -> float:
        """Return the shortest predicted step time without a memory limit."""
        return self._listed[0][1].seconds

    @property
    def sequential_bytes(self) -> int:
        """Return the arena bytes (per device) of the program's own order."""
        return self.in_order.arena_bytes

    def plan(self, memory_limit: int | None) -> Schedule:
        """Return the shortest schedule within `memory_limit` bytes.

        The default limit is the module's cap or, without a cap, the arena size of program order.

        Raises:
            CodegenError: MG0303, no order fits.
        """
        limit = self._cap if memory_limit is None else memory_limit
        cap = self.sequential_bytes if limit is None else limit
        candidates = [self.in_order, *(candidate for _, candidate in self._listed)]
        if min(candidates, key=lambda candidate: candidate.seconds).exceeds(cap):
            room = cap - fixed_bytes(self.program)
            tried_priorities = [*dict.fromkeys(priority for priority, _ in self._listed)][: DEFAULT.scheduling.capped]
            candidates += [
                EvaluatedOrder(self.program, order) for order in capped_orders(self.program, room, tried_priorities)
            ]
        best = best_order_within(_distinct(candidates), cap)
        if best is None:
            raise CodegenError(_too_big(min(candidate.arena_bytes for candidate in candidates), cap))
        return assemble(best)

    @cached_property
    def in_order(self) -> EvaluatedOrder:
        """Return the program's own order, evaluated."""
        return EvaluatedOrder(self.program, Order(tuple(range(len(self.program.tasks)))))

    @cached_property
    def _listed(self) -> list[tuple[Priority, EvaluatedOrder]]:
        """Return list schedules, each with the priority that produced it, the shortest step first."""
        program = self.program
        tried_priorities = priorities(program.tasks, self._perturbed)
        listed = _by_seconds(
            (priority, EvaluatedOrder(program, list_order(program.tasks, priority))) for priority in tried_priorities
        )
        improved = [
            candidate for _, base in listed[: DEFAULT.scheduling.justified] for candidate in self._improved(base)
        ]
        return _by_seconds([*listed, *improved])

    def _improved(self, tried: EvaluatedOrder) -> Iterator[tuple[Priority, EvaluatedOrder]]:
        """Yield forward-backward improvements of `tried`, as long as the step gets shorter and is clearly above the
        lower bound.
        """
        while tried.seconds > self.least_seconds * DEFAULT.scheduling.same_step:
            improved = _by_seconds(
                (priority, EvaluatedOrder(self.program, order))
                for priority, order in justified(self.program.tasks, tried.start)
            )
            yield from improved
            if improved[0][1].seconds >= tried.seconds:
                return
            tried = improved[0][1]


def _by_seconds(candidates: Iterable[tuple[Priority, EvaluatedOrder]]) -> list[tuple[Priority, EvaluatedOrder]]:
    return sorted(candidates, key=lambda pair: pair[1].seconds)


def _distinct(candidates: Iterable[EvaluatedOrder]) -> list[EvaluatedOrder]:
    """Return the candidates without repeated orders, so that the buffers of each order are placed only once."""
    unique: dict[Hashable, EvaluatedOrder] = {}
    for candidate in candidates:
        unique.setdefault((candidate.order.numbers, tuple(sorted(candidate.order.waits.items()))), candidate)
    return list(unique.values())


def best_order_within(tried: Sequence[EvaluatedOrder], cap: int) -> EvaluatedOrder | None:
    """Return the best step that needs at most `cap` bytes per device, or None if no step fits.

    The shortest step is best. Among steps of about the same time, the one with the least product of seconds and
    bytes is best.
    """
    ranked = sorted(tried, key=lambda candidate: candidate.seconds)
    best = next((candidate for candidate in ranked if not candidate.exceeds(cap)), None)
    if best is None:
        return None
    about_as_short = [
        candidate
        for candidate in ranked
        if best.seconds <= candidate.seconds <= best.seconds * DEFAULT.scheduling.same_step
    ]
    for candidate in sorted(about_as_short, key=lambda candidate: candidate.least_bytes * candidate.seconds):
        is_promising = candidate.least_bytes * candidate.seconds < best.arena_bytes * best.seconds
        if is_promising and not candidate.exceeds(cap):
            best = min(
                best, candidate, key=lambda candidate: (candidate.arena_bytes * candidate.seconds, candidate.seconds)
            )
    return best


def _too_big(needed: int, limit: int) -> Diagnostic:
    needs, allowed = distinguishable_sizes(needed, limit)
    text = f"the step needs {needs} of device memory, {bytes_text(needed - limit)} more than the limit of {allowed}"
    return Diagnostic("MG0303", text, hint="shard more values, or raise the limit")


def priorities(tasks: Sequence[Task], perturbed: int = 0) -> list[Priority]:
    """Return priorities for list schedules.

    They are the longest path to the end, program order, and `perturbed` random variations of the path. Chunks of one
    value have equal paths and advance in lockstep, so that all of them communicate at once. With random variations,
    some chunks run ahead.
    """
    path = longest_paths(tasks)
    rng = random.Random(0)
    variants: list[Priority] = [lambda n: (-round(path[n], 12), n), lambda n: (0.0, n)]
    for _ in range(perturbed):
        variants.append(by_urgency([-seconds * (1 + rng.gauss(0, DEFAULT.scheduling.spread)) for seconds in path]))
    return variants


def capped_orders(program: Program, nbytes: int, ways: Sequence[Priority]) -> Iterator[Order]:
    """Yield list schedules with at most about `nbytes` live bytes per device, for the priorities `ways`.

    Some budgets are smaller than `nbytes`, to leave room for gaps between buffers.
    """
    storages = storages_of(program)
    for share in DEFAULT.scheduling.cap_shares:
        for priority in ways:
            yield list_order(program.tasks, priority, Budget(int(nbytes * share), storages))


def storages_of(program: Program) -> tuple[Storage, ...]:
    """Return the storages that launches write: one per group of values that share bytes, and one per scratch buffer."""
    first_launch: dict[Value, int] = {}
    for root, storages in program.storages.made.items():
        # No launch writes the other storages, which exist before the step.
        if (place := program.place(root)) in program.storages.made:
            first_launch[place] = min(first_launch.get(place, storages[0].number), *(m.number for m in storages))
    users: dict[Value, set[int]] = {value: set() for value in first_launch}
    for number in range(len(program.nodes)):
        for value in program.reads(number):
            if (place := program.place(value)) in users:
                users[place].add(number)
    stays = {program.place(value) for value in program.module.graph.outputs}
    storages = [
        Storage(aligned(v.type.nbytes), n, tuple(sorted(users[v])), v in stays) for v, n in first_launch.items()
    ]
    return (*storages, *(Storage(aligned(nbytes), n, ()) for n, nbytes in program.scratch_bytes.items()))
