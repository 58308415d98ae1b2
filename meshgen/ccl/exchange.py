"""What devices must send and receive to go from one sharding of a tensor to another.

Every device fetches what it misses under the target from the holders under the source; devices that hold the
same part share the load. One row of NumPy arrays per device of the sub-mesh whose axes split the value under
either sharding, so the cost does not depend on the rest of the mesh.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meshgen.mesh import Mesh, split_ref
from meshgen.spec import Sharding

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Exchange:
    """The most that one device receives and sends, in elements, and from how many others it receives."""

    received: int
    sent: int
    peers: int

    @property
    def elements(self) -> int:
        return max(self.received, self.sent)


@lru_cache(maxsize=4096)
def exchange(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> Exchange:
    """The exchange between two shardings of a tensor of global `shape`; partial axes stay as they are."""
    if source.without_partial() == target.without_partial() or 0 in shape:
        return Exchange(0, 0, 0)
    grid = _Grid.of(mesh, [*source.split_axes, *target.split_axes])
    wanted, held, owned = grid.box(target, shape), grid.box(source, shape), grid.box(replace(source, halo=()), shape)
    kept = _volume(_common(wanted, held), grid.count)
    received = _volume(wanted, grid.count) - kept
    groups = grid.shards_of_partial(source)
    sent = _sent(grid, source, target, shape, _volume(_common(wanted, owned), grid.count), groups)
    return Exchange(int(received.max()), sent, _peers(grid, source, shape, wanted, received))


class Receivers:
    """What the device that misses most misses of one target, for many sources without halo or offsets."""

    def __init__(self, target: Sharding, shape: tuple[int, ...], mesh: Mesh, axes: Sequence[str]) -> None:
        """Args: axes: all that may split the sources."""
        self._grid = _Grid.of(mesh, [*axes, *target.split_axes])
        self._shape = shape
        self._wanted = self._grid.box(target, shape)
        self._sizes = _volume(self._wanted, self._grid.count)
        self._rows: dict[tuple[int, tuple[str, ...]], Numbers] = {}

    def missing(self, source: Sharding) -> int:
        """Elements."""
        kept: Numbers = np.ones(1, np.int64)
        for dim, axes in enumerate(source.dims):
            kept = kept * self._common(dim, axes)
        return int((self._sizes - kept).max())

    def _common(self, dim: int, axes: tuple[str, ...]) -> Numbers:
        """Rows of a dim that a device holds of those that it wants, if these axes split the dim."""
        if (dim, axes) not in self._rows:
            size = self._shape[dim]
            index = self._grid.index(axes)
            tile = -(-size // self._grid.mesh.group_size(axes))
            start, stop = self._wanted[dim]
            held = np.minimum((index + 1) * tile, stop) - np.maximum(index * tile, start)
            self._rows[dim, axes] = np.maximum(held, 0)
        return self._rows[dim, axes]


@dataclass(frozen=True)
class _Grid:
    """The devices of a sub-mesh, and their coordinates along its (whole) axes as flat arrays."""

    mesh: Mesh
    coordinates: dict[str, Numbers]
    count: int

    @staticmethod
    def of(mesh: Mesh, refs: Sequence[str]) -> _Grid:
        used = {split_ref(ref)[0] for ref in refs}
        names = [name for name in mesh.names if name in used]
        sizes = [mesh.axis_size(name) for name in names]
        count = math.prod(sizes)
        flat = np.unravel_index(np.arange(count), sizes) if sizes else ()
        return _Grid(mesh, {n: np.asarray(c, np.int64) for n, c in zip(names, flat, strict=True)}, count)

    def index(self, refs: Sequence[str]) -> Numbers:
        """Each device's number in its group over `refs`."""
        number: Numbers = np.zeros(self.count, np.int64)
        for ref in refs:
            name, pre, size = split_ref(ref)
            whole, coordinate = self.mesh.axis_size(name), self.coordinates[name]
            part = size or whole
            number = number * part + coordinate // (whole // (pre * part)) % part
        return number

    def box(self, sharding: Sharding, shape: Sequence[int]) -> list[tuple[Numbers, Numbers]]:
        """Start and stop of every dim on every device, halo included."""
        halo = sharding.halo or ((0, 0),) * len(shape)
        found: list[tuple[Numbers, Numbers]] = []
        for dim, size in enumerate(shape):
            starts, stops = _tiles(sharding, dim, size, self.mesh)
            index = self.index(sharding.dims[dim])
            before, after = halo[dim]
            found.append((np.maximum(starts[index] - before, 0), np.minimum(stops[index] + after, size)))
        return found

    def shards_of_partial(self, sharding: Sharding) -> list[str]:
        """Partial axes whose coordinates vary within the grid (parts of an axis of which another part splits)."""
        return [ref for ref in sharding.partial_axes if split_ref(ref)[0] in self.coordinates]


