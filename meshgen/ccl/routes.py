"""The messages of a transfer between two shardings: source, target and part of the tensor.

A device sends nothing to itself. Devices that hold the same tile share the requests for it: whole requests as
far as they divide evenly, to the nearest holder first; the rest is split into a piece for each holder. So no device
sends more than `exchange` predicts, up to the rounding of these cuts.
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
Distance = Callable[[int, int], int]  # from a holder to a receiver


@dataclass(frozen=True, order=True)
class Message:
    """A part of the global tensor, as rows [start, stop) of each dim, that one rank sends to another."""

    sender: int
    receiver: int
    box: Box

    @property
    def elements(self) -> int:
        return volume(self.box)


@lru_cache(maxsize=256)
def routes(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> tuple[Message, ...]:
    """The messages that bring every rank the elements that it lacks under the target, of its own summand."""
    dims = len(shape)
    source, target, shape = with_summand_dim(source, target, shape, mesh)
    requests: dict[tuple[int, ...], list[tuple[int, Box]]] = {}
    holders: dict[tuple[int, ...], list[int]] = {}
    for rank in range(mesh.size):
        holders.setdefault(tile_of(source, mesh, rank), []).append(rank)
    tiles = Tiles(source, shape, mesh)
    for rank in range(mesh.size):
        held, own = source.ranges(shape, mesh, rank), tile_of(source, mesh, rank)
        for tile, box in tiles.meeting(target.ranges(shape, mesh, rank), own[-1]):
            if tile != own:
                for part in _difference(box, held):
                    requests.setdefault(tile, []).append((rank, part))

    def distance(left: int, right: int) -> int:
        return sum(a != b for a, b in zip(mesh.coordinates(left), mesh.coordinates(right), strict=True))

    found = [m for tile, asked in requests.items() for m in dealt(asked, holders[tile], distance)]
    return tuple(sorted(replace(message, box=message.box[:dims]) for message in found))


def tile_of(source: Sharding, mesh: Mesh, rank: int) -> tuple[int, ...]:
    """Numbers of the rank's tile in every dim, and of its summand."""
    return tuple(mesh.index(rank, axes) for axes in (*source.dims, source.partial_axes))


class Tiles(NamedTuple):
    """The tiles of the source, without halo."""

    source: Sharding
    shape: tuple[int, ...]
    mesh: Mesh

    def meeting(self, box: Box, summand: int) -> Iterator[tuple[tuple[int, ...], Box]]:
        """Tiles that overlap a box, with the overlap."""
        rows = [self._tile_rows(dim, *ends) for dim, ends in enumerate(box)]
        for picked in itertools.product(*rows):
            yield (*(number for number, _ in picked), summand), tuple(common for _, common in picked)

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
    """Parts of a box outside of another one: along each dim the parts before and after."""
    if any(max(a, c) >= min(b, d) for (a, b), (c, d) in zip(box, held, strict=True)):
        yield box
        return
    left = list(box)
    for dim, ((start, stop), (first, last)) in enumerate(zip(box, held, strict=True)):
        for part in ((start, max(start, first)), (min(stop, last), stop)):
            if part[0] < part[1]:
                yield (*left[:dim], part, *left[dim + 1 :])
        left[dim] = max(start, first), min(stop, last)


def dealt(asked: list[tuple[int, Box]], holders: list[int], distance: Distance) -> Iterator[Message]:
    """Requests for one tile assigned to its holders in rounds, the largest first, each to the nearest free one; the rest,
    which would occupy some of them only, is split into equal pieces, each for the least loaded.

    So no holder sends more than its share of all plus one request.
    """
    ordered = sorted(asked, key=lambda request: (-volume(request[1]), request))
    whole = len(ordered) // len(holders) * len(holders)
    load = dict.fromkeys(holders, 0)
    for start in range(0, whole, len(holders)):
        free = list(holders)
        for receiver, box in ordered[start : start + len(holders)]:
            sender = min(free, key=lambda other: (distance(other, receiver), other))
            free.remove(sender)
            load[sender] += volume(box)
            yield Message(sender, receiver, box)
    waiting = [(load[holder], place, holder) for place, holder in enumerate(holders)]
    heapq.heapify(waiting)
    for receiver, box in ordered[whole:]:
        for piece in filter(volume, cut_box(box, len(holders))):
            sent, place, sender = waiting[0]
            heapq.heapreplace(waiting, (sent + volume(piece), place, sender))
            yield Message(sender, receiver, piece)


def cut_box(box: Box, count: int) -> list[Box]:
    """The box in pieces along its longest dim."""
    if not box:
        return [box, *[((0, 0),)] * (count - 1)]
    dim = max(range(len(box)), key=lambda d: box[d][1] - box[d][0])
    start, stop = box[dim]
    ends = [start + (stop - start) * i // count for i in range(count + 1)]
    return [(*box[:dim], pair, *box[dim + 1 :]) for pair in itertools.pairwise(ends)]


def volume(box: Box) -> int:
    return math.prod(stop - start for start, stop in box)


def kept(source: Sharding, target: Sharding, shape: Sequence[int], mesh: Mesh, rank: int) -> Box:
    """The part that a rank already holds of its target tile, of its own summand; empty if there is none."""
    dims = len(shape)
    source, target, shape = with_summand_dim(source, target, tuple(shape), mesh)
    pairs = zip(source.ranges(shape, mesh, rank), target.ranges(shape, mesh, rank), strict=True)
    common = [(max(a, c), max(a, c, min(b, d))) for (a, b), (c, d) in pairs]
    return tuple(common[:dims]) if volume(tuple(common)) else ((0, 0),) * dims


def place_of(box: Box, sharding: Sharding, shape: Sequence[int], mesh: Mesh, rank: int) -> tuple[slice, ...]:
    """The position of a part of the tensor in a rank's buffer, which begins with the halo before its tile."""
    found: list[slice] = []
    for dim, (start, stop) in enumerate(box):
        before = sharding.halo[dim][0] if sharding.halo else 0
        origin = sharding.core(dim, shape[dim], mesh, rank)[0] - before
        found.append(slice(start - origin, stop - origin))
    return tuple(found)
