"""From a fused module to one step: a total order on streams, events, and a buffer plan.

Orders that are tried: the program's, list schedules (`orders.py`), and these improved (`forward_backward.py`). The shortest predicted step that needs
no more memory than the program's order (or than the limit that is given) wins; of steps that differ by less than the prediction is worth
(2 %), the one with the least product of seconds and bytes. Where the shortest would need more, list schedules that keep within that are tried too.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property

from meshgen.codegen.scheduling import memory
from meshgen.codegen.scheduling.assembly import Tried, assemble
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
from meshgen.printable import bytes_apart, bytes_text
from meshgen.runtime.plan import Schedule, aligned


def schedule(module: Module, target: str = "cuda:sm_90", *, costs: Costs | None = None,
             memory_limit: int | None = None) -> Schedule:  # fmt: skip
    """The step of a `fuse`-stage module (`partition` is fine too: what is not fused becomes a kernel per op).

    Args:
        target: what the durations are predicted for.
        costs: durations of kernels and collectives; default: the roofline and link models of `target`.
        memory_limit: bytes of arena to stay within where some order allows it.
    Raises:
        CodegenError: MG0303 when even the smallest order needs more than `memory_limit`; MG0301 for control
            flow around transfers between meshes that cannot be unrolled.
    """
    return Steps(module, costs or default_costs(target)).plan(memory_limit)


def sequential_bytes(module: Module, target: str) -> int:
    """The arena of a fused module where its launches run in program order."""
    return Steps(module, default_costs(target)).sequential_bytes


def unlimited(module: Module, target: str) -> Schedule:
    """The step that may take any memory."""
    return schedule(module, target, memory_limit=memory.MOST_BYTES)


def launches_of(module: Module, costs: Costs, inputs_are: str = "input") -> Program:
    """What is scheduled of a fused module, or of a region to which its inputs are given, with the kernels that the module has."""
    return collect(module, costs, inputs_are, lambda region: Steps(region, costs, "given").plan(None))


class Steps:
    """The steps of a fused module, or of a region of one to which its inputs are given; what is found out is kept.

    Attributes:
        program: what is scheduled, with the steps of regions that communicate.
    """

    def __init__(self, module: Module, costs: Costs, inputs_are: str = "input") -> None:
        self._cap = module.memory_cap if inputs_are == "input" else None
        self._perturbed = 0 if module.memory_cap is None else DEFAULT.scheduling.perturbed
        self.program = update_in_place(launches_of(module, costs, inputs_are), costs)

    @cached_property
    def least_seconds(self) -> float:
        """A lower bound for all orders."""
        return least_seconds(self.program.tasks)

    @property
    def shortest_seconds(self) -> float:
        """Of the step if it could take any memory."""
        return self._listed[0][1].seconds

    @property
    def sequential_bytes(self) -> int:
        """Arena of the program's own order."""
        return self.in_order.arena_bytes

    def plan(self, memory_limit: int | None) -> Schedule:
        """The shortest step within a limit (None: what the module says, or its own order takes). Raises CodegenError MG0303."""
        limit = self._cap if memory_limit is None else memory_limit
        cap = self.sequential_bytes if limit is None else limit
        tried = [self.in_order, *(each for _, each in self._listed)]
        if min(tried, key=lambda each: each.seconds).exceeds(cap):
            room = cap - fixed_bytes(self.program)
            ways = [*dict.fromkeys(way for way, _ in self._listed)][: DEFAULT.scheduling.capped]
            tried += [Tried(self.program, order) for order in capped_orders(self.program, room, ways)]
        best = best_within(_distinct(tried), cap)
        if best is None:
            raise CodegenError(_too_big(min(each.arena_bytes for each in tried), cap))
        return assemble(best)

    @cached_property
    def in_order(self) -> Tried:
        """The program's own order."""
        return Tried(self.program, Order(tuple(range(len(self.program.tasks)))))

    @cached_property
    def _listed(self) -> list[tuple[Priority, Tried]]:
        """List schedules by what is urgent in them, the shortest first."""
        program = self.program
        ways = priorities(program.tasks, self._perturbed)
        found = _by_seconds((way, Tried(program, list_order(program.tasks, way))) for way in ways)
        improved = [each for _, tried in found[: DEFAULT.scheduling.justified] for each in self._improved(tried)]
        return _by_seconds([*found, *improved])

    def _improved(self, tried: Tried) -> Iterator[tuple[Priority, Tried]]:
        """Schedules that are justified, as long as they become shorter and are clearly above the lower bound."""
        while tried.seconds > self.least_seconds * DEFAULT.scheduling.same_step:
            again = _by_seconds(
                (way, Tried(self.program, order)) for way, order in justified(self.program.tasks, tried.start)
            )
            yield from again
            if again[0][1].seconds >= tried.seconds:
                return
            tried = again[0][1]


def _by_seconds(found: Iterable[tuple[Priority, Tried]]) -> list[tuple[Priority, Tried]]:
    return sorted(found, key=lambda each: each[1].seconds)


def _distinct(tried: Iterable[Tried]) -> list[Tried]:
    """Each order once: buffers are placed for each."""
    found: dict[Hashable, Tried] = {}
    for each in tried:
        found.setdefault((each.order.numbers, tuple(sorted(each.order.waits.items()))), each)
    return list(found.values())


def best_within(tried: Sequence[Tried], cap: int) -> Tried | None:
    """Of the steps that take no more than so many bytes the shortest; of those that take about as long, the one with the least product of
    seconds and bytes: a share of one is worth the same share of the other. None where no step fits.
    """
    ranked = sorted(tried, key=lambda each: each.seconds)
    best = next((each for each in ranked if not each.exceeds(cap)), None)
    if best is None:
        return None
    near = [each for each in ranked if best.seconds <= each.seconds <= best.seconds * DEFAULT.scheduling.same_step]
    for each in sorted(near, key=lambda each: each.least_bytes * each.seconds):
        is_promising = each.least_bytes * each.seconds < best.arena_bytes * best.seconds
        if is_promising and not each.exceeds(cap):
            best = min(best, each, key=lambda each: (each.arena_bytes * each.seconds, each.seconds))
    return best


def _too_big(needed: int, limit: int) -> Diagnostic:
    needs, allowed = bytes_apart(needed, limit)
    text = f"the step needs {needs} of device memory, {bytes_text(needed - limit)} more than the limit of {allowed}"
    return Diagnostic("MG0303", text, hint="shard more values, or raise the limit")


def priorities(tasks: Sequence[Task], perturbed: int = 0) -> list[Priority]:
    """Priorities: the longest path to the end, or program order.

    Chunks of one chain have equal paths and keep step, so that all of them communicate at once: paths that are `perturbed` at random,
    so many of them, let some go ahead.
    """
    path = longest_paths(tasks)
    rng = random.Random(0)
    found: list[Priority] = [lambda n: (-round(path[n], 12), n), lambda n: (0.0, n)]
    for _ in range(perturbed):
        found.append(by_urgency([-seconds * (1 + rng.gauss(0, DEFAULT.scheduling.spread)) for seconds in path]))
    return found


def capped_orders(program: Program, nbytes: int, ways: Sequence[Priority]) -> Iterator[Order]:
    """Orders in which about so many bytes are alive at most; gaps between buffers may need some of them."""
    storages = storages_of(program)
    for share in DEFAULT.scheduling.cap_shares:
        for priority in ways:
            yield list_order(program.tasks, priority, Budget(int(nbytes * share), storages))


def storages_of(program: Program) -> tuple[Storage, ...]:
    """The storages of the launches: one for each place of values, and one for the scratch of each launch."""
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