def _tiles(sharding: Sharding, dim: int, size: int, mesh: Mesh) -> tuple[Numbers, Numbers]:
    """Starts and stops of all tiles of a dim, without halo."""
    if sharding.offsets and sharding.offsets[dim]:
        bounds = np.asarray(sharding.offsets[dim], np.int64)
        return bounds[:-1], bounds[1:]
    first = np.arange(sharding.parts(dim, mesh), dtype=np.int64) * sharding.tile(dim, size, mesh)
    return np.minimum(first, size), np.minimum(first + sharding.tile(dim, size, mesh), size)


def _common(left: list[tuple[Numbers, Numbers]], right: list[tuple[Numbers, Numbers]]) -> list[tuple[Numbers, Numbers]]:
    return [(np.maximum(a, c), np.minimum(b, d)) for (a, b), (c, d) in zip(left, right, strict=True)]


def _volume(box: list[tuple[Numbers, Numbers]], count: int) -> Numbers:
    total: Numbers = np.ones(count, np.int64)
    for start, stop in box:
        total = total * np.maximum(stop - start, 0)
    return total


def _sent(
    grid: _Grid, source: Sharding, target: Sharding, shape: Sequence[int], own: Numbers, groups: list[str]
) -> int:
    """The most that a holder sends when the holders of a tile share what the others miss of it."""
    mesh = grid.mesh
    demand: Any = np.ones(1, np.int64)  # per source tile: its elements, times how often the target holds them
    for dim, size in enumerate(shape):
        demand = np.multiply.outer(demand, _coverage(source, target, dim, size, mesh)).reshape(-1)
    summands = mesh.group_size(groups)
    copies = grid.count // (math.prod(target.parts(d, mesh) for d in range(len(shape))) * summands)
    holders = grid.count // (len(demand) * summands)
    tile = grid.index([*source.split_axes, *groups])
    local = np.bincount(tile, weights=own.astype(np.float64), minlength=len(demand) * summands)
    missed = np.repeat(demand * copies, summands) - local
    return math.ceil(float(missed.max()) / holders)


def _coverage(source: Sharding, target: Sharding, dim: int, size: int, mesh: Mesh) -> Numbers:
    """Per source tile of a dim: the rows that target tiles have in common with it, summed over target tiles."""
    starts, stops = _tiles(source, dim, size, mesh)
    before, after = target.halo[dim] if target.halo else (0, 0)
    if not before and not after:
        return stops - starts
    first, last = _tiles(target, dim, size, mesh)
    first, last = np.maximum(first - before, 0), np.minimum(last + after, size)
    return _below(stops, first) - _below(starts, first) - _below(stops, last) + _below(starts, last)


def _below(points: Numbers, bounds: Numbers) -> Numbers:
    """Per point p the sum of max(0, p - b) over the bounds."""
    order = np.sort(bounds)
    sums = np.concatenate([[0], np.cumsum(order)])
    number = np.searchsorted(order, points, side="left")
    return number * points - sums[number]


def _peers(
    grid: _Grid, source: Sharding, shape: Sequence[int], wanted: list[tuple[Numbers, Numbers]], received: Numbers
) -> int:
    """The most source tiles that a device which receives something takes from."""
    count: Numbers = np.ones(grid.count, np.int64)
    for dim, (start, stop) in enumerate(wanted):
        starts, _ = _tiles(source, dim, shape[dim], grid.mesh)
        first, last = np.searchsorted(starts, start, side="right") - 1, np.searchsorted(starts, stop, side="left")
        count = count * np.maximum(last - first, 1)
    return int(count[received > 0].max(initial=0))
