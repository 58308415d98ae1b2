"""The elements that devices must send and receive to go from one sharding of a tensor to another.

Every device fetches the elements that it lacks under the target from the holders under the source; devices that hold the
same part share the load. One row of NumPy arrays per device of the sub-mesh whose axes split the value under
either sharding, so the cost does not depend on the rest of the mesh. Dims are independent of each other, and
results are cached per dim: a search needs the same dims repeatedly.
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
Rows = tuple[Numbers, Numbers]  # [start, stop) of every tile or on every device
_NO_HALO = (0, 0)


@dataclass(frozen=True)
class Exchange:
    """The maximum over devices of elements received and sent, and of the number of sources."""

    received: int
    sent: int
    peers: int

    @property
    def elements(self) -> int:
        return max(self.received, self.sent)


class Split(NamedTuple):
    """The split of one dim of a tensor."""

    size: int
    axes: tuple[str, ...]
    halo: Halo = _NO_HALO
    offsets: tuple[int, ...] = ()

    def core(self) -> Split:
        """The same without halo."""
        return Split(self.size, self.axes, _NO_HALO, self.offsets) if self.halo != _NO_HALO else self


def splits_of(sharding: Sharding, shape: Sequence[int]) -> list[Split]:
    """The split of each dim."""
    if not sharding.halo and not sharding.offsets:
        return [Split(size, axes) for size, axes in zip(shape, sharding.dims, strict=True)]
    halo = sharding.halo or (_NO_HALO,) * sharding.rank
    offsets = sharding.offsets or ((),) * sharding.rank
    return [Split(*dim) for dim in zip(shape, sharding.dims, halo, offsets, strict=True)]


def summand_axes(source: Sharding, target: Sharding, mesh: Mesh) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The partial axes of both ends between which a transfer moves the summands, one to one; those of both come first.

    None if it cannot: summands of several kinds stay in place, and their number must not change. Axes of one device
    have nothing to move.
    """
    if source.partial == target.partial:
        return source.partial_axes, target.partial_axes
    before, after = ([pair for pair in end.partial if mesh.axis_size(pair[0]) > 1] for end in (source, target))
    if before == after:
        axes = tuple(axis for axis, _ in before)
        return axes, axes
    of_both = {axis for axis, _ in before} & {axis for axis, _ in after}
    common = tuple(axis for axis, _ in before if axis in of_both)
    left, right = ((*common, *(axis for axis, _ in end if axis not in of_both)) for end in (before, after))
    one_kind = len({kind for _, kind in (*before, *after)}) == 1
    return (left, right) if one_kind and mesh.group_size(left) == mesh.group_size(right) else None


def with_summand_dim(
    source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh
) -> tuple[Sharding, Sharding, tuple[int, ...]]:
    """Both ends with the summands that move between axes as the rows of one more dim; as they are where none do."""
    if source.partial == target.partial or (ends := summand_axes(source, target, mesh)) is None:
        return source, target, shape
    found: list[Sharding] = []
    for end, axes, other in zip((source, target), ends, ends[::-1], strict=True):
        moved = tuple(axis for axis in axes if axis not in other)
        kept = tuple(pair for pair in end.partial if pair[0] not in moved)
        halo, offsets = end.halo and (*end.halo, _NO_HALO), end.offsets and (*end.offsets, ())
        found.append(Sharding((*end.dims, moved), kept, halo, offsets))
    return found[0], found[1], (*shape, mesh.group_size(found[0].dims[-1]))


