"""The numbers of elements that devices must send and receive to change the sharding of a tensor.

Under the target sharding, a device needs elements that it may not hold under the source sharding. It fetches the
missing ones from devices that hold them. Devices that hold the same elements share these requests equally.

Only mesh axes that split the tensor under either sharding matter. NumPy arrays therefore have one entry per device of
the sub-mesh of these axes. Tensor dims are independent of each other, and results are cached per dim, because a search
queries the same dims repeatedly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meshgen.mesh import Mesh, split_ref
from meshgen.spec import Halo, Sharding

Numbers = NDArray[np.int64]
Rows = tuple[Numbers, Numbers]  # (starts, stops) of the rows of every tile, or of the rows on every device
_NO_HALO = (0, 0)


@dataclass(frozen=True)
class Exchange:
    """The work of the busiest device: elements received, elements sent, and source tiles to fetch from."""

    received: int
    sent: int
    peers: int

    @property
    def elements(self) -> int:
        return max(self.received, self.sent)


class Split(NamedTuple):
    """The sharding of one dim of a tensor: size, mesh axes, and optionally a halo and uneven tile offsets."""

    size: int
    axes: tuple[str, ...]
    halo: Halo = _NO_HALO
    offsets: tuple[int, ...] = ()

    def core(self) -> Split:
        """Return this split without its halo."""
        return Split(self.size, self.axes, _NO_HALO, self.offsets) if self.halo != _NO_HALO else self


def splits_of(sharding: Sharding, shape: Sequence[int]) -> list[Split]:
    """Return one `Split` per dim of a tensor of `shape`."""
    if not sharding.halo and not sharding.offsets:
        return [Split(size, axes) for size, axes in zip(shape, sharding.dims, strict=True)]
    halo = sharding.halo or (_NO_HALO,) * sharding.rank
    offsets = sharding.offsets or ((),) * sharding.rank
    return [Split(*dim) for dim in zip(shape, sharding.dims, halo, offsets, strict=True)]


def summand_axes(source: Sharding, target: Sharding, mesh: Mesh) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the partial axes of source and target between which a transfer moves partial summands one to one.

    Axes that are partial on both sides come first. Axes of size 1 are left out, since nothing moves along them. Returns
    None if the transfer is impossible. It is possible only if source and target have equally many summands and, where
    axes differ, the same reduction.
    """
    if source.partial == target.partial:
        return source.partial_axes, target.partial_axes
    before, after = ([pair for pair in end.partial if mesh.axis_size(pair[0]) > 1] for end in (source, target))
    if before == after:
        axes = tuple(axis for axis, _ in before)
        return axes, axes
    shared = {axis for axis, _ in before} & {axis for axis, _ in after}
    common = tuple(axis for axis, _ in before if axis in shared)
    left, right = ((*common, *(axis for axis, _ in end if axis not in shared)) for end in (before, after))
    one_kind = len({kind for _, kind in (*before, *after)}) == 1
    return (left, right) if one_kind and mesh.group_size(left) == mesh.group_size(right) else None


def with_summand_dim(
    source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh
) -> tuple[Sharding, Sharding, tuple[int, ...]]:
    """Return the arguments with a new last dim, whose rows are the partial summands that move to other axes.

    The moving partial axes become axes that split the new dim. Returns the arguments unchanged if no summand moves.
    """
    if source.partial == target.partial or (partial_axes := summand_axes(source, target, mesh)) is None:
        return source, target, shape
    shardings: list[Sharding] = []
    for end, axes, other_axes in zip((source, target), partial_axes, partial_axes[::-1], strict=True):
        moved = tuple(axis for axis in axes if axis not in other_axes)
        unmoved = tuple(pair for pair in end.partial if pair[0] not in moved)
        halo, offsets = end.halo and (*end.halo, _NO_HALO), end.offsets and (*end.offsets, ())
        shardings.append(Sharding((*end.dims, moved), unmoved, halo, offsets))
    return shardings[0], shardings[1], (*shape, mesh.group_size(shardings[0].dims[-1]))


