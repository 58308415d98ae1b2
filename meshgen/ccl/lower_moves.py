"""Lowering of collectives that move elements within groups and reduce none.

NCCL has no call for most of them, so they send messages.
"""

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
    """The blocks that an all_to_all exchanges: slices of dim `split`, concatenated along dim `concat`.

    Attributes:
        count: devices of a group, each of which sends one block to each device.
        rows: size of a block along `split`; the last blocks may be smaller or empty.
        width: size of a block along `concat`.
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
        """Whether all blocks have their full size and are contiguous in the operand and in the result."""
        wholes = (self.operand.shape[self.split], self.result.shape[self.concat])
        leads = (leading(self.operand.shape, self.split), leading(self.result.shape, self.concat))
        return wholes == (self.count * self.rows, self.count * self.width) and leads == (1, 1)

    def sent(self, sender: int, receiver: int) -> Box:
        """Return the block for `receiver` as a view of the sender's operand."""
        box = rows_of(receiver, self.rows, self.operand, self.split)
        return box.rows(self.concat, 0, min(self._kept(sender), box.shape[self.concat]))

    def received(self, sender: int, receiver: int) -> Box:
        """Return the block of `sender` as a view of the receiver's result."""
        start, stop = tile_rows(receiver, self.rows, self.operand.shape[self.split])
        box = rows_of(sender, self.width, self.result, self.concat)
        return box.rows(self.split, 0, min(stop - start, box.shape[self.split]))

    def _kept(self, sender: int) -> int:
        """Return how many rows of the sender's block lie within the result. The other rows are padding."""
        start, stop = tile_rows(sender, self.width, self.result.shape[self.concat])
        return stop - start


