"""Lowering of collectives within groups that only move elements, by messages: NCCL has no call for most of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from meshgen.ccl.collective import Collective, leading
from meshgen.ccl.halo import Part, parts_of
from meshgen.ccl.lower_groups import BYTES, rows_of, tile_rows
from meshgen.ccl.point_to_point import PointToPoint, copies
from meshgen.ccl.steps import Box, Fill, Group, Step


@dataclass(frozen=True)
class Blocks:
    """The blocks of an all_to_all: rows of one dim (`split`), which are concatenated along another.

    Attributes:
        rows: of the split dim in a block; the last blocks may be short or empty.
        width: rows of the dim along which blocks are joined.
    """

    operand: Box
    result: Box
    split: int
    concat: int
    count: int
    rows: int
    width: int

    @staticmethod
    def of(collective: Collective) -> Blocks:
        operand, result, count = collective.operand, collective.result, collective.group_size
        split, concat = collective.attrs.split_dim, collective.attrs.concat_dim
        if split == concat:
            rows = width = -(-operand.shape[split] // count)
        else:
            rows, width = result.shape[split], operand.shape[concat]
        return Blocks(operand, result, split, concat, count, rows, width)

    @property
    def are_plain(self) -> bool:
        """Whether all blocks are whole and contiguous in operand and result."""
        wholes = (self.operand.shape[self.split], self.result.shape[self.concat])
        leads = (leading(self.operand.shape, self.split), leading(self.result.shape, self.concat))
        return wholes == (self.count * self.rows, self.count * self.width) and leads == (1, 1)

    def sent(self, sender: int, receiver: int) -> Box:
        """The block in the sender's operand."""
        box = rows_of(receiver, self.rows, self.operand, self.split)
        return box.rows(self.concat, 0, min(self._kept(sender), box.shape[self.concat]))

    def received(self, sender: int, receiver: int) -> Box:
        """The block in the receiver's result."""
        start, stop = tile_rows(receiver, self.rows, self.operand.shape[self.split])
        box = rows_of(sender, self.width, self.result, self.concat)
        return box.rows(self.split, 0, min(stop - start, box.shape[self.split]))

    def _kept(self, sender: int) -> int:
        """Rows of the sender's block that are in the result."""
        start, stop = tile_rows(sender, self.width, self.result.shape[self.concat])
        return stop - start


