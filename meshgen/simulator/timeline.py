"""Timeline of one step on all ranks: streams, events, control flow, and collectives that wait for their slowest member.

Times are arrays [ranks], so simulating 16,384 ranks executes as many Python operations as simulating one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meshgen.ccl.groups import groups_of
from meshgen.codegen.scheduling.timeline import copied_seconds
from meshgen.identity_dict import IdentityDict
from meshgen.ir.op_names import REPEATED
from meshgen.ir.predicates import is_control
from meshgen.mesh import Mesh
from meshgen.runtime.plan import STREAMS, Item, Schedule
from meshgen.simulator.contention import Interval, issue_order, stretched
from meshgen.simulator.network import axes_of, linked_seconds, packing_seconds
from meshgen.simulator.retiming import costs_on

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Conditions:
    """Deviations from the ideal machine.

    Attributes:
        slow_devices: rank -> factor on the times of the rank's kernels.
        slow_links: rank -> factor on the times of the rank's collectives.
        jitter: standard deviation of kernel times, relative to the kernel time. Jitter only increases times.
        seed: seed of the jitter.
    """

    slow_devices: Mapping[int, float] = field(default_factory=dict)
    slow_links: Mapping[int, float] = field(default_factory=dict)
    jitter: float = 0.0
    seed: int = 0

    def faults(self) -> list[str]:
        """Return a message for each malformed condition."""
        messages: list[str] = []
        for name, factors in (("slow_devices", self.slow_devices), ("slow_links", self.slow_links)):
            if not all(is_rank(rank) and _is_number(factor) and factor > 0 for rank, factor in factors.items()):
                messages.append(f"{name} must map ranks to positive factors, got {factors!r:.60}")
        if not _is_number(self.jitter) or self.jitter < 0:
            messages.append(f"jitter must be a non-negative number, got {self.jitter!r:.60}")
        return messages


def is_rank(value: Any) -> bool:
    """Whether `value` is an integer, so that it can be a rank. Whether the rank exists depends on the mesh."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True, eq=False)
class Span:
    """One execution of an item of a schedule. `ready`, `start` and `end` are in seconds, for each watched rank."""

    item: Item
    plan: Schedule
    ready: Array
    start: Array
    end: Array


