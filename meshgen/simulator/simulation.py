"""Simulation of one step of an entire program: all meshes together, including the transfers between them."""

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

    `target` is the compilation target. It selects the device if the machine does not name one.
    """

    mesh: Mesh
    schedule: Schedule
    target: str = "cpu"


@dataclass(frozen=True, eq=False)
class PartTimes:
    """Simulated times of the ranks of one mesh.

    Attributes:
        watched: the ranks whose `spans` are recorded.
        end: seconds after which each rank is done [ranks].
        computing: seconds in which kernels run on each rank [ranks]; in the other seconds, the rank communicates or
            waits.
    """

    mesh: Mesh
    plan: Schedule
    watched: tuple[int, ...]
    spans: tuple[Span, ...]
    end: Array
    computing: Array

    @property
    def exposed(self) -> Array:
        """Return the seconds per rank in which no kernel runs."""
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
        parts: the schedules of one program, one per mesh; all mesh sizes are known.
        machine: a profile, its name or its path (see `machine_of`). The default is the machine for which the parts were
            planned.
        conditions: slow devices and links, by global rank: ranks are counted through the meshes in the order of
            `parts`.
        watch: global ranks whose launches are recorded. The default is the first rank of each part.
    Raises:
        UsageError: MG0001, a rank is unknown, or `machine_of` failed.
    """
    profile = planned_for(parts) if machine is None else predicted_machine(parts[0].target, machine_of(machine))
    conditions = conditions or Conditions()
    if faults := conditions.faults():
        raise UsageError(*(Diagnostic("MG0001", fault) for fault in faults))
    _require_known_ranks(parts, conditions, watch or ())
    timelines: list[Timeline] = []
    first = 0
    for part in parts:
        ranks = range(first, first + part.mesh.size)
        watched = [r - first for r in ([first] if watch is None else watch) if r in ranks]
        schedule, mesh = retimed(part.schedule, part.mesh, profile)
        timelines.append(Timeline(schedule, mesh, _conditions_of(conditions, ranks), watched))
        first += part.mesh.size
    _play(timelines)
    return Simulation(profile, tuple(_times(timeline) for timeline in timelines))


def planned_for(parts: Sequence[Scheduled]) -> Machine:
    """Return the machine of the first mesh that has one, or else the default machine of the target."""
    return predicted_machine(parts[0].target, next((part.mesh.machine for part in parts if part.mesh.machine), None))


def _times(timeline: Timeline) -> PartTimes:
    return PartTimes(
        timeline.mesh, timeline.plan, timeline.watched, tuple(timeline.spans), timeline.end, timeline.computing
    )


def _require_known_ranks(parts: Sequence[Scheduled], conditions: Conditions, watch: Sequence[int]) -> None:
    count = sum(part.mesh.size for part in parts)
    if not isinstance(cast("Any", watch), Sequence) or not all(is_rank(rank) for rank in watch):
        raise UsageError(Diagnostic("MG0001", f"watch must list ranks, non-negative integers, got {watch!r:.60}"))
    named = {*conditions.slow_devices, *conditions.slow_links, *watch}
    if unknown := sorted(rank for rank in named if not 0 <= rank < count):
        raise UsageError(Diagnostic("MG0001", f"unknown rank {unknown[0]}: the ranks are 0 to {count - 1}"))


def _conditions_of(conditions: Conditions, ranks: range) -> Conditions:
    """Return the conditions of `ranks`, renumbered from 0."""
    devices, links = (
        {rank - ranks.start: factor for rank, factor in factors.items() if rank in ranks}
        for factors in (conditions.slow_devices, conditions.slow_links)
    )
    return Conditions(devices, links, conditions.jitter, conditions.seed + ranks.start)


def _play(timelines: Sequence[Timeline]) -> None:
    """Run the items of all meshes. A mesh runs until it reaches a transfer to or from another mesh. The transfer runs
    when both meshes have reached it.

    The verifier has proven that the meshes do not deadlock.
    """
    queues = [iter(timeline.order) for timeline in timelines]
    # channel -> timeline and transfer of the mesh that has reached the transfer first
    waiting: dict[int, tuple[Timeline, Item]] = {}
    ready = list(range(len(timelines)))
    index_of = {timeline: index for index, timeline in enumerate(timelines)}
    while ready:
        index = ready.pop()
        for item in queues[index]:
            if not is_transfer(item):
                timelines[index].issue(item)
                continue
            channel = item.attrs.channel
            if channel not in waiting:
                waiting[channel] = timelines[index], item
                break
            peer, partner = waiting.pop(channel)
            _meet((timelines[index], item), (peer, partner))
            ready.append(index_of[peer])


def _meet(one: tuple[Timeline, Item], other: tuple[Timeline, Item]) -> None:
    """Run a transfer: it starts when all ranks of both meshes are ready, and ends on all of them at the same time."""
    start = max(float(timeline.ready(item).max()) for timeline, item in (one, other))
    seconds = max(item.seconds for _, item in (one, other))
    for timeline, item in (one, other):
        begin = np.full(timeline.mesh.size, start)
        timeline.finish(item, begin, begin + seconds)
