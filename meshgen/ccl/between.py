"""Moving a tensor from a sharding on one mesh to a sharding on another mesh with disjoint devices.

Every receiving device gets each row that it needs once; devices of the sending mesh that hold the same rows share
the work. Both sides derive the same messages from the two shardings, so no negotiation is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from meshgen.ccl.links import rate_between
from meshgen.ccl.routes import Box, Message, Tiles, dealt, place_of, tile_of
from meshgen.ccl.wires import Wires
from meshgen.ir.graph import Node
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import Array, poisoned
from meshgen.spec import Sharding


class Ends(NamedTuple):
    """A tensor of global `shape`, and its shardings on both sides."""

    shape: tuple[int, ...]
    source: Sharding
    sender: Mesh
    target: Sharding
    receiver: Mesh

    @staticmethod
    def of(op: str, attrs: Mapping[str, Any], mesh: Mesh) -> Ends:
        """The ends of a `transfer_send` or `transfer_recv` that a device of `mesh` runs."""
        meshes = (mesh, attrs["peer"]) if op == "transfer_send" else (attrs["peer"], mesh)
        return Ends(tuple(attrs["shape"]), attrs["source"], meshes[0], attrs["target"], meshes[1])

    def faults(self) -> list[str]:
        """The faults of the two shardings."""
        sides = ((self.source, self.sender), (self.target, self.receiver))
        found = [f"@{mesh.name}: {d.message}" for each, mesh in sides for d in each.faults(self.shape, mesh)]
        if self.source.partial or self.target.partial:
            found.append("a partial value cannot go to another mesh: reduce it first")
        if any(rows != (0, 0) for rows in (*self.source.halo, *self.target.halo)):
            found.append("a transfer does not carry halos: exchange them on the mesh that needs them")
        return found


@lru_cache(maxsize=4096)
def between(ends: Ends) -> tuple[int, int]:
    """The most elements that one device sends, and that one receives."""
    if 0 in ends.shape:
        return 0, 0
    copies = ends.receiver.size // math.prod(ends.target.parts(dim, ends.receiver) for dim in range(len(ends.shape)))
    holders = ends.sender.size // math.prod(ends.source.parts(dim, ends.sender) for dim in range(len(ends.shape)))
    return math.ceil(_largest(ends.source, ends.sender, ends.shape) * copies / holders), _largest(
        ends.target, ends.receiver, ends.shape
    )


def _largest(sharding: Sharding, mesh: Mesh, shape: tuple[int, ...]) -> int:
    """Elements of the largest tile."""
    return math.prod(min(sharding.tile(dim, size, mesh), size) for dim, size in enumerate(shape))


def seconds_between(ends: Ends, itemsize: int) -> float:
    """Time of a transfer: the busiest device's bytes over the network between the meshes."""
    return seconds_of_bytes(max(between(ends)) * itemsize, ends.sender)


def seconds_of_bytes(moved: int, mesh: Mesh) -> float:
    """Seconds of so many bytes of a device of a mesh to another mesh, whose devices are on other hosts."""
    rate = rate_between(mesh)
    return rate.latency + moved / rate.bandwidth if moved else 0.0


@lru_cache(maxsize=256)
def messages(ends: Ends) -> tuple[Message, ...]:
    """The messages: source, target and part of the tensor; devices are numbered within their own mesh."""
    source = replace(ends.source, halo=())
    holders: dict[tuple[int, ...], list[int]] = {}
    for rank in range(ends.sender.size):
        holders.setdefault(tile_of(source, ends.sender, rank), []).append(rank)
    tiles = Tiles(source, ends.shape, ends.sender)
    asked: dict[tuple[int, ...], list[tuple[int, Box]]] = {}
    for rank in range(ends.receiver.size):
        for tile, box in tiles.meeting(ends.target.ranges(ends.shape, ends.receiver, rank), 0):
            asked.setdefault(tile, []).append((rank, box))
    found = [message for tile, requests in asked.items() for message in dealt(requests, holders[tile], lambda *_: 0)]
    return tuple(sorted(found))


def deliver(ends: Ends, sent: Sequence[Array], dtype: str) -> list[Array]:
    """The buffers of the receiving devices, filled message by message from those of the sending ones."""
    local = ends.target.local_shape(ends.shape, ends.receiver)
    buffers = [poisoned(local, dtype) for _ in range(ends.receiver.size)]
    for message in messages(ends):
        here = place_of(message.box, ends.target, ends.shape, ends.receiver, message.receiver)
        there = place_of(message.box, ends.source, ends.shape, ends.sender, message.sender)
        buffers[message.receiver][here] = sent[message.sender][there]
    return buffers


class Post:
    """Values in flight between meshes, by channel: whole ones, or in messages of ranks.

    Attributes:
        wires: the messages.
        first_rank: world rank of the first device of each mesh that has joined, by name.
    """

    def __init__(self) -> None:
        self._letters: dict[int, list[Array]] = {}
        self._sent: set[int] = set()
        self._ranks = 0
        self.wires = Wires()
        self.first_rank: dict[str, int] = {}

    def join(self, mesh: Mesh) -> None:
        """Give the devices of a mesh their numbers in the world."""
        if mesh.name not in self.first_rank:
            self.first_rank[mesh.name] = self._ranks
            self._ranks += mesh.size

    def announce(self, channel: int) -> None:
        """All messages of a channel are sent."""
        self._sent.add(channel)

    def send(self, node: Node, shards: Sequence[Array], ranks: int) -> list[Array]:
        """Send a value; the result is the token of the send."""
        self._letters[node.attrs.channel] = [np.array(shard) for shard in shards]
        return [np.zeros((), np.bool_)] * ranks

    def has(self, channel: int) -> bool:
        return channel in self._letters or channel in self._sent

    def receive(self, node: Node, mesh: Mesh) -> list[Array]:
        """Take a value that has arrived."""
        sent = self._letters.pop(node.attrs.channel)
        return deliver(Ends.of(node.op, node.attrs, mesh), sent, node.results[0].type.dtype)