class Timeline:
    """The timeline of the ranks of one mesh.

    `spans` are the items executed so far. For a loop, they include only the simulated iterations. Collectives are
    issued as early as their stream and their events allow (`issue_order`), so that all collectives that overlap a
    kernel are known.
    """

    def __init__(self, plan: Schedule, mesh: Mesh, conditions: Conditions, watched: Sequence[int]) -> None:
        """Start at time 0.

        The machine of `mesh` must name a device, and the times of `plan` must be predictions for this machine
        (`retimed`).
        """
        machine = mesh.machine
        assert machine and machine.device
        self.plan, self.mesh = plan, mesh
        self.spans: list[Span] = []
        self.computing = np.zeros(mesh.size)  # seconds in which kernels run, per rank
        self.watched, self._slowdown = tuple(watched), machine.overlap_slowdown
        self._copy = costs_on(machine).copy
        self._slow = _factors(conditions.slow_devices, mesh)
        self._slow_links = _factors(conditions.slow_links, mesh)
        self._jitter, self._random = conditions.jitter, np.random.default_rng(conditions.seed)
        self._seconds = IdentityDict[Item, Array]()  # seconds of each collective, per rank
        self._orders = IdentityDict[Schedule, list[Item]]()
        self._frame = _Frame(np.zeros(mesh.size))

    @property
    def end(self) -> Array:
        """Return when each rank becomes idle."""
        return self._frame.free.max(axis=0)

    @property
    def order(self) -> Sequence[Item]:
        """Return the items of the plan in issue order."""
        return self._order(self.plan)

    def ready(self, item: Item) -> Array:
        """Return when each rank could start an item of the plan."""
        return self._frame.ready(item)

    def issue(self, item: Item) -> None:
        """Execute the next item of the plan."""
        self._issue(item, self.plan, self._frame)

    def finish(self, item: Item, start: Array, end: Array) -> None:
        """Record the execution of a transfer, whose `start` and `end` depend on another mesh."""
        self._spend(item, self.plan, self._frame, start, end)

    def _order(self, plan: Schedule) -> list[Item]:
        if plan not in self._orders:
            self._orders[plan] = issue_order(plan.items)
        return self._orders[plan]

    def _issue(self, item: Item, plan: Schedule, frame: _Frame) -> None:
        ready = frame.ready(item)
        if is_control(item):
            self._spend(item, plan, frame, ready, self._control(item, ready, frame.running))
        elif item.is_collective:
            groups = groups_of(self.mesh, axes_of(item, self.mesh))
            start = groups.latest(ready)
            self._spend(item, plan, frame, start, start + self._collective_seconds(item, plan))
        else:
            end = stretched(ready, self._kernel_seconds(item), frame.beside(ready), self._slowdown)
            self.computing += end - ready
            self._spend(item, plan, frame, ready, end)

    def _spend(self, item: Item, plan: Schedule, frame: _Frame, start: Array, end: Array) -> None:
        watched = list(self.watched)
        self.spans.append(Span(item, plan, frame.ready(item)[watched], start[watched], end[watched]))
        if item.is_collective:
            frame.running.append((start, end))
        frame.done(item, end)

    def _collective_seconds(self, item: Item, plan: Schedule) -> Array:
        """Return the seconds of a collective per rank. A slow rank slows its entire group down."""
        if (seconds := self._seconds.get(item)) is None:
            groups = groups_of(self.mesh, axes_of(item, self.mesh))
            linked = linked_seconds(item, plan, self.mesh)[groups.group] * groups.latest(self._slow_links)
            seconds = self._seconds[item] = linked + packing_seconds(item, plan, self.mesh)
        return seconds

    def _kernel_seconds(self, item: Item) -> Array:
        """Return the seconds of a kernel per rank, without overlapping collectives."""
        seconds = item.seconds * self._slow
        return seconds * (1 + np.abs(self._random.normal(0, self._jitter, self.mesh.size))) if self._jitter else seconds

    def _control(self, item: Item, ready: Array, beside: Sequence[Interval]) -> Array:
        """Return when each rank has completed a control flow item; `beside` are outer collectives that may overlap it."""
        copied = copied_seconds(item.op, item.regions, self._copy)
        if item.op not in REPEATED:
            executed = [region for region, times in item.runs if times]
            return self._play_regions(executed, ready, beside) + copied
        *conditions, body = item.regions
        time, before = self._play_regions(conditions, ready, beside), None
        for iteration in range(item.times):
            computed = self.computing.copy()
            after = self._play_regions([body, *conditions], time, beside) + copied
            remaining = item.times - iteration - 1
            if before is not None and self._is_steady(item, before, after - time, time, beside):
                self.computing += remaining * (self.computing - computed)
                return after + remaining * (after - time)
            before, time = after - time, after
        return time

    def _is_steady(
        self, item: Item, before: Array, iteration_seconds: Array, start: Array, beside: Sequence[Interval]
    ) -> bool:
        """Whether all further iterations take as long as the one that began at `start`.

        The offsets between ranks must be constant, and no collective from outside the loop may still run.
        """
        if self._jitter or any((end > start).any() for _, end in beside):
            return False
        is_constant = np.allclose(
            iteration_seconds, iteration_seconds[0] if item.communicates else before, rtol=1e-9, atol=0
        )
        return bool(is_constant and np.allclose(before, iteration_seconds, rtol=1e-9, atol=0))

    def _play_regions(self, plans: Sequence[Schedule], start: Array, beside: Sequence[Interval]) -> Array:
        """Return when each rank has executed the regions `plans` one after the other, beginning at `start`."""
        for plan in plans:
            frame = _Frame(start, beside)
            for item in self._order(plan):
                self._issue(item, plan, frame)
            start = frame.free.max(axis=0)
        return start


class _Frame:
    """State of the streams and events of one schedule on all ranks."""

    def __init__(self, start: Array, beside: Sequence[Interval] = ()) -> None:
        self.free = np.tile(start, (STREAMS, 1))
        self.running: list[Interval] = [*beside]  # collectives that may overlap the next kernel
        self._events: dict[int, Array] = {}

    def ready(self, item: Item) -> Array:
        """Return when the stream is free and all events for which the item waits are recorded."""
        return np.maximum.reduce([self.free[item.stream], *(self._events[event] for event in item.waits)])

    def beside(self, start: Array) -> Sequence[Interval]:
        """Return the collectives that may overlap a kernel that begins at `start`, and drop those that ended earlier.

        No later kernel begins before `start`.
        """
        self.running = [(began, end) for began, end in self.running if (end > start).any()]
        return self.running

    def done(self, item: Item, end: Array) -> None:
        self.free[item.stream] = end
        if item.records is not None:
            self._events[item.records] = end


def _factors(factors: Mapping[int, float], mesh: Mesh) -> Array:
    by_rank = np.ones(mesh.size)
    for rank, factor in factors.items():
        by_rank[rank] = factor
    return by_rank
