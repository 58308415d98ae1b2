"""One step of all ranks in time: each rank's streams, events and control flow, with collectives that wait for their slowest member.

Times are arrays [ranks], so that 16,384 ranks take as many steps of this program as one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from meshgen.ccl.groups import groups_of
from meshgen.ir.op_names import REPEATED
from meshgen.ir.predicates import is_control
from meshgen.machine.profiles import Machine
from meshgen.mesh import Mesh
from meshgen.records import dataclass
from meshgen.runtime.plan import STREAMS, Item, Schedule
from meshgen.simulator.network import axes_of, group_seconds, packing_seconds

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Conditions:
    """Deviations from the ideal machine.

    Attributes:
        slow_devices: by which factor the kernels of a rank take longer.
        slow_links: by which factor the collectives that a rank takes part in take longer.
        jitter: standard deviation of a kernel's time on a device, as a share of it; it only adds.
        seed: of the jitter.
    """

    slow_devices: Mapping[int, float] = field(default_factory=dict)
    slow_links: Mapping[int, float] = field(default_factory=dict)
    jitter: float = 0.0
    seed: int = 0

    def faults(self) -> list[str]:
        """Malformed conditions, one text each."""
        found: list[str] = []
        for name, given in (("slow_devices", self.slow_devices), ("slow_links", self.slow_links)):
            if not all(is_rank(rank) and _is_number(factor) and factor > 0 for rank, factor in given.items()):
                found.append(f"{name} must map ranks to positive factors, got {given!r:.60}")
        if not _is_number(self.jitter) or self.jitter < 0:
            found.append(f"jitter must be a non-negative number, got {self.jitter!r:.60}")
        return found


def is_rank(value: Any) -> bool:
    """Whether it is a non-negative integer; whether the rank exists depends on the mesh."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True, eq=False)
class Span:
    """An item of a schedule as it ran once: when it became ready, started and ended on each watched rank (seconds)."""

    item: Item
    plan: Schedule
    ready: Array
    start: Array
    end: Array


