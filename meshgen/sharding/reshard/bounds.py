"""Lower bounds on the cost of the rest of a reshard.

A device must receive the elements of its part of the target that it lacks. If summands must be reduced, an element has n of them
and k devices need it: it takes n - 1 messages until the first device has the sum, and at least one more for each other device. The
same holds between regions of devices that slow links connect: bytes across such links cost their bandwidth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from meshgen.ccl.exchange import Grid, Numbers, Split, grid_of, received_elements, splits_of
from meshgen.sharding.reshard.problem import PICOSECONDS, Cost, Problem, is_plain
from meshgen.spec import Sharding


class Bounds:
    """Lower bounds of one problem."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._target = problem.target.without_partial()
        self._wanted = splits_of(self._target, problem.shape)
        self._core = [split.core() for split in self._wanted]
        self.elements = math.prod(problem.shape)
        self._missing: dict[Sharding, int] = {}
        self._grid = grid_of(problem.mesh, problem.axes)
        self._volume = self._grid.volume(self._wanted)
        self._held: list[dict[tuple[str, ...], Numbers]] = [{} for _ in self._wanted]
        self._least: dict[Sharding, Cost] = {}
        bandwidths = sorted({link.bandwidth for link in problem.links.values()})
        self._slow = [_Regions.of(problem, bandwidth) for bandwidth in bandwidths[:-1]]

    def missing(self, state: Sharding) -> int:
        """Bytes that some device must still receive: no plan moves less (summands count as reduced)."""
        place = state.without_partial()
        found = self._missing.get(place)
        if found is None:
            found = self._missing[place] = self._missed(place)
        return found

    def _missed(self, place: Sharding) -> int:
        if not is_plain(place) or not self.elements:
            return self.received(place, self._target)
        kept: Numbers = np.ones(1, np.int64)
        for dim, axes in enumerate(place.dims):
            held = self._held[dim].get(axes)
            if held is None:
                wanted = self._wanted[dim]
                held = self._held[dim][axes] = self._grid.common(wanted, Split(wanted.size, axes))
            kept = kept * held
        return int((self._volume - kept).max()) * self._problem.itemsize

    def received(self, state: Sharding, after: Sharding) -> int:
        """Bytes that some device receives on a direct way."""
        problem = self._problem
        if not self.elements:
            return 0
        grid = grid_of(problem.mesh, (*state.split_axes, *after.split_axes))
        return (
            received_elements(grid, splits_of(state, problem.shape), splits_of(after, problem.shape)) * problem.itemsize
        )

    def least(self, state: Sharding) -> Cost:
        """One latency, and the bytes that must still be received over slow and over any links."""
        found = self._least.get(state)
        if found is None:
            found = self._least[state] = self._found(state)
        return found

    def _found(self, state: Sharding) -> Cost:
        problem = self._problem
        if state == problem.target:
            return 0, 0, 0, 0
        missing = max(self.missing(state), self._reduced(state))
        if not missing:
            return 0, 0, 0, 1
        seconds = problem.latency + missing / problem.bandwidth
        for slow in self._slow:
            if crossing := self._crossing(state, slow):
                rest = max(missing - crossing, 0) / problem.bandwidth
                if problem.mesh.machine:  # its levels move their shares at the same time
                    rest = 0.0
                seconds = max(seconds, slow.latency + crossing / slow.bandwidth + rest)
        return int(seconds * PICOSECONDS), missing, 0, 1

    def _reduced(self, state: Sharding) -> int:
        """Bytes that a device receives on average for the required reductions."""
        problem = self._problem
        axes = _to_reduce(problem, state)
        if not axes:
            return 0
        # The first of even tiles has no padding: its device needs others' summands for all of it.
        whole = problem.local(self._target).nbytes if is_plain(self._target) else 0
        return max(self._messages(state, axes, problem.axes), whole)

    def _messages(self, state: Sharding, axes: tuple[str, ...], among: tuple[str, ...]) -> int:
        """Bytes per device of the messages between groups of devices that `among` tell apart."""
        problem = self._problem
        summands = problem.parts(tuple(axis for axis in axes if axis in among))
        if summands == 1:
            return 0
        kept = tuple(axis for axis in state.partial_axes if axis not in axes)
        used = problem.parts(tuple(axis for axis in (*self._target.split_axes, *kept) if axis in among))
        takers = problem.parts(among) // used
        values = self.elements * problem.parts(kept)
        return values * (summands + takers - 2) * problem.itemsize // problem.parts(problem.axes)

    def _crossing(self, state: Sharding, slow: _Regions) -> int:
        """Bytes per device over links at most as fast as these."""
        found = self._messages(state, _to_reduce(self._problem, state), slow.axes)
        if not state.halo:
            held = splits_of(state.without_partial(), self._problem.shape)
            found = max(found, slow.missing(self._core, held) * self._problem.itemsize // slow.devices)
        return found


def _to_reduce(problem: Problem, state: Sharding) -> tuple[str, ...]:
    """The axes over which summands must be reduced, whatever the way: none if the target has other partial axes to which they may move."""
    target = problem.target
    others = any(pair not in state.partial for pair in target.partial)
    return () if others else tuple(pair[0] for pair in state.partial if pair not in target.partial)


@dataclass(eq=False)
class _Regions:
    """Groups of devices that differ along fast axes only; links along `axes` lead from one to another."""

    grid: Grid
    axes: tuple[str, ...]
    bandwidth: float
    latency: float
    devices: int  # in a region
    _common_rows: dict[tuple[Split, Split], Numbers]
    _tiles_of: dict[Split, _Tiles]
    _wanted: Numbers | None = None

    @staticmethod
    def of(problem: Problem, bandwidth: float) -> _Regions:
        axes = tuple(axis for axis in problem.axes if problem.links[axis].bandwidth <= bandwidth)
        devices = problem.parts(problem.axes) // problem.parts(axes)
        latency = min(problem.links[axis].latency for axis in axes)
        return _Regions(grid_of(problem.mesh, problem.axes), axes, bandwidth, latency, devices, {}, {})

    def missing(self, wanted: list[Split], held: list[Split]) -> int:
        """Elements that some device of a region needs and none of them holds; the maximum over all regions."""
        kept: Numbers = np.ones(1, np.int64)
        for want, have in zip(wanted, held, strict=True):
            kept = kept * self._common(want, have)
        return int((self._total(wanted) - kept).max())

    def _total(self, wanted: list[Split]) -> Numbers:
        """Elements that the devices of each region need, together; the same for all states of a problem."""
        if self._wanted is None:
            self._wanted = math.prod((self._common(want, want) for want in wanted), start=np.ones(1, np.int64))
        return self._wanted

    def _common(self, want: Split, have: Split) -> Numbers:
        """Return per region the rows of a dim that are both needed and held in it. The work is that of sorting the devices."""
        found = self._common_rows.get((want, have))
        if found is None:
            wanted, held = self._tiles(want), self._tiles(have)
            rows = np.unique(np.concatenate([self.grid.tiles(split)[0] for split in (want, have)] + [[want.size]]))
            both = held.below(wanted.region, wanted.stop, rows) - held.below(wanted.region, wanted.start, rows)
            firsts = np.flatnonzero(np.diff(wanted.region, prepend=-1))  # every region has a device, and so a tile
            found = self._common_rows[want, have] = np.add.reduceat(both, firsts)
        return found

    def _tiles(self, split: Split) -> _Tiles:
        """Return the tiles of a split in each region, each tile once."""
        found = self._tiles_of.get(split)
        if found is None:
            starts, stops = self.grid.tiles(split)
            numbers = np.unique(self.grid.index(self.axes) * len(starts) + self.grid.index(split.axes))
            region, number = np.divmod(numbers, len(starts))
            found = self._tiles_of[split] = _Tiles(region, starts[number], stops[number])
        return found


class _Tiles:
    """Disjoint ranges of rows in regions, in the order of the regions and then of the rows."""

    def __init__(self, region: Numbers, start: Numbers, stop: Numbers) -> None:
        self.region, self.start, self.stop = region, start, stop
        self._before = np.concatenate([[0], np.cumsum(stop - start)])  # rows of the ranges before each

    def below(self, region: Numbers, row: Numbers, rows: Numbers) -> Numbers:
        """Return the rows before `row` in the ranges of a region, and all rows of earlier regions. `rows` has all starts and rows, sorted."""

        def key(region: Numbers, row: Numbers) -> Numbers:
            return region * len(rows) + np.searchsorted(rows, row)

        count = np.searchsorted(key(self.region, self.start), key(region, row))  # of ranges that begin before
        last = np.maximum(count - 1, 0)
        is_open = (count > 0) & (self.region[last] == region)
        return self._before[count] - np.where(is_open, np.maximum(self.stop[last] - row, 0), 0)
