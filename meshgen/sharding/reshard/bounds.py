"""Lower bounds on the remaining cost of a reshard.

A device must receive the elements of its part of the target that it lacks. If an element is the sum of n partial values
and k devices need it, n - 1 messages are needed until one device has the sum, and at least one more for each other
device. The same holds between regions of devices that slow links connect: the cost of these bytes follows from the slow
bandwidth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from meshgen.ccl.exchange import Grid, Numbers, Split, grid_of, received_elements, splits_of
from meshgen.sharding.reshard.problem import PICOSECONDS, Cost, Problem, is_plain
from meshgen.spec import Sharding


class Bounds:
    """Lower bounds on the remaining cost of a reshard, from any intermediate sharding (a state) of one problem."""

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
        """Return a lower bound on the bytes that some device must still receive. Partial values count as reduced."""
        reduced = state.without_partial()
        nbytes = self._missing.get(reduced)
        if nbytes is None:
            nbytes = self._missing[reduced] = self._compute_missing(reduced)
        return nbytes

    def _compute_missing(self, reduced: Sharding) -> int:
        """Return the bytes of missing elements on the device that lacks most. `reduced` is a sharding without partial
        values.
        """
        if not is_plain(reduced) or not self.elements:
            return self.received(reduced, self._target)
        common_elements: Numbers = np.ones(1, np.int64)
        for dim, axes in enumerate(reduced.dims):
            common_rows = self._held[dim].get(axes)
            if common_rows is None:
                target_split = self._wanted[dim]
                common_rows = self._held[dim][axes] = self._grid.common(target_split, Split(target_split.size, axes))
            common_elements = common_elements * common_rows
        return int((self._volume - common_elements).max()) * self._problem.itemsize

    def received(self, state: Sharding, after: Sharding) -> int:
        """Return the largest number of bytes that a device receives if data moves directly from `state` to `after`."""
        problem = self._problem
        if not self.elements:
            return 0
        grid = grid_of(problem.mesh, (*state.split_axes, *after.split_axes))
        return (
            received_elements(grid, splits_of(state, problem.shape), splits_of(after, problem.shape)) * problem.itemsize
        )

    def least(self, state: Sharding) -> Cost:
        """Return a lower bound on the cost from `state` to the target: a latency, plus the missing bytes over slow and
        all links.
        """
        bound = self._least.get(state)
        if bound is None:
            bound = self._least[state] = self._compute_least(state)
        return bound

    def _compute_least(self, state: Sharding) -> Cost:
        problem = self._problem
        if state == problem.target:
            return 0, 0, 0, 0
        missing = max(self.missing(state), self._reduced(state))
        if not missing:
            return 0, 0, 0, 1
        seconds = problem.latency + missing / problem.bandwidth
        for regions in self._slow:
            if crossing_bytes := self._crossing(state, regions):
                fast_seconds = max(missing - crossing_bytes, 0) / problem.bandwidth
                if problem.mesh.machine:  # The link levels of a machine profile transfer their shares at the same time.
                    fast_seconds = 0.0
                seconds = max(seconds, regions.latency + crossing_bytes / regions.bandwidth + fast_seconds)
        return int(seconds * PICOSECONDS), missing, 0, 1

    def _reduced(self, state: Sharding) -> int:
        """Return a lower bound on the bytes that some device receives for the required reductions."""
        problem = self._problem
        axes = _to_reduce(problem, state)
        if not axes:
            return 0
        # If all tiles are even, the first tile has no padding. Its device needs partial values of other devices for all
        # elements.
        tile_bytes = problem.local(self._target).nbytes if is_plain(self._target) else 0
        return max(self._messages(state, axes, problem.axes), tile_bytes)

    def _messages(self, state: Sharding, axes: tuple[str, ...], among: tuple[str, ...]) -> int:
        """Return the bytes per device of the messages between groups of devices that differ along the axes `among`."""
        problem = self._problem
        summands = problem.parts(tuple(axis for axis in axes if axis in among))
        if summands == 1:
            return 0
        partial_axes = tuple(axis for axis in state.partial_axes if axis not in axes)
        distinct_groups = problem.parts(
            tuple(axis for axis in (*self._target.split_axes, *partial_axes) if axis in among)
        )
        receivers = problem.parts(among) // distinct_groups
        elements = self.elements * problem.parts(partial_axes)
        return elements * (summands + receivers - 2) * problem.itemsize // problem.parts(problem.axes)

    def _crossing(self, state: Sharding, slow: _Regions) -> int:
        """Return the bytes per device that must cross links at most as fast as those between `slow` regions."""
        crossing = self._messages(state, _to_reduce(self._problem, state), slow.axes)
        if not state.halo:
            held = splits_of(state.without_partial(), self._problem.shape)
            crossing = max(crossing, slow.missing(self._core, held) * self._problem.itemsize // slow.devices)
        return crossing


def _to_reduce(problem: Problem, state: Sharding) -> tuple[str, ...]:
    """Return the axes over which every plan must reduce partial values.

    There are none if the target has other partial axes: the partial values could move there.
    """
    target = problem.target
    has_other_partial_axes = any(pair not in state.partial for pair in target.partial)
    return () if has_other_partial_axes else tuple(pair[0] for pair in state.partial if pair not in target.partial)


@dataclass(eq=False)
class _Regions:
    """Groups of devices (regions) that fast links connect.

    Links along `axes` are slower and connect different regions.
    """

    grid: Grid
    axes: tuple[str, ...]
    bandwidth: float
    latency: float
    devices: int  # per region
    _common_rows: dict[tuple[Split, Split], Numbers]
    _tiles_of: dict[Split, _Tiles]
    _needed: Numbers | None = None

    @staticmethod
    def of(problem: Problem, bandwidth: float) -> _Regions:
        axes = tuple(axis for axis in problem.axes if problem.links[axis].bandwidth <= bandwidth)
        devices = problem.parts(problem.axes) // problem.parts(axes)
        latency = min(problem.links[axis].latency for axis in axes)
        return _Regions(grid_of(problem.mesh, problem.axes), axes, bandwidth, latency, devices, {}, {})

    def missing(self, needed: list[Split], held: list[Split]) -> int:
        """Return the largest number of elements that devices of one region need and none of them holds."""
        common_elements: Numbers = np.ones(1, np.int64)
        for target_split, held_split in zip(needed, held, strict=True):
            common_elements = common_elements * self._common(target_split, held_split)
        return int((self._total(needed) - common_elements).max())

    def _total(self, needed: list[Split]) -> Numbers:
        """Return the number of elements that the devices of each region need together. It is equal for all states of a
        problem.
        """
        if self._needed is None:
            self._needed = math.prod((self._common(want, want) for want in needed), start=np.ones(1, np.int64))
        return self._needed

    def _common(self, want: Split, have: Split) -> Numbers:
        """Return, for each region, the number of rows of a dim that the region both needs and holds.

        The cost is that of sorting the devices.
        """
        row_counts = self._common_rows.get((want, have))
        if row_counts is None:
            needed_tiles, held_tiles = self._tiles(want), self._tiles(have)
            rows = np.unique(np.concatenate([self.grid.tiles(split)[0] for split in (want, have)] + [[want.size]]))
            common_rows = held_tiles.below(needed_tiles.region, needed_tiles.stop, rows) - held_tiles.below(
                needed_tiles.region, needed_tiles.start, rows
            )
            # Every region has a device, and therefore a tile.
            first_tiles = np.flatnonzero(np.diff(needed_tiles.region, prepend=-1))
            row_counts = self._common_rows[want, have] = np.add.reduceat(common_rows, first_tiles)
        return row_counts

    def _tiles(self, split: Split) -> _Tiles:
        """Return the distinct tiles of a split in each region."""
        tiles = self._tiles_of.get(split)
        if tiles is None:
            starts, stops = self.grid.tiles(split)
            region_tiles = np.unique(self.grid.index(self.axes) * len(starts) + self.grid.index(split.axes))
            region, index = np.divmod(region_tiles, len(starts))
            tiles = self._tiles_of[split] = _Tiles(region, starts[index], stops[index])
        return tiles


class _Tiles:
    """Disjoint row ranges in regions, sorted by region and then by row."""

    def __init__(self, region: Numbers, start: Numbers, stop: Numbers) -> None:
        self.region, self.start, self.stop = region, start, stop
        self._before = np.concatenate([[0], np.cumsum(stop - start)])  # number of rows in all ranges before each range

    def below(self, region: Numbers, row: Numbers, rows: Numbers) -> Numbers:
        """Return, for each query (`region`, `row`), the number of rows in ranges before it.

        These are the rows before `row` in the ranges of the region, plus all rows of earlier regions. `rows` contains
        all starts of ranges and all query rows, sorted.
        """

        def key(region: Numbers, row: Numbers) -> Numbers:
            return region * len(rows) + np.searchsorted(rows, row)

        # number of ranges that begin before the query
        count = np.searchsorted(key(self.region, self.start), key(region, row))
        last = np.maximum(count - 1, 0)
        is_open = (count > 0) & (self.region[last] == region)
        return self._before[count] - np.where(is_open, np.maximum(self.stop[last] - row, 0), 0)