def all_to_all(collective: Collective, rank: int) -> list[Step]:
    """Lower an all_to_all to one NCCL call if all blocks are full and contiguous, else to messages."""
    blocks = Blocks.of(collective)
    members, index = collective.members(rank), collective.index(rank)
    if len(members) > 1 and blocks.are_plain:
        source, target = collective.operand, collective.result
        return [Group("all_to_all", "", BYTES, source.nbytes // len(members), source, target, collective.axes)]
    exchange = PointToPoint(collective.axes, local_copies=[(blocks.sent(index, index), blocks.received(index, index))])
    for peer_index, peer in enumerate(members):
        if peer_index != index:
            exchange.sends.append((peer, blocks.sent(index, peer_index)))
            exchange.receives.append((peer, blocks.received(peer_index, index)))
    return exchange.steps() if len(members) > 1 else copies(exchange.local_copies)


class FetchedRows(NamedTuple):
    """A range of rows that one device of a group fetches from another device, or from its own tile.

    Attributes:
        receiver, holder: indices of the two devices in the group.
        start: first row in the holder's operand.
        place: first row in the receiver's result.
        rows: number of rows.
    """

    receiver: int
    holder: int
    start: int
    place: int
    rows: int


def fetched_by(parts: Sequence[Part], index: int) -> Iterator[FetchedRows]:
    """Yield the ranges of rows that the device at `index` of a group fetches, including those from its own tile."""
    result_rows = 0
    for part in parts:
        fetch = part.fetch
        for start, stop, position in fetch.placed(index):
            for holder in range(start // fetch.tile, -(-stop // fetch.tile)) if fetch.tile and start < stop else ():
                first, last = fetch.held(holder)
                first, last = max(first, start), min(last, stop)
                holder_start = part.start + first - holder * fetch.tile
                yield FetchedRows(index, holder, holder_start, result_rows + position + first - start, last - first)
        result_rows += fetch.rows


@lru_cache(maxsize=64)
def _fetched(parts: tuple[Part, ...], count: int) -> tuple[list[list[FetchedRows]], list[list[FetchedRows]]]:
    """Return two lists with an entry per device of a group: the ranges that it sends, and the ranges that it fetches."""
    sent: list[list[FetchedRows]] = [[] for _ in range(count)]
    fetched = [list(fetched_by(parts, index)) for index in range(count)]
    for rows in itertools.chain.from_iterable(fetched):
        sent[rows.holder].append(rows)
    return sent, fetched


def fetch_rows(collective: Collective, rank: int) -> list[Step]:
    operand, result, dim = collective.operand, collective.result, collective.attrs.dim
    members, index = collective.members(rank), collective.index(rank)
    parts = tuple(parts_of(collective.attrs, operand.shape[dim], result.shape[dim], len(members)))
    sent, fetched = _fetched(parts, len(members))

    def here(rows: FetchedRows) -> Box:
        return operand.rows(dim, rows.start, rows.start + rows.rows)

    def there(rows: FetchedRows) -> Box:
        return result.rows(dim, rows.place, rows.place + rows.rows)

    return PointToPoint(
        collective.axes,
        [(members[rows.receiver], here(rows)) for rows in sent[index] if rows.receiver != index],
        [(members[rows.holder], there(rows)) for rows in fetched[index] if rows.holder != index],
        [(here(rows), there(rows)) for rows in fetched[index] if rows.holder == index],
    ).steps()


def gather_to(collective: Collective, rank: int) -> list[Step]:
    """Lower a gather_to: the root receives the concatenated tiles, as the result of an all_gather."""
    operand, result, dim = collective.operand, collective.result, collective.attrs.dim
    members, index, root = collective.members(rank), collective.index(rank), collective.member_index("root")
    slots = [rows_of(i, operand.shape[dim], result, dim) for i in range(len(members))]
    source_rows = operand.rows(dim, 0, slots[index].shape[dim])
    exchange = PointToPoint(collective.axes)
    if index == root:
        exchange.local_copies = [(source_rows, slots[index])]
        exchange.receives = [(peer, slots[i]) for i, peer in enumerate(members) if i != root]
    else:
        exchange.sends = [(members[root], source_rows)]
    return exchange.steps()


def scatter_from(collective: Collective, rank: int) -> list[Step]:
    """Lower a scatter_from: every device receives its tile of the root's operand."""
    operand, result, dim = collective.operand, collective.result, collective.attrs.dim
    members, index, root = collective.members(rank), collective.index(rank), collective.member_index("root")
    tiles = [rows_of(i, result.shape[dim], operand, dim) for i in range(len(members))]
    result_rows = result.rows(dim, 0, tiles[index].shape[dim])
    exchange = PointToPoint(collective.axes)
    if index == root:
        exchange.local_copies = [(tiles[index], result_rows)]
        exchange.sends = [(peer, tiles[i]) for i, peer in enumerate(members) if i != root]
    else:
        exchange.receives = [(members[root], result_rows)]
    return exchange.steps()


def shift(collective: Collective, rank: int) -> list[Step]:
    """Lower a shift: each device sends its operand to the device that is `offset` further along the axis."""
    members, rank_index = collective.members(rank), collective.index(rank)
    offset = collective.attrs.offset
    if collective.attrs.rotate:
        offset %= len(members)
    pairs = [(index, index + offset) for index in range(len(members))]
    if collective.attrs.rotate:
        pairs = [(index, target % len(members)) for index, target in pairs]
    inside = [(members[source], members[target]) for source, target in pairs if 0 <= target < len(members)]
    return _whole_operand_messages(collective, members[rank_index], inside).steps()


def permute_pairs(collective: Collective, rank: int) -> list[Step]:
    """Lower a permute_pairs: each source sends its operand to its target.

    Devices that are not a target get zeros.
    """
    world_rank = collective.members(rank, ())[0]
    first = world_rank - rank
    pairs = [(first + source, first + target) for source, target in collective.attrs.pairs]
    steps = _whole_operand_messages(collective, world_rank, pairs, collective.mesh.names).steps()
    return steps if any(target == world_rank for _, target in pairs) else [Fill(collective.result, 0), *steps]


def _whole_operand_messages(
    collective: Collective, world_rank: int, pairs: list[tuple[int, int]], axes: tuple[str, ...] | None = None
) -> PointToPoint:
    """Return the sends and receives of `world_rank`, if each (source, target) pair moves the operand of `source`."""
    operand, result = collective.operand, collective.result
    return PointToPoint(
        collective.axes if axes is None else axes,
        [(target, operand) for source, target in pairs if source == world_rank != target],
        [(source, result) for source, target in pairs if target == world_rank != source],
        [(operand, result) for source, target in pairs if source == target == world_rank],
    )


def send(collective: Collective, rank: int) -> list[Step]:
    """Lower a send, which only copies the operand to the result, if there is a result.

    The matching `recv` moves the data, so neither side blocks inside another collective.
    """
    return copies([(collective.operand, collective.result)]) if collective.results else []


def recv(collective: Collective, rank: int) -> list[Step]:
    """Lower a recv: the device `source` sends its operand, which is the sent value, to the device `destination`."""
    members, index = collective.members(rank), collective.index(rank)
    source, destination = collective.member_index("source", 0), collective.member_index("destination")
    return _whole_operand_messages(collective, members[index], [(members[source], members[destination])]).steps()
