"""The messages for a change of sharding: sender, receiver and region of the tensor.

A device sends nothing to itself. The devices that hold the same tile share the requests for its elements. As many
requests as divide evenly among the holders are assigned unsplit, each to the nearest free holder. Each other request is
split evenly among all holders. So no device sends more than `exchange` predicts, up to the rounding of these splits.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from meshgen.ccl.exchange import with_summand_dim
from meshgen.mesh import Mesh
from meshgen.spec import Sharding

Box = tuple[tuple[int, int], ...]
Distance = Callable[[int, int], int]  # (holder, receiver) -> number of mesh axes along which they differ


@dataclass(frozen=True, order=True)
class Message:
    """A region of the global tensor, as [start, stop) per dim, that one rank sends to another."""

    sender: int
    receiver: int
    box: Box

    @property
    def elements(self) -> int:
        return volume(self.box)


@lru_cache(maxsize=256)
def routes(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> tuple[Message, ...]:
    """Return the messages that bring to every rank the elements that it needs under `target` but does not hold.

    If the tensor is partial, each rank gets elements of its own partial summand only.
    """
    dims = len(shape)
    source, target, shape = with_summand_dim(source, target, shape, mesh)
    requests: dict[tuple[int, ...], list[tuple[int, Box]]] = {}
    holders: dict[tuple[int, ...], list[int]] = {}
    for rank in range(mesh.size):
        holders.setdefault(tile_of(source, mesh, rank), []).append(rank)
    tiles = Tiles(source, shape, mesh)
    for rank in range(mesh.size):
        held, own_tile = source.ranges(shape, mesh, rank), tile_of(source, mesh, rank)
        for tile, box in tiles.meeting(target.ranges(shape, mesh, rank), own_tile[-1]):
            if tile != own_tile:
                for part in _difference(box, held):
                    requests.setdefault(tile, []).append((rank, part))

    def distance(left: int, right: int) -> int:
        return sum(a != b for a, b in zip(mesh.coordinates(left), mesh.coordinates(right), strict=True))

    messages = [m for tile, tile_requests in requests.items() for m in dealt(tile_requests, holders[tile], distance)]
    return tuple(sorted(replace(message, box=message.box[:dims]) for message in messages))


def tile_of(source: Sharding, mesh: Mesh, rank: int) -> tuple[int, ...]:
    """Return the index along each dim of the tile that a rank holds, followed by the index of its partial summand."""
    return tuple(mesh.index(rank, axes) for axes in (*source.dims, source.partial_axes))


class Tiles(NamedTuple):
    """The tiles of a tensor of `shape` under the sharding `source`, without halo."""

    source: Sharding
    shape: tuple[int, ...]
    mesh: Mesh

    def meeting(self, box: Box, summand: int) -> Iterator[tuple[tuple[int, ...], Box]]:
        """Yield (tile index per dim followed by `summand`, overlap with `box`) of each tile that overlaps `box`."""
        rows = [self._tile_rows(dim, *ends) for dim, ends in enumerate(box)]
        for tile in itertools.product(*rows):
            yield (*(index for index, _ in tile), summand), tuple(common for _, common in tile)

    def _tile_rows(self, dim: int, start: int, stop: int) -> list[tuple[int, tuple[int, int]]]:
        source, size = replace(self.source, halo=()), self.shape[dim]
        if source.offsets and source.offsets[dim]:
            bounds = list(source.offsets[dim])
        else:
            tile = source.tile(dim, size, self.mesh)
            bounds = [min(i * tile, size) for i in range(source.parts(dim, self.mesh) + 1)]
        pairs = enumerate(itertools.pairwise(bounds))
        return [(i, (max(a, start), min(b, stop))) for i, (a, b) in pairs if max(a, start) < min(b, stop)]


def _difference(box: Box, held: Box) -> Iterator[Box]:
    """Yield disjoint regions that cover the elements of `box` outside of `held`.

    For each dim in turn, split off the part of `box` before `held` and the part after it.
    """
    if any(max(a, c) >= min(b, d) for (a, b), (c, d) in zip(box, held, strict=True)):
        yield box
        return
    left = list(box)
    for dim, ((start, stop), (first, last)) in enumerate(zip(box, held, strict=True)):
        for part in ((start, max(start, first)), (min(stop, last), stop)):
            if part[0] < part[1]:
                yield (*left[:dim], part, *left[dim + 1 :])
        left[dim] = max(start, first), min(stop, last)


def dealt(requests: list[tuple[int, Box]], holders: list[int], distance: Distance) -> Iterator[Message]:
    """Assign the requests for one tile to its holders. None sends more than an equal share plus one request.

    The largest requests are assigned first, one per holder and round, each to the nearest free holder. Requests of an
    incomplete last round are split into equal regions, each for the holder with the least load.

    Args:
        requests: (receiver, region) of each request. distance: number of mesh axes along which two devices differ.
    """
    ordered = sorted(requests, key=lambda request: (-volume(request[1]), request))
    assigned = len(ordered) // len(holders) * len(holders)
    load = dict.fromkeys(holders, 0)
    for start in range(0, assigned, len(holders)):
        free = list(holders)
        for receiver, box in ordered[start : start + len(holders)]:
            sender = min(free, key=lambda candidate: (distance(candidate, receiver), candidate))
            free.remove(sender)
            load[sender] += volume(box)
            yield Message(sender, receiver, box)
    waiting = [(load[holder], position, holder) for position, holder in enumerate(holders)]
    heapq.heapify(waiting)
    for receiver, box in ordered[assigned:]:
        for region in filter(volume, cut_box(box, len(holders))):
            sent, position, sender = waiting[0]
            heapq.heapreplace(waiting, (sent + volume(region), position, sender))
            yield Message(sender, receiver, region)


def cut_box(box: Box, count: int) -> list[Box]:
    """Split a region into `count` regions along its longest dim. Some may be empty."""
    if not box:
        return [box, *[((0, 0),)] * (count - 1)]
    dim = max(range(len(box)), key=lambda d: box[d][1] - box[d][0])
    start, stop = box[dim]
    ends = [start + (stop - start) * i // count for i in range(count + 1)]
    return [(*box[:dim], pair, *box[dim + 1 :]) for pair in itertools.pairwise(ends)]


def volume(box: Box) -> int:
    return math.prod(stop - start for start, stop in box)


def kept(source: Sharding, target: Sharding, shape: Sequence[int], mesh: Mesh, rank: int) -> Box:
    """Return the part of a rank's target tile that the rank already holds under `source`, or an empty region.

    If the tensor is partial, only the rank's own partial summand counts.
    """
    dims = len(shape)
    source, target, shape = with_summand_dim(source, target, tuple(shape), mesh)
    pairs = zip(source.ranges(shape, mesh, rank), target.ranges(shape, mesh, rank), strict=True)
    common = [(max(a, c), max(a, c, min(b, d))) for (a, b), (c, d) in pairs]
    return tuple(common[:dims]) if volume(tuple(common)) else ((0, 0),) * dims


def place_of(box: Box, sharding: Sharding, shape: Sequence[int], mesh: Mesh, rank: int) -> tuple[slice, ...]:
    """Return the slices of a rank's buffer that hold region `box` of the tensor.

    The buffer starts with the halo before the rank's tile.
    """
    slices: list[slice] = []
    for dim, (start, stop) in enumerate(box):
        before = sharding.halo[dim][0] if sharding.halo else 0
        origin = sharding.core(dim, shape[dim], mesh, rank)[0] - before
        slices.append(slice(start - origin, stop - origin))
    return tuple(slices)
