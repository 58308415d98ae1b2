"""A step of a whole program on a machine: all meshes together, transfers between them included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from meshgen.codegen.targets import machine_title, predicted_machine
from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.predicates import is_transfer
from meshgen.machine.profiles import Machine
from meshgen.machine.reading import machine_of
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Item, Schedule
from meshgen.simulator.retiming import retimed
from meshgen.simulator.timeline import Conditions, Span, Timeline, is_rank

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Scheduled:
    """The schedule that the ranks of one mesh run.

    `target` is what it was compiled for: it says the device of a machine that names none.
    """

    mesh: Mesh
    schedule: Schedule
    target: str = "cpu"


@dataclass(frozen=True, eq=False)
class PartTimes:
    """One mesh's ranks in a step.

    Attributes:
        watched: the ranks of `spans`.
        end: when each rank is done [ranks], seconds.
        computing: seconds in which kernels run on it [ranks]; the rest of its time it communicates or waits.
    """

    mesh: Mesh
    plan: Schedule
    watched: tuple[int, ...]
    spans: tuple[Span, ...]
    end: Array
    computing: Array

    @property
    def exposed(self) -> Array:
        """Seconds per rank in which no kernel runs."""
        return np.maximum(self.end - self.computing, 0.0)


@dataclass(frozen=True)
class Simulation:
    """The predicted step of all ranks of all meshes."""

    machine: Machine
    parts: tuple[PartTimes, ...]

    @property
    def step_seconds(self) -> float:
        return max((float(part.end.max()) for part in self.parts), default=0.0)

    def __repr__(self) -> str:
        ranks = sum(part.end.size for part in self.parts)
        return f"Simulation({machine_title(self.machine)!r}, {ranks} ranks, step {self.step_seconds * 1e6:.3g} us)"


def simulate(parts: Sequence[Scheduled], machine: str | Path | Machine | None = None, conditions: Conditions | None = None,
             watch: Sequence[int] | None = None) -> Simulation:  # fmt: skip
    """Predict one step.

    Args:
        parts: of one program, on meshes whose sizes are known.
        machine: a profile, its name, or the path of one (`machine_of`), which kernels and collectives are timed for; default:
            the machine that the parts were planned for.
        conditions: slow devices and links, by rank through all meshes, in the order of the parts.
        watch: ranks, counted so, of which every launch is kept; default: the first of each part.
    Raises:
        UsageError: MG0001, an unknown rank, or what `machine_of` raises.
    """
    profile = planned_for(parts) if machine is None else predicted_machine(parts[0].target, machine_of(machine))
    conditions = conditions or Conditions()
    if faults := conditions.faults():
        raise UsageError(*(Diagnostic("MG0001", fault) for fault in faults))
    _refuse_unknown_ranks(parts, conditions, watch or ())
    timelines: list[Timeline] = []
    first = 0
    for part in parts:
        ranks = range(first, first + part.mesh.size)
        watched = [r - first for r in ([first] if watch is None else watch) if r in ranks]
        schedule, mesh = retimed(part.schedule, part.mesh, profile)
        timelines.append(Timeline(schedule, mesh, _own(conditions, ranks), watched))
        first += part.mesh.size
    _play(timelines)
    return Simulation(profile, tuple(_times(timeline) for timeline in timelines))


def planned_for(parts: Sequence[Scheduled]) -> Machine:
    """Return the machine of the first mesh that has one, else the default machine of the target."""
    return predicted_machine(parts[0].target, next((part.mesh.machine for part in parts if part.mesh.machine), None))


def _times(timeline: Timeline) -> PartTimes:
    return PartTimes(
        timeline.mesh, timeline.plan, timeline.watched, tuple(timeline.spans), timeline.end, timeline.computing
    )


def _refuse_unknown_ranks(parts: Sequence[Scheduled], conditions: Conditions, watch: Sequence[int]) -> None:
    count = sum(part.mesh.size for part in parts)
    if not isinstance(cast("Any", watch), Sequence) or not all(is_rank(rank) for rank in watch):
        raise UsageError(Diagnostic("MG0001", f"watch must list ranks, non-negative integers, got {watch!r:.60}"))
    named = {*conditions.slow_devices, *conditions.slow_links, *watch}
    if unknown := sorted(rank for rank in named if not 0 <= rank < count):
        raise UsageError(Diagnostic("MG0001", f"unknown rank {unknown[0]}: the ranks are 0 to {count - 1}"))


def _own(conditions: Conditions, ranks: range) -> Conditions:
    """The conditions of some ranks, counted from the first of them."""
    devices, links = (
        {rank - ranks.start: factor for rank, factor in given.items() if rank in ranks}
        for given in (conditions.slow_devices, conditions.slow_links)
    )
    return Conditions(devices, links, conditions.jitter, conditions.seed + ranks.start)


def _play(timelines: Sequence[Timeline]) -> None:
    """Run all items: a mesh goes on until it waits for another at a transfer, which both sides run at once.

    The checker has proven that the meshes do not deadlock.
    """
    queues = [iter(timeline.order) for timeline in timelines]
    waiting: dict[int, tuple[Timeline, Item]] = {}  # by channel
    ready = list(range(len(timelines)))
    owner = {timeline: number for number, timeline in enumerate(timelines)}
    while ready:
        number = ready.pop()
        for item in queues[number]:
            if not is_transfer(item):
                timelines[number].issue(item)
                continue
            channel = item.attrs.channel
            if channel not in waiting:
                waiting[channel] = timelines[number], item
                break
            other, partner = waiting.pop(channel)
            _meet((timelines[number], item), (other, partner))
            ready.append(owner[other])


def _meet(one: tuple[Timeline, Item], other: tuple[Timeline, Item]) -> None:
    """A transfer starts when all ranks of both meshes are there, and ends everywhere at once."""
    start = max(float(timeline.ready(item).max()) for timeline, item in (one, other))
    seconds = max(item.seconds for _, item in (one, other))
    for timeline, item in (one, other):
        begin = np.full(timeline.mesh.size, start)
        timeline.finish(item, begin, begin + seconds)
