"""Choose the shardings of values that are transferred between meshes.

Example: `%h : f32[64,32]` has sharding [{dp}, {}] on @a, and both meshes have dp=4. @b gets the hint [{dp}, {}] for it,
and each device of @a sends its 16 rows to one device of @b.

Once a part (the program of one mesh) is propagated, the sharding of a transferred value becomes a hint in the other
parts: the same split, as far as both meshes have the axes. Parts are propagated in order of declaration, then backwards
and forwards once more if a value got a hint that it did not have before. Afterwards each transfer gets the two
shardings between which it moves data. A value may be reduced or split before the transfer and gathered after it, if
that is faster than the network between the meshes; the parts then contain these collectives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import NamedTuple

from meshgen.ccl.mesh_transfers import Ends, between, seconds_between
from meshgen.ir.graph import Graph, Module, Node, NodeSharding, Value
from meshgen.ir.notes import Notes
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.predicates import is_transfer, is_transfer_recv, is_transfer_send
from meshgen.mesh import Mesh, split_ref
from meshgen.sharding.collective_reasons import crossing_reason
from meshgen.sharding.reshard.plan import plan_reshard
from meshgen.spec import Sharding

Stage = Callable[[Module], Module]


def propagate_parts(parts: Sequence[Module], propagate: Stage) -> list[Module]:
    """Propagate all parts, each with hints for transferred values from other meshes. The hints stay on the
    transfers.
    """
    entered = list(parts)
    propagated: dict[int, Module] = {}
    forward = range(len(parts))
    for number in (*forward, *reversed(forward), *forward):
        hinted = _with_hints(entered[number], number, propagated)
        if number not in propagated or hinted is not entered[number]:
            entered[number], propagated[number] = hinted, propagate(hinted)
    return [propagated[number] for number in forward]


def _with_hints(part: Module, number: int, propagated: Mapping[int, Module]) -> Module:
    """Return the part with hints for transferred values that propagation of the part has not split yet.

    Returns `part` itself if it gets no hint.
    """
    peers = {
        _channel_key(node): (_transferred_sharding(node), peer.mesh)
        for index, peer in propagated.items()
        if index != number
        for node in peer.graph.nodes
        if is_transfer(node)
    }
    here = propagated[number].graph.nodes if number in propagated else ()
    split = {_channel_key(node) for node in here if is_transfer(node) and _transferred_sharding(node).split_axes}
    hints: dict[Node, Sharding] = {}
    for node in part.graph.nodes:
        if not is_transfer(node) or node.notes.hint is not None or _channel_key(node) in split:
            continue
        peer = peers.get((BETWEEN_MESHES[BETWEEN_MESHES.index(node.op) - 1], node.attrs.channel))
        hint = _on_other_mesh(*peer, part.mesh) if peer else None
        if hint and hint.split_axes:
            hints[node] = hint
    if not hints:
        return part
    return _map_nodes(part, lambda node: _hinted(node, hints[node]) if node in hints else node)


def _hinted(node: Node, hint: Sharding) -> Node:
    return replace(node, notes=replace(node.notes, hint=hint))


def _channel_key(node: Node) -> tuple[str, int]:
    return node.op, node.attrs.channel


def _transferred_sharding(node: Node) -> Sharding:
    """Return the sharding of a transferred value on this mesh, after propagation."""
    return _shardings_of(node).operands[0] if is_transfer_send(node) else _shardings_of(node).results[0]


def _map_nodes(part: Module, change: Callable[[Node], Node]) -> Module:
    """Return the part with `change` applied to its nodes, or `part` itself if no node changes."""
    graph = part.graph
    nodes = [change(node) for node in graph.nodes]
    is_same = all(map(is_, nodes, graph.nodes))
    return part if is_same else replace(part, graph=Graph(graph.name, graph.inputs, nodes, graph.outputs))


def _on_other_mesh(sharding: Sharding, here: Mesh, there: Mesh) -> Sharding:
    """Return the sharding on mesh `there`: each dim keeps its axes up to the first that `there` lacks or has in another
    size.
    """

    def is_same(ref: str) -> bool:
        name = split_ref(ref)[0]
        return name in there.names and there.axis_size(name) == here.axis_size(name)

    return Sharding(tuple(tuple(itertools.takewhile(is_same, axes)) for axes in sharding.dims))


def with_near_shardings(part: Module) -> Module:
    """Return a propagated part that can be planned before the other parts are propagated.

    The far end of each transfer gets the sharding of the near end.
    """

    def settled(node: Node) -> Node:
        if not is_transfer(node):
            return node
        here = _transferred_sharding(node)
        return replace(node, attrs={**node.attrs, "source": here, "target": here, "peer": part.mesh})

    return _map_nodes(part, settled)


class TransferCandidate(NamedTuple):
    """A candidate for a transfer: the shardings it moves between, and the seconds and bytes of the transfer with its
    reshards.
    """

    source: Sharding
    target: Sharding
    seconds: float
    moved: int


class Crossing(NamedTuple):
    """A transferred value: the transfer ops of both propagated parts, and its shardings on both meshes."""

    sent: Node
    sender: Mesh
    sent_sharding: Sharding
    received: Node
    receiver: Mesh

    @property
    def needed_sharding(self) -> Sharding:
        """Return the sharding that the receiving mesh needs."""
        return _transferred_sharding(self.received)

    @property
    def sides(self) -> tuple[tuple[Mesh, Node], tuple[Mesh, Node]]:
        """Return the two meshes with their transfer ops."""
        return (self.sender, self.sent), (self.receiver, self.received)

    def ways(self) -> Iterator[TransferCandidate]:
        """Yield the candidates for the transfer: first between the shardings that the parts decided, then with further
        splits.
        """
        sources = [_transferred_sharding(self.sent), *_split_further(self.sent_sharding.without_partial(), self.sender)]
        targets = [self.needed_sharding, *_split_further(self.needed_sharding, self.receiver)]
        yield from itertools.starmap(self._way, itertools.product(dict.fromkeys(sources), dict.fromkeys(targets)))

    def _way(self, source: Sharding, target: Sharding) -> TransferCandidate:
        tensor_type = self.received.results[0].type
        ends = Ends(tensor_type.sizes, source, self.sender, target, self.receiver)
        before = plan_reshard(tensor_type, self.sent_sharding, source, self.sender)
        after = plan_reshard(tensor_type, target, self.needed_sharding, self.receiver)
        seconds = before.seconds + seconds_between(ends, tensor_type.numpy_dtype.itemsize) + after.seconds
        moved = before.ring_bytes + max(between(ends)) * tensor_type.numpy_dtype.itemsize + after.ring_bytes
        return TransferCandidate(source, target, seconds, moved)

    def cheapest(self) -> TransferCandidate:
        """Return the candidate with the least time, the first of several equal ones."""
        return min(self.ways(), key=lambda way: (round(way.seconds, 12), way.moved))


def crossings(parts: Sequence[Module]) -> dict[int, Crossing]:
    """Return the values that are transferred between propagated parts, by channel."""
    sent: dict[int, tuple[Node, Mesh, Sharding]] = {}
    for part in parts:
        produced = _produced_shardings(part)
        for node in part.graph.nodes:
            if is_transfer_send(node):
                sent[node.attrs.channel] = node, part.mesh, produced[node.operands[0]]
    received = [(node, part.mesh) for part in parts for node in part.graph.nodes if is_transfer_recv(node)]
    return {node.attrs.channel: Crossing(*sent[node.attrs.channel], node, mesh) for node, mesh in received}


def settle(parts: Sequence[Module]) -> list[Module]:
    """Return the propagated parts with the cheapest shardings at both ends of each transfer."""
    ways = {channel: crossing.cheapest() for channel, crossing in crossings(parts).items()}

    def settled(node: Node) -> Node:
        if not is_transfer(node):
            return node
        way, shardings = ways[node.attrs.channel], _shardings_of(node)
        if is_transfer_send(node):
            shardings = replace(shardings, operands=(way.source, *shardings.operands[1:]))
        else:
            shardings = replace(shardings, results=(way.target, *shardings.results[1:]))
        attrs = {**node.attrs, "source": way.source, "target": way.target}
        notes = Notes(crossing_reason(node.notes.why, way.source, way.target))
        return replace(node, sharding=shardings, attrs=attrs, notes=notes)

    return [_map_nodes(part, settled) for part in parts]


def _produced_shardings(part: Module) -> dict[Value, Sharding]:
    """Return, for every value of a propagated part, the sharding in which the value's producer computes it."""
    shardings = dict(zip(part.graph.inputs, part.in_shardings, strict=True))
    for node in part.graph.nodes:
        shardings.update(zip(node.results, _shardings_of(node).results, strict=True))
    return shardings


def _split_further(sharding: Sharding, mesh: Mesh) -> Iterator[Sharding]:
    """Yield the sharding, then its dims split further: over each single unused mesh axis, and over all unused axes
    together.
    """
    if sharding.halo or any(sharding.offsets):
        return
    yield sharding
    used = {split_ref(ref)[0] for ref in sharding.split_axes}
    free = tuple(name for name in mesh.names if name not in used and mesh.axis_size(name) > 1)
    for axes in dict.fromkeys([*((axis,) for axis in free), free]):
        for dim in range(sharding.rank) if axes else ():
            dims = list(sharding.dims)
            dims[dim] = (*dims[dim], *axes)
            yield sharding.with_dims(dims)


def _shardings_of(node: Node) -> NodeSharding:
    assert node.sharding is not None, "the parts are propagated"
    return node.sharding