@lru_cache(maxsize=4096)
def exchange(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> Exchange:
    """The exchange between two shardings of a tensor of global `shape`; summands stay summands (`summand_axes`)."""
    source, target, shape = with_summand_dim(source, target, shape, mesh)
    if source.without_partial() == target.without_partial() or 0 in shape:
        return Exchange(0, 0, 0)
    grid = grid_of(mesh, (*source.split_axes, *target.split_axes))
    held, wanted = splits_of(source, shape), splits_of(target, shape)
    kept = grid.overlap(wanted, held)
    received = grid.volume(wanted) - kept
    most = int(received.max())
    if not most:
        return Exchange(0, 0, 0)
    own = grid.overlap(wanted, [have.core() for have in held]) if source.halo else kept
    return Exchange(most, _sent(grid, held, wanted, source, own), _peers(grid, held, wanted, received))


def received_elements(grid: Grid, held: Sequence[Split], wanted: Sequence[Split]) -> int:
    """The most elements that one device lacks: `Exchange.received`, over a grid of all axes of both shardings."""
    return int((grid.volume(wanted) - grid.overlap(wanted, held)).max())


def grid_of(mesh: Mesh, refs: Sequence[str]) -> Grid:
    """The sub-mesh of the axes (or parts of axes) `refs`."""
    used = frozenset(split_ref(ref)[0] for ref in refs)
    is_small = mesh.group_size(used) <= _SMALL
    return (_small_grid if is_small else _large_grid)(mesh, used)


# Bounds of the cache: grids, tables per grid, numbers in all.
_KEPT, _KEPT_NUMBERS = 4096, 1 << 22
_SMALL, _SMALL_GRIDS, _LARGE_GRIDS = 1 << 14, 64, 4


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
    """The `count` devices of a sub-mesh, row-major, with the distance between neighbours along each of its (whole) axes."""

    mesh: Mesh
    strides: dict[str, int]
    count: int
    _tables: dict[Any, Any] = field(default_factory=dict)
    _numbers: int = 0

    def _keep(self, key: Any, table: Any) -> Any:
        size = sum(part.size for part in (table if isinstance(table, tuple) else (table,)))
        if len(self._tables) >= _KEPT or self._numbers + size > _KEPT_NUMBERS:
            self._tables.clear()
            self._numbers = 0
        self._tables[key] = table
        self._numbers += size
        return table

    @cached_property
    def _devices(self) -> Numbers:
        return np.arange(self.count, dtype=np.int64)

    def index(self, refs: tuple[str, ...]) -> Numbers:
        """Each device's number in its group over `refs`."""
        found = self._tables.get(refs)
        if found is None:
            found = np.zeros(self.count, np.int64)
            for stride, size in self._digits(refs):
                found = found * size + self._devices // stride % size
            self._keep(refs, found)
        return found

    def _digits(self, refs: tuple[str, ...]) -> list[list[int]]:
        """The mixed-radix digits of a device's number for `refs`: strides and sizes; adjacent digits are merged."""
        found: list[list[int]] = []
        for ref in refs:
            name, pre, size = split_ref(ref)
            whole = self.mesh.axis_size(name)
            part = size or whole
            stride = self.strides[name] * (whole // (pre * part))
            if found and found[-1][0] == stride * part:
                found[-1] = [stride, found[-1][1] * part]
            else:
                found.append([stride, part])
        return found

    def tiles(self, split: Split) -> Rows:
        """Rows of all tiles of a dim, without halo."""
        found = self._tables.get((split, "tiles"))
        if found is None:
            bounds = np.asarray(split.offsets, np.int64)
            if not split.offsets:
                count = self.mesh.group_size(split.axes)
                bounds = np.minimum(np.arange(count + 1, dtype=np.int64) * -(-split.size // count), split.size)
            found = self._keep((split, "tiles"), (bounds[:-1], bounds[1:]))
        return found

    def rows(self, split: Split) -> Rows:
        """Rows that each device holds, halo included."""
        found = self._tables.get(split)
        if found is None:
            starts, stops = self.tiles(split)
            index = self.index(split.axes)
            before, after = split.halo
            found = np.maximum(starts[index] - before, 0), np.minimum(stops[index] + after, split.size)
            self._keep(split, found)
        return found

    def common(self, wanted: Split, held: Split) -> Numbers:
        """Rows that each device both holds and needs."""
        found = self._tables.get((wanted, held))
        if found is None:
            (start, stop), (first, last) = self.rows(wanted), self.rows(held)
            found = np.maximum(np.minimum(stop, last) - np.maximum(start, first), 0)
            self._keep((wanted, held), found)
        return found

    def overlap(self, wanted: Sequence[Split], held: Sequence[Split]) -> Numbers:
        """Elements that each device both holds and needs."""
        total: Numbers = _ONE
        for dim in zip(wanted, held, strict=True):
            total = total * self.common(*dim)
        return total

    def volume(self, splits: Sequence[Split]) -> Numbers:
        """How many elements each device holds."""
        found = self._tables.get(key := (tuple(splits), "volume"))
        return self._keep(key, self.overlap(splits, splits)) if found is None else found

    def sources(self, wanted: Split, held: Split) -> Numbers:
        """How many tiles of a dim each device takes its rows from."""
        found = self._tables.get((wanted, held, "sources"))
        if found is None:
            starts, _ = self.tiles(held)
            start, stop = self.rows(wanted)
            first, last = np.searchsorted(starts, start, side="right") - 1, np.searchsorted(starts, stop, side="left")
            found = self._keep((wanted, held, "sources"), np.maximum(last - first, 1))
        return found

    def coverage(self, wanted: Split, held: Split) -> Numbers:
        """Per source tile of a dim: its overlap with each target tile, in rows, summed over target tiles."""
        starts, stops = self.tiles(held)
        if wanted.halo == _NO_HALO:
            return stops - starts
        first, last = self.tiles(wanted)
        first, last = np.maximum(first - wanted.halo[0], 0), np.minimum(last + wanted.halo[1], wanted.size)
        return (
            below_bounds(stops, first)
            - below_bounds(starts, first)
            - below_bounds(stops, last)
            + below_bounds(starts, last)
        )

    def demand(self, wanted: Sequence[Split], held: Sequence[Split]) -> Numbers:
        """Per source tile: its elements, times the number of target tiles that contain them."""
        halo = tuple(
            split if split.halo != _NO_HALO else None for split in wanted
        )  # without a split only the size matters
        key = (halo, tuple(held))
        found = self._tables.get(key)
        if found is None:
            found = _ONE
            for want, have in zip(wanted, held, strict=True):
                found = np.multiply.outer(found, self.coverage(want, have)).reshape(-1)
            self._keep(key, found)
        return found


_ONE: Numbers = np.ones(1, np.int64)


def _sent(grid: Grid, held: Sequence[Split], wanted: Sequence[Split], source: Sharding, own: Numbers) -> int:
    """The most that a holder sends when the holders of a tile share the requests of the others.

    Args:
        own: per device the elements that it needs of its own tile.
    """
    mesh = grid.mesh
    # Partial axes of which another part splits: their coordinates vary within the grid.
    groups = tuple(ref for ref in source.partial_axes if split_ref(ref)[0] in grid.strides)
    demand = grid.demand(wanted, held)
    summands = mesh.group_size(groups)
    copies = grid.count // (math.prod(mesh.group_size(want.axes) for want in wanted) * summands)
    holders = grid.count // (len(demand) * summands)
    tile = grid.index((*source.split_axes, *groups))
    local = np.bincount(tile, weights=own, minlength=len(demand) * summands)
    missed = (demand if summands == 1 else np.repeat(demand, summands)) * copies - local
    return math.ceil(float(missed.max()) / holders)


def below_bounds(points: Numbers, bounds: Numbers) -> Numbers:
    """Per point p the sum of max(0, p - b) over the bounds."""
    order = np.sort(bounds)
    sums = np.concatenate([[0], np.cumsum(order)])
    number = np.searchsorted(order, points, side="left")
    return number * points - sums[number]


def _peers(grid: Grid, held: Sequence[Split], wanted: Sequence[Split], received: Numbers) -> int:
    """The most source tiles that a device which receives something takes from."""
    count: Numbers = np.ones(grid.count, np.int64)
    for want, have in zip(wanted, held, strict=True):
        count = count * grid.sources(want, have)
    return int(count[received > 0].max(initial=0))
