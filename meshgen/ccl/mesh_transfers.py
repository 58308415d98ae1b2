"""Transfers of a tensor from a sharding on one mesh to a sharding on another mesh with disjoint devices.

Every receiving device gets each element that it needs once. Devices of the sending mesh that hold the same elements
share the work. Both sides derive the same messages from the two shardings, so they need not negotiate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from meshgen.ccl.links import rate_between
from meshgen.ccl.message_queues import Wires
from meshgen.ccl.routes import Box, Message, Tiles, dealt, place_of, tile_of
from meshgen.ir.graph import Node
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import Array, poisoned
from meshgen.spec import Sharding


class Ends(NamedTuple):
    """The two ends of a transfer between meshes: a tensor of global `shape`, with a sharding and a mesh on each side."""

    shape: tuple[int, ...]
    source: Sharding
    sender: Mesh
    target: Sharding
    receiver: Mesh

    @staticmethod
    def of(op: str, attrs: Mapping[str, Any], mesh: Mesh) -> Ends:
        """Return the two ends of a transfer, given one side: the `transfer_send` or `transfer_recv` on `mesh`."""
        meshes = (mesh, attrs["peer"]) if op == "transfer_send" else (attrs["peer"], mesh)
        return Ends(tuple(attrs["shape"]), attrs["source"], meshes[0], attrs["target"], meshes[1])

    def faults(self) -> list[str]:
        """Return the errors in the source and the target sharding, as texts."""
        sides = ((self.source, self.sender), (self.target, self.receiver))
        faults = [f"@{mesh.name}: {d.message}" for sharding, mesh in sides for d in sharding.faults(self.shape, mesh)]
        if self.source.partial or self.target.partial:
            faults.append("a partial value cannot go to another mesh: reduce it first")
        if any(halo != (0, 0) for halo in (*self.source.halo, *self.target.halo)):
            faults.append("a transfer does not carry halos: exchange them on the mesh that needs them")
        return faults


@lru_cache(maxsize=4096)
def between(ends: Ends) -> tuple[int, int]:
    """Return the number of elements that the busiest device sends, and the number that the busiest device receives."""
    if 0 in ends.shape:
        return 0, 0
    copies = ends.receiver.size // math.prod(ends.target.parts(dim, ends.receiver) for dim in range(len(ends.shape)))
    holders = ends.sender.size // math.prod(ends.source.parts(dim, ends.sender) for dim in range(len(ends.shape)))
    return math.ceil(_largest(ends.source, ends.sender, ends.shape) * copies / holders), _largest(
        ends.target, ends.receiver, ends.shape
    )


def _largest(sharding: Sharding, mesh: Mesh, shape: tuple[int, ...]) -> int:
    """Return the number of elements of a tensor of `shape` in the largest tile under `sharding`."""
    return math.prod(min(sharding.tile(dim, size, mesh), size) for dim, size in enumerate(shape))


def seconds_between(ends: Ends, itemsize: int) -> float:
    """Return the seconds in which the busiest device sends or receives its bytes over the network."""
    return seconds_of_bytes(max(between(ends)) * itemsize, ends.sender)


def seconds_of_bytes(moved: int, mesh: Mesh) -> float:
    """Return the seconds in which a device of `mesh` sends `moved` bytes to a mesh on other hosts."""
    rate = rate_between(mesh)
    return rate.latency + moved / rate.bandwidth if moved else 0.0


@lru_cache(maxsize=256)
def messages(ends: Ends) -> tuple[Message, ...]:
    """Return the messages of a transfer. Ranks count the devices of the mesh on that side."""
    source = replace(ends.source, halo=())
    holders: dict[tuple[int, ...], list[int]] = {}
    for rank in range(ends.sender.size):
        holders.setdefault(tile_of(source, ends.sender, rank), []).append(rank)
    tiles = Tiles(source, ends.shape, ends.sender)
    requests: dict[tuple[int, ...], list[tuple[int, Box]]] = {}
    for rank in range(ends.receiver.size):
        for tile, box in tiles.meeting(ends.target.ranges(ends.shape, ends.receiver, rank), 0):
            requests.setdefault(tile, []).append((rank, box))
    result = [message for tile, rows in requests.items() for message in dealt(rows, holders[tile], lambda *_: 0)]
    return tuple(sorted(result))


def deliver(ends: Ends, sent: Sequence[Array], dtype: str) -> list[Array]:
    """Return the buffers of the receiving devices, filled from the `sent` buffers of the sending devices."""
    local = ends.target.local_shape(ends.shape, ends.receiver)
    buffers = [poisoned(local, dtype) for _ in range(ends.receiver.size)]
    for message in messages(ends):
        target_index = place_of(message.box, ends.target, ends.shape, ends.receiver, message.receiver)
        source_index = place_of(message.box, ends.source, ends.shape, ends.sender, message.sender)
        buffers[message.receiver][target_index] = sent[message.sender][source_index]
    return buffers


class Post:
    """A mailbox for values that one mesh has sent and another mesh has not yet received, by channel.

    It holds either complete values or messages between ranks.

    Attributes:
        wires: the pending messages between ranks.
        first_rank: mesh name -> world rank of the first device, for each mesh that has joined.
    """

    def __init__(self) -> None:
        self._letters: dict[int, list[Array]] = {}
        self._sent: set[int] = set()
        self._ranks = 0
        self.wires = Wires()
        self.first_rank: dict[str, int] = {}

    def join(self, mesh: Mesh) -> None:
        """Assign world ranks to the devices of `mesh`, unless it has joined before."""
        if mesh.name not in self.first_rank:
            self.first_rank[mesh.name] = self._ranks
            self._ranks += mesh.size

    def announce(self, channel: int) -> None:
        """Mark all messages of a channel as sent."""
        self._sent.add(channel)

    def send(self, node: Node, shards: Sequence[Array], ranks: int) -> list[Array]:
        """Store the value of a `transfer_send`, and return the order token of each of `ranks` devices."""
        self._letters[node.attrs.channel] = [np.array(shard) for shard in shards]
        return [np.zeros((), np.bool_)] * ranks

    def has(self, channel: int) -> bool:
        """Whether the value of a channel has been sent."""
        return channel in self._letters or channel in self._sent

    def receive(self, node: Node, mesh: Mesh) -> list[Array]:
        """Remove the value sent on the channel of `node`, and return it as the buffers of all devices of `mesh`."""
        sent = self._letters.pop(node.attrs.channel)
        return deliver(Ends.of(node.op, node.attrs, mesh), sent, node.results[0].type.dtype)