class Timeline:
    """The ranks of one mesh; `spans` are the items so far in the order in which they end; of loops the trips that were played."""

    def __init__(self, plan: Schedule, mesh: Mesh, machine: Machine, conditions: Conditions, watched: Sequence[int]) -> None:  # fmt: skip
        self.plan, self.mesh = plan, mesh
        self.spans: list[Span] = []
        self.computing = np.zeros(mesh.size)  # seconds in which kernels run
        self.watched, self._machine = tuple(watched), machine
        self._slow = _factors(conditions.slow_devices, mesh)
        self._slow_links = _factors(conditions.slow_links, mesh)
        self._jitter, self._random = conditions.jitter, np.random.default_rng(conditions.seed)
        self._seconds: dict[int, Array] = {}  # of collectives per rank, by the identity of their item
        self._frame = _Frame(np.zeros(mesh.size))

    @property
    def end(self) -> Array:
        """When each rank is idle again."""
        return self._frame.free.max(axis=0)

    def ready(self, item: Item) -> Array:
        """When each rank could start an item of the plan."""
        return self._frame.ready(item)

    def issue(self, item: Item) -> None:
        """Run the next item of the plan."""
        self._issue(item, self.plan, self._frame)

    def finish(self, item: Item, start: Array, end: Array) -> None:
        """Let an item that waits for another mesh run from `start` to `end`."""
        self._spend(item, self.plan, self._frame, start, end)

    def _issue(self, item: Item, plan: Schedule, frame: _Frame) -> None:
        ready = frame.ready(item)
        if is_control(item):
            self._spend(item, plan, frame, ready, self._control(item, ready))
        elif item.is_collective:
            groups = groups_of(self.mesh, axes_of(item, self.mesh))
            start = groups.latest(ready)
            self._spend(item, plan, frame, start, start + self._collective_seconds(item, plan))
        else:
            seconds = self._kernel_seconds(item, frame, ready)
            self.computing += seconds
            self._spend(item, plan, frame, ready, ready + seconds)

    def _spend(self, item: Item, plan: Schedule, frame: _Frame, start: Array, end: Array) -> None:
        watched = list(self.watched)
        self.spans.append(Span(item, plan, frame.ready(item)[watched], start[watched], end[watched]))
        if item.is_collective:
            self._slow_down(frame, start, end)
            frame.last_collective = start, end
        frame.done(item, end)
        if item.kernel:
            frame.kernel = _Running(item, len(self.spans) - 1, start, end)

    def _slow_down(self, frame: _Frame, start: Array, end: Array) -> None:
        """A collective from `start` to `end` slows the kernel that runs meanwhile down, unless what follows that has begun."""
        if (kernel := frame.kernel) is None:
            return
        more = self._machine.overlap_slowdown * _overlap(kernel.start, kernel.end, start, end)
        self.computing += more
        frame.done(kernel.item, kernel.end + more)
        frame.kernel = replace(kernel, end=kernel.end + more)
        span = self.spans[kernel.span]
        self.spans[kernel.span] = replace(span, end=span.end + more[list(self.watched)])

    def _collective_seconds(self, item: Item, plan: Schedule) -> Array:
        """Per rank; a slow member slows its group."""
        if (found := self._seconds.get(id(item))) is None:
            groups = groups_of(self.mesh, axes_of(item, self.mesh))
            per_group = group_seconds(item, plan, self.mesh, self._machine)
            linked = per_group[groups.group] * groups.latest(self._slow_links)
            found = self._seconds[id(item)] = linked + packing_seconds(item, plan, self.mesh)
        return found

    def _kernel_seconds(self, item: Item, frame: _Frame, start: Array) -> Array:
        seconds = item.seconds * self._slow
        if self._jitter:
            seconds = seconds * (1 + np.abs(self._random.normal(0, self._jitter, self.mesh.size)))
        return seconds + self._machine.overlap_slowdown * _overlap(*frame.last_collective, start, start + seconds)

    def _control(self, item: Item, ready: Array) -> Array:
        if item.op not in REPEATED:
            longest = max(item.regions, key=lambda region: region.step_seconds)
            return self._play_region(longest, ready)
        *conditions, body = item.regions
        now, before = self._play_regions(conditions, ready), None
        for trip in range(item.times):
            computed = self.computing.copy()
            after = self._play_regions([body, *conditions], now)
            rest = item.times - trip - 1
            if before is not None and self._is_steady(item, before, after - now):
                self.computing += rest * (self.computing - computed)
                return after + rest * (after - now)
            before, now = after - now, after
        return now

    def _is_steady(self, item: Item, before: Array, trip: Array) -> bool:
        """Whether all further trips take as long as this one: the offsets between ranks are constant."""
        same = np.allclose(trip, trip[0] if item.communicates else before, rtol=1e-9, atol=0)
        return not self._jitter and bool(same and np.allclose(before, trip, rtol=1e-9, atol=0))

    def _play_regions(self, plans: Sequence[Schedule], start: Array) -> Array:
        """When each rank has run regions one after the other."""
        for plan in plans:
            start = self._play_region(plan, start)
        return start

    def _play_region(self, plan: Schedule, start: Array) -> Array:
        """When each rank has run a region that it enters at `start`."""
        frame = _Frame(start)
        for item in plan.items:
            self._issue(item, plan, frame)
        return frame.free.max(axis=0)


@dataclass(frozen=True, eq=False)
class _Running:
    """The last kernel, while nothing relies on its end: the number of its span, and when it runs."""

    item: Item
    span: int
    start: Array
    end: Array


class _Frame:
    """Streams and events of one schedule on all ranks."""

    def __init__(self, start: Array) -> None:
        self.free = np.tile(start, (STREAMS, 1))
        self.last_collective = start, start
        self.kernel: _Running | None = None
        self._events: dict[int, Array] = {}

    def ready(self, item: Item) -> Array:
        """When the stream is free and all events that it waits for are recorded."""
        if self.kernel and (item.stream == self.kernel.item.stream or self.kernel.item.records in item.waits):
            self.kernel = None
        return np.maximum.reduce([self.free[item.stream], *(self._events[event] for event in item.waits)])

    def done(self, item: Item, end: Array) -> None:
        self.free[item.stream] = end
        if item.records is not None:
            self._events[item.records] = end


def _overlap(start: Array, end: Array, other_start: Array, other_end: Array) -> Array:
    """For how long two things run at once."""
    return np.clip(np.minimum(end, other_end) - np.maximum(start, other_start), 0, None)


def _factors(given: Mapping[int, float], mesh: Mesh) -> Array:
    found = np.ones(mesh.size)
    for rank, factor in given.items():
        found[rank] = factor
    return found
