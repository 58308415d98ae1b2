"""Lowering of moves between two shardings of a tensor, on one mesh or from one to another: boxes in messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from meshgen.ccl import between, routes
from meshgen.ccl.collective import Collective
from meshgen.ccl.cost import transfer_ends
from meshgen.ccl.point_to_point import PointToPoint
from meshgen.ccl.routes import Message, place_of
from meshgen.ccl.steps import Box, BufferRef, Fill, Step, whole
from meshgen.mesh import Mesh
from meshgen.ops.classes import RETILING
from meshgen.spec import Sharding

ByRank = dict[int, list[Message]]


def transfer(collective: Collective, rank: int) -> list[Step]:
    """A permute, retile or halo exchange. Rows outside the tensor that the operand of a halo exchange has stay as they are."""
    source, target = transfer_ends(collective.op, collective.attrs)
    shape, mesh = tuple(collective.attrs.shape), collective.mesh
    stays = collective.op not in RETILING and collective.operands[0] == collective.results[0]
    here = _Buffer(collective.operand, target if stays else source, shape, mesh, rank)
    there = _Buffer(collective.result, target, shape, mesh, rank)
    held = routes.kept(source, target, shape, mesh, rank)
    own = (collective.operand, collective.result) if stays else (here.part(held), there.part(held))
    sent, received = _routes_by_rank(source, target, shape, mesh)
    first = collective.members(rank, ())[0] - rank
    return PointToPoint(
        mesh.names,
        [(first + message.receiver, here.part(message.box)) for message in sent.get(rank, ())],
        [(first + message.sender, there.part(message.box)) for message in received.get(rank, ())],
        [own],
    ).steps()


def transfer_send(collective: Collective, rank: int) -> list[Step]:
    """The sending side of a transfer to another mesh, and its order token."""
    ends = between.Ends.of(collective.op, collective.attrs, collective.mesh)
    buffer = _Buffer(collective.operand, ends.source, ends.shape, ends.sender, rank)
    first = collective.first_rank.get(ends.receiver.name, 0)
    sent, _ = _messages_by_rank(ends)
    exchange = PointToPoint(
        (), [(first + message.receiver, buffer.part(message.box)) for message in sent.get(rank, ())]
    )
    return [*exchange.steps(), Fill(collective.result, 0)]


def transfer_recv(collective: Collective, rank: int) -> list[Step]:
    """The receiving side of a transfer from another mesh, and its order token."""
    ends = between.Ends.of(collective.op, collective.attrs, collective.mesh)
    buffer = _Buffer(collective.result, ends.target, ends.shape, ends.receiver, rank)
    first = collective.first_rank.get(ends.sender.name, 0)
    _, received = _messages_by_rank(ends)
    exchange = PointToPoint((), receives=[(first + m.sender, buffer.part(m.box)) for m in received.get(rank, ())])
    return [*exchange.steps(), Fill(whole(BufferRef("result", 1), collective.results[1]), 0)]


class _Buffer:
    """A rank's buffer under a sharding."""

    def __init__(self, box: Box, sharding: Sharding, shape: tuple[int, ...], mesh: Mesh, rank: int) -> None:
        self._box, self._lies = box, (sharding, shape, mesh, rank)

    def part(self, box: routes.Box) -> Box:
        """The box of a part of the tensor in it."""
        return self._box.part([(place.start, place.stop) for place in place_of(box, *self._lies)])


@lru_cache(maxsize=256)
def _routes_by_rank(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> tuple[ByRank, ByRank]:
    return _by_rank(routes.routes(source, target, shape, mesh))


@lru_cache(maxsize=256)
def _messages_by_rank(ends: between.Ends) -> tuple[ByRank, ByRank]:
    return _by_rank(between.messages(ends))


def _by_rank(found: Sequence[Message]) -> tuple[ByRank, ByRank]:
    """The messages by sender, and by receiver."""
    sent, received = ByRank(), ByRank()
    for message in found:
        sent.setdefault(message.sender, []).append(message)
        received.setdefault(message.receiver, []).append(message)
    return sent, received
