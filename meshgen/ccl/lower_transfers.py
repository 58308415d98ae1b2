"""Lowering of transfers between two shardings of a tensor, on one mesh or between meshes, to messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from meshgen.ccl import mesh_transfers, routes
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
    """Lower a permute, retile or halo exchange.

    Rows of a halo that are outside of the tensor keep the values that they have in the operand.
    """
    source, target = transfer_ends(collective.op, collective.attrs)
    shape, mesh = tuple(collective.attrs.shape), collective.mesh
    is_in_place = collective.op not in RETILING and collective.operands[0] == collective.results[0]
    source_buffer = _Buffer(collective.operand, target if is_in_place else source, shape, mesh, rank)
    target_buffer = _Buffer(collective.result, target, shape, mesh, rank)
    kept_region = routes.kept(source, target, shape, mesh, rank)
    own_copy = (
        (collective.operand, collective.result)
        if is_in_place
        else (source_buffer.part(kept_region), target_buffer.part(kept_region))
    )
    sent, received = _routes_by_rank(source, target, shape, mesh)
    first = collective.members(rank, ())[0] - rank
    return PointToPoint(
        mesh.names,
        [(first + message.receiver, source_buffer.part(message.box)) for message in sent.get(rank, ())],
        [(first + message.sender, target_buffer.part(message.box)) for message in received.get(rank, ())],
        [own_copy],
    ).steps()


def transfer_send(collective: Collective, rank: int) -> list[Step]:
    """Lower the sending side of a transfer to another mesh. The result of a `transfer_send` is an order token."""
    ends = mesh_transfers.Ends.of(collective.op, collective.attrs, collective.mesh)
    buffer = _Buffer(collective.operand, ends.source, ends.shape, ends.sender, rank)
    first = collective.first_rank.get(ends.receiver.name, 0)
    sent, _ = _messages_by_rank(ends)
    exchange = PointToPoint(
        (), [(first + message.receiver, buffer.part(message.box)) for message in sent.get(rank, ())]
    )
    return [*exchange.steps(), Fill(collective.result, 0)]


def transfer_recv(collective: Collective, rank: int) -> list[Step]:
    """Lower the receiving side of a transfer from another mesh.

    The results of a `transfer_recv` are the value and an order token.
    """
    ends = mesh_transfers.Ends.of(collective.op, collective.attrs, collective.mesh)
    buffer = _Buffer(collective.result, ends.target, ends.shape, ends.receiver, rank)
    first = collective.first_rank.get(ends.sender.name, 0)
    _, received = _messages_by_rank(ends)
    exchange = PointToPoint((), receives=[(first + m.sender, buffer.part(m.box)) for m in received.get(rank, ())])
    return [*exchange.steps(), Fill(whole(BufferRef("result", 1), collective.results[1]), 0)]


class _Buffer:
    """A rank's buffer, which holds the rank's tile of a tensor under a sharding."""

    def __init__(self, box: Box, sharding: Sharding, shape: tuple[int, ...], mesh: Mesh, rank: int) -> None:
        self._box, self._layout = box, (sharding, shape, mesh, rank)

    def part(self, region: routes.Box) -> Box:
        """Return the view of the buffer that holds region `box` of the tensor."""
        return self._box.part([(rows.start, rows.stop) for rows in place_of(region, *self._layout)])


@lru_cache(maxsize=256)
def _routes_by_rank(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> tuple[ByRank, ByRank]:
    return _by_rank(routes.routes(source, target, shape, mesh))


@lru_cache(maxsize=256)
def _messages_by_rank(ends: mesh_transfers.Ends) -> tuple[ByRank, ByRank]:
    return _by_rank(mesh_transfers.messages(ends))


def _by_rank(messages: Sequence[Message]) -> tuple[ByRank, ByRank]:
    """Return the same messages in two maps: by sending rank, and by receiving rank."""
    sent, received = ByRank(), ByRank()
    for message in messages:
        sent.setdefault(message.sender, []).append(message)
        received.setdefault(message.receiver, []).append(message)
    return sent, received