@lru_cache(maxsize=4096)
def exchange(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> Exchange:
    """Return the work of the busiest device for a change of sharding of a tensor of global `shape`.

    Partial values stay partial.
    """
    source, target, shape = with_summand_dim(source, target, shape, mesh)
    if source.without_partial() == target.without_partial() or 0 in shape:
        return Exchange(0, 0, 0)
    grid = grid_of(mesh, (*source.split_axes, *target.split_axes))
    source_splits, target_splits = splits_of(source, shape), splits_of(target, shape)
    kept = grid.overlap(target_splits, source_splits)
    received = grid.volume(target_splits) - kept
    most_received = int(received.max())
    if not most_received:
        return Exchange(0, 0, 0)
    tile_overlap = grid.overlap(target_splits, [split.core() for split in source_splits]) if source.halo else kept
    return Exchange(
        most_received,
        _sent(grid, source_splits, target_splits, source, tile_overlap),
        _peers(grid, source_splits, target_splits, received),
    )


def received_elements(grid: Grid, source_splits: Sequence[Split], target_splits: Sequence[Split]) -> int:
    """Return the number of elements that the busiest device receives.

    `grid` must contain all axes of both shardings. The result equals `Exchange.received`.
    """
    return int((grid.volume(target_splits) - grid.overlap(target_splits, source_splits)).max())


def grid_of(mesh: Mesh, refs: Sequence[str]) -> Grid:
    """Return the sub-mesh of `mesh` with the axes in `refs`. A sub-axis adds the entire axis that contains it."""
    used = frozenset(split_ref(ref)[0] for ref in refs)
    is_small = mesh.group_size(used) <= _MAX_SMALL_GRID
    return (_small_grid if is_small else _large_grid)(mesh, used)


# Limits that bound the memory of the caches to 32 MiB per grid (chosen): tables per grid, and array elements in all
# tables of a grid. Below: devices of the largest small grid, and how many small and large grids are cached.
_MAX_TABLES, _MAX_NUMBERS = 4096, 1 << 22
_MAX_SMALL_GRID, _SMALL_GRIDS, _LARGE_GRIDS = 1 << 14, 64, 4


def _grid(mesh: Mesh, used: frozenset[str]) -> Grid:
    strides: dict[str, int] = {}
    count = 1
    for name in reversed(mesh.names):
        if name in used:
            strides[name] = count
            count *= mesh.axis_size(name)
    return Grid(mesh, strides, count)


_small_grid, _large_grid = lru_cache(_SMALL_GRIDS)(_grid), lru_cache(_LARGE_GRIDS)(_grid)


@dataclass(eq=False)
class Grid:
    """The `count` devices of a sub-mesh in row-major order, with cached arrays of the rows and elements on each device.

    Attributes:
        strides: axis name -> difference in index between neighbors along the axis.
    """

    mesh: Mesh
    strides: dict[str, int]
    count: int
    _tables: dict[Any, Any] = field(default_factory=dict)
    _numbers: int = 0

    def _keep(self, key: Any, table: Any) -> Any:
        size = sum(part.size for part in (table if isinstance(table, tuple) else (table,)))
        if len(self._tables) >= _MAX_TABLES or self._numbers + size > _MAX_NUMBERS:
            self._tables.clear()
            self._numbers = 0
        self._tables[key] = table
        self._numbers += size
        return table

    @cached_property
    def _devices(self) -> Numbers:
        return np.arange(self.count, dtype=np.int64)

    def index(self, refs: tuple[str, ...]) -> Numbers:
        """Return, for each device, the index in its group over `refs`."""
        index = self._tables.get(refs)
        if index is None:
            index = np.zeros(self.count, np.int64)
            for stride, size in self._digits(refs):
                index = index * size + self._devices // stride % size
            self._keep(refs, index)
        return index

    def _digits(self, refs: tuple[str, ...]) -> list[list[int]]:
        """Return [stride, size] of each mixed-radix digit of a device's index that belongs to one of `refs`.

        Adjacent digits are merged.
        """
        digits: list[list[int]] = []
        for ref in refs:
            name, pre, size = split_ref(ref)
            axis_size = self.mesh.axis_size(name)
            digit_size = size or axis_size
            stride = self.strides[name] * (axis_size // (pre * digit_size))
            if digits and digits[-1][0] == stride * digit_size:
                digits[-1] = [stride, digits[-1][1] * digit_size]
            else:
                digits.append([stride, digit_size])
        return digits

    def tiles(self, split: Split) -> Rows:
        """Return the (starts, stops) of all tiles of a dim, without halo."""
        tiles = self._tables.get((split, "tiles"))
        if tiles is None:
            bounds = np.asarray(split.offsets, np.int64)
            if not split.offsets:
                count = self.mesh.group_size(split.axes)
                bounds = np.minimum(np.arange(count + 1, dtype=np.int64) * -(-split.size // count), split.size)
            tiles = self._keep((split, "tiles"), (bounds[:-1], bounds[1:]))
        return tiles

    def rows(self, split: Split) -> Rows:
        """Return the (starts, stops) of the rows on each device, including its halo."""
        rows = self._tables.get(split)
        if rows is None:
            starts, stops = self.tiles(split)
            index = self.index(split.axes)
            before, after = split.halo
            rows = np.maximum(starts[index] - before, 0), np.minimum(stops[index] + after, split.size)
            self._keep(split, rows)
        return rows

    def common(self, target: Split, source: Split) -> Numbers:
        """Return, for each device, the number of rows that are both in its source range and in its target range."""
        counts = self._tables.get((target, source))
        if counts is None:
            (start, stop), (first, last) = self.rows(target), self.rows(source)
            counts = np.maximum(np.minimum(stop, last) - np.maximum(start, first), 0)
            self._keep((target, source), counts)
        return counts

    def overlap(self, target_splits: Sequence[Split], source_splits: Sequence[Split]) -> Numbers:
        """Return, for each device, the number of elements that are both in its source tile and in its target tile."""
        total: Numbers = _ONE
        for dim in zip(target_splits, source_splits, strict=True):
            total = total * self.common(*dim)
        return total

    def volume(self, splits: Sequence[Split]) -> Numbers:
        """Return, for each device, the number of elements of its tile, including the halo."""
        volumes = self._tables.get(key := (tuple(splits), "volume"))
        return self._keep(key, self.overlap(splits, splits)) if volumes is None else volumes

    def sources(self, target: Split, source: Split) -> Numbers:
        """Return, for each device, the number of source tiles that overlap the rows that it needs under `target`."""
        counts = self._tables.get((target, source, "sources"))
        if counts is None:
            starts, _ = self.tiles(source)
            start, stop = self.rows(target)
            first, last = np.searchsorted(starts, start, side="right") - 1, np.searchsorted(starts, stop, side="left")
            counts = self._keep((target, source, "sources"), np.maximum(last - first, 1))
        return counts

    def coverage(self, target: Split, source: Split) -> Numbers:
        """Return, for each source tile of a dim, the sum of its overlaps with all target tiles, in rows. Halos count."""
        starts, stops = self.tiles(source)
        if target.halo == _NO_HALO:
            return stops - starts
        first, last = self.tiles(target)
        first, last = np.maximum(first - target.halo[0], 0), np.minimum(last + target.halo[1], target.size)
        return (
            below_bounds(stops, first)
            - below_bounds(starts, first)
            - below_bounds(stops, last)
            + below_bounds(starts, last)
        )

    def demand(self, target_splits: Sequence[Split], source_splits: Sequence[Split]) -> Numbers:
        """Return, for each source tile, the sum of its overlaps with all target tiles, in elements. Halos count."""
        halo = tuple(
            split if split.halo != _NO_HALO else None for split in target_splits
        )  # Without a halo, only the size of the dim matters for the key.
        key = (halo, tuple(source_splits))
        demand = self._tables.get(key)
        if demand is None:
            demand = _ONE
            for target, source in zip(target_splits, source_splits, strict=True):
                demand = np.multiply.outer(demand, self.coverage(target, source)).reshape(-1)
            self._keep(key, demand)
        return demand


_ONE: Numbers = np.ones(1, np.int64)


def _sent(
    grid: Grid, source_splits: Sequence[Split], target_splits: Sequence[Split], source: Sharding, tile_overlap: Numbers
) -> int:
    """Return the number of elements that the busiest device sends, if the holders of a tile share the requests for it.

    Args:
        tile_overlap: for each device, the number of elements of its source tile that it needs under the target.
    """
    mesh = grid.mesh
    # Partial axes that share a mesh axis with a split have different coordinates within the grid.
    groups = tuple(ref for ref in source.partial_axes if split_ref(ref)[0] in grid.strides)
    demand = grid.demand(target_splits, source_splits)
    summands = mesh.group_size(groups)
    copies = grid.count // (math.prod(mesh.group_size(split.axes) for split in target_splits) * summands)
    holders = grid.count // (len(demand) * summands)
    tile = grid.index((*source.split_axes, *groups))
    local = np.bincount(tile, weights=tile_overlap, minlength=len(demand) * summands)
    requested = (demand if summands == 1 else np.repeat(demand, summands)) * copies - local
    return math.ceil(float(requested.max()) / holders)


def below_bounds(points: Numbers, bounds: Numbers) -> Numbers:
    """Return, for each point p, the sum of max(0, p - b) over all bounds b."""
    order = np.sort(bounds)
    sums = np.concatenate([[0], np.cumsum(order)])
    number = np.searchsorted(order, points, side="left")
    return number * points - sums[number]


def _peers(grid: Grid, source_splits: Sequence[Split], target_splits: Sequence[Split], received: Numbers) -> int:
    """Return the largest number of source tiles from which a single device receives."""
    count: Numbers = np.ones(grid.count, np.int64)
    for target, source in zip(target_splits, source_splits, strict=True):
        count = count * grid.sources(target, source)
    return int(count[received > 0].max(initial=0))