def all_to_all(collective: Collective, rank: int) -> list[Step]:
    """One call of NCCL where all blocks are plain; else messages."""
    blocks = Blocks.of(collective)
    members, own = collective.members(rank), collective.index(rank)
    if len(members) > 1 and blocks.are_plain:
        source, target = collective.operand, collective.result
        return [Group("all_to_all", "", BYTES, source.nbytes // len(members), source, target, collective.axes)]
    exchange = PointToPoint(collective.axes, own=[(blocks.sent(own, own), blocks.received(own, own))])
    for number, peer in enumerate(members):
        if number != own:
            exchange.sends.append((peer, blocks.sent(own, number)))
            exchange.receives.append((peer, blocks.received(number, own)))
    return exchange.steps() if len(members) > 1 else copies(exchange.own)


class FetchedRows(NamedTuple):
    """Rows that a device gets from a holder: their position in the holder's operand, and in the result."""

    receiver: int
    holder: int
    start: int
    place: int
    rows: int


def fetched_by(parts: Sequence[Part], index: int) -> Iterator[FetchedRows]:
    """All that the device of number `index` of a group gets, its own rows too."""
    done = 0
    for part in parts:
        fetch = part.fetch
        for start, stop, place in fetch.placed(index):
            for holder in range(start // fetch.tile, -(-stop // fetch.tile)) if fetch.tile and start < stop else ():
                first, last = fetch.held(holder)
                first, last = max(first, start), min(last, stop)
                within = part.start + first - holder * fetch.tile
                yield FetchedRows(index, holder, within, done + place + first - start, last - first)
        done += fetch.rows


@lru_cache(maxsize=64)
def _fetched(parts: tuple[Part, ...], count: int) -> tuple[list[list[FetchedRows]], list[list[FetchedRows]]]:
    """The rows that each device of a group sends, and that each gets."""
    given: list[list[FetchedRows]] = [[] for _ in range(count)]
    got = [list(fetched_by(parts, index)) for index in range(count)]
    for rows in itertools.chain.from_iterable(got):
        given[rows.holder].append(rows)
    return given, got


def fetch_rows(collective: Collective, rank: int) -> list[Step]:
    operand, result, dim = collective.operand, collective.result, collective.attrs.dim
    members, own = collective.members(rank), collective.index(rank)
    parts = tuple(parts_of(collective.attrs, operand.shape[dim], result.shape[dim], len(members)))
    given, got = _fetched(parts, len(members))

    def here(rows: FetchedRows) -> Box:
        return operand.rows(dim, rows.start, rows.start + rows.rows)

    def there(rows: FetchedRows) -> Box:
        return result.rows(dim, rows.place, rows.place + rows.rows)

    return PointToPoint(
        collective.axes,
        [(members[rows.receiver], here(rows)) for rows in given[own] if rows.receiver != own],
        [(members[rows.holder], there(rows)) for rows in got[own] if rows.holder != own],
        [(here(rows), there(rows)) for rows in got[own] if rows.holder == own],
    ).steps()


def gather_to(collective: Collective, rank: int) -> list[Step]:
    """The root gets the result of an all_gather."""
    operand, result, dim = collective.operand, collective.result, collective.attrs.dim
    members, own, root = collective.members(rank), collective.index(rank), collective.place("root")
    places = [rows_of(i, operand.shape[dim], result, dim) for i in range(len(members))]
    mine = operand.rows(dim, 0, places[own].shape[dim])
    exchange = PointToPoint(collective.axes)
    if own == root:
        exchange.own = [(mine, places[own])]
        exchange.receives = [(peer, places[i]) for i, peer in enumerate(members) if i != root]
    else:
        exchange.sends = [(members[root], mine)]
    return exchange.steps()


def scatter_from(collective: Collective, rank: int) -> list[Step]:
    """Every device gets its tile of the root's operand."""
    operand, result, dim = collective.operand, collective.result, collective.attrs.dim
    members, own, root = collective.members(rank), collective.index(rank), collective.place("root")
    tiles = [rows_of(i, result.shape[dim], operand, dim) for i in range(len(members))]
    mine = result.rows(dim, 0, tiles[own].shape[dim])
    exchange = PointToPoint(collective.axes)
    if own == root:
        exchange.own = [(tiles[own], mine)]
        exchange.sends = [(peer, tiles[i]) for i, peer in enumerate(members) if i != root]
    else:
        exchange.receives = [(members[root], mine)]
    return exchange.steps()


def shift(collective: Collective, rank: int) -> list[Step]:
    """To the device `offset` further along an axis, and from the one as far before."""
    members, own = collective.members(rank), collective.index(rank)
    offset = collective.attrs.offset
    if collective.attrs.rotate:
        offset %= len(members)
    pairs = [(place, place + offset) for place in range(len(members))]
    if collective.attrs.rotate:
        pairs = [(place, target % len(members)) for place, target in pairs]
    inside = [(members[source], members[target]) for source, target in pairs if 0 <= target < len(members)]
    return _sent_whole(collective, members[own], inside).steps()


def permute_pairs(collective: Collective, rank: int) -> list[Step]:
    """From each source to its target; devices that are not a target get zeros."""
    me = collective.members(rank, ())[0]
    first = me - rank
    pairs = [(first + source, first + target) for source, target in collective.attrs.pairs]
    steps = _sent_whole(collective, me, pairs, collective.mesh.names).steps()
    return steps if any(target == me for _, target in pairs) else [Fill(collective.result, 0), *steps]


def _sent_whole(
    collective: Collective, me: int, pairs: list[tuple[int, int]], axes: tuple[str, ...] | None = None
) -> PointToPoint:
    """The whole operand from source to target, for pairs of world ranks."""
    operand, result = collective.operand, collective.result
    return PointToPoint(
        collective.axes if axes is None else axes,
        [(target, operand) for source, target in pairs if source == me != target],
        [(source, result) for source, target in pairs if target == me != source],
        [(operand, result) for source, target in pairs if source == target == me],
    )


def send(collective: Collective, rank: int) -> list[Step]:
    """The operand unchanged: it is sent when it is received, so that neither side waits inside of other collectives."""
    return copies([(collective.operand, collective.result)]) if collective.results else []


def recv(collective: Collective, rank: int) -> list[Step]:
    """From the sender's operand, the sent value, to the one receiver."""
    members, own = collective.members(rank), collective.index(rank)
    source, destination = collective.place("source", 0), collective.place("destination")
    return _sent_whole(collective, members[own], [(members[source], members[destination])]).steps()
