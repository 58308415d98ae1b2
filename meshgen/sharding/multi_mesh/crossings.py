"""Choose the shardings of values that are transferred between meshes: hints from one part to the others, and the cheapest transfer.

Example: `%h : f32[64,32]` has sharding [{dp}, {}] on @a, and both meshes have dp=4. @b gets the hint [{dp}, {}] for it, and each
device of @a sends its 16 rows to one of @b.

A transferred value has its sharding on parts that are decided as a hint on those that are not: the same split, as far as
both meshes have the axes. The parts are decided in order of declaration, then once more forwards and backwards if a
decision gives a hint for a value that had none. When all are decided, each transfer gets
the two shardings between which it moves data. A value may be reduced and split before it, and gathered
after it, if that is faster than the network between the meshes; the parts have the collectives for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import NamedTuple

from meshgen.ccl.between import Ends, between, seconds_between
from meshgen.ir.graph import Graph, Module, Node, NodeSharding, Value
from meshgen.ir.notes import Notes
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.predicates import is_transfer, is_transfer_recv, is_transfer_send
from meshgen.mesh import Mesh, split_ref
from meshgen.sharding.reasons import crossing_reason
from meshgen.sharding.reshard.plan import plan_reshard
from meshgen.spec import Sharding

Stage = Callable[[Module], Module]


def propagate_parts(parts: Sequence[Module], propagate: Stage) -> list[Module]:
    """The parts propagated, each with hints for transferred values from other meshes. The hints stay on the transfers."""
    entered = list(parts)
    found: dict[int, Module] = {}
    forward = range(len(parts))
    for number in (*forward, *reversed(forward), *forward):
        told = _told(entered[number], number, found)
        if number not in found or told is not entered[number]:
            entered[number], found[number] = told, propagate(told)
    return [found[number] for number in forward]


def _told(part: Module, number: int, found: Mapping[int, Module]) -> Module:
    """The part with hints for transferred values that are whole here so far; itself if there is none."""
    there = {
        _channel_key(node): (_transferred_sharding(node), other.mesh)
        for place, other in found.items()
        if place != number
        for node in other.graph.nodes
        if is_transfer(node)
    }
    here = found[number].graph.nodes if number in found else ()
    split = {_channel_key(node) for node in here if is_transfer(node) and _transferred_sharding(node).split_axes}
    hints: dict[Node, Sharding] = {}
    for node in part.graph.nodes:
        if not is_transfer(node) or node.notes.hint is not None or _channel_key(node) in split:
            continue
        other = there.get((BETWEEN_MESHES[BETWEEN_MESHES.index(node.op) - 1], node.attrs.channel))
        hint = _carried(*other, part.mesh) if other else None
        if hint and hint.split_axes:
            hints[node] = hint
    if not hints:
        return part
    return _each_node(part, lambda node: _hinted(node, hints[node]) if node in hints else node)


def _hinted(node: Node, hint: Sharding) -> Node:
    return replace(node, notes=replace(node.notes, hint=hint))


def _channel_key(node: Node) -> tuple[str, int]:
    return node.op, node.attrs.channel


def _transferred_sharding(node: Node) -> Sharding:
    """The sharding of a transferred value on this mesh, after propagation."""
    return _shardings_of(node).operands[0] if is_transfer_send(node) else _shardings_of(node).results[0]


def _each_node(part: Module, change: Callable[[Node], Node]) -> Module:
    """The part with changed nodes; itself where none is."""
    graph = part.graph
    nodes = [change(node) for node in graph.nodes]
    is_same = all(map(is_, nodes, graph.nodes))
    return part if is_same else replace(part, graph=Graph(graph.name, graph.inputs, nodes, graph.outputs))


def _carried(sharding: Sharding, here: Mesh, there: Mesh) -> Sharding:
    """The same split over axes of the same name and size, per dim up to the first axis that the mesh lacks."""

    def is_same(ref: str) -> bool:
        name = split_ref(ref)[0]
        return name in there.names and there.axis_size(name) == here.axis_size(name)

    return Sharding(tuple(tuple(itertools.takewhile(is_same, axes)) for axes in sharding.dims))


def alone(part: Module) -> Module:
    """A propagated part to be planned before the others are known: the far side of a transfer gets the sharding of the near one."""

    def settled(node: Node) -> Node:
        if not is_transfer(node):
            return node
        here = _transferred_sharding(node)
        return replace(node, attrs={**node.attrs, "source": here, "target": here, "peer": part.mesh})

    return _each_node(part, settled)


class Way(NamedTuple):
    """Shardings to transfer between, with time and bytes of the reshards before and after, and of the transfer."""

    source: Sharding
    target: Sharding
    seconds: float
    moved: int


class Crossing(NamedTuple):
    """A transferred value: the transfers of propagated parts, and its shardings on both meshes."""

    sent: Node
    sender: Mesh
    made: Sharding
    got: Node
    receiver: Mesh

    @property
    def wanted(self) -> Sharding:
        """The sharding that the receiving mesh needs."""
        return _transferred_sharding(self.got)

    @property
    def sides(self) -> tuple[tuple[Mesh, Node], tuple[Mesh, Node]]:
        """The two meshes and their transfers."""
        return (self.sender, self.sent), (self.receiver, self.got)

    def ways(self) -> Iterator[Way]:
        """Candidates: first the shardings that the parts decided, then these with further splits."""
        sources = [_transferred_sharding(self.sent), *_split_further(self.made.without_partial(), self.sender)]
        targets = [self.wanted, *_split_further(self.wanted, self.receiver)]
        yield from itertools.starmap(self._way, itertools.product(dict.fromkeys(sources), dict.fromkeys(targets)))

    def _way(self, source: Sharding, target: Sharding) -> Way:
        kind = self.got.results[0].type
        ends = Ends(kind.sizes, source, self.sender, target, self.receiver)
        before = plan_reshard(kind, self.made, source, self.sender)
        after = plan_reshard(kind, target, self.wanted, self.receiver)
        seconds = before.seconds + seconds_between(ends, kind.numpy_dtype.itemsize) + after.seconds
        moved = before.ring_bytes + max(between(ends)) * kind.numpy_dtype.itemsize + after.ring_bytes
        return Way(source, target, seconds, moved)

    def cheapest(self) -> Way:
        """The way of least time; the first of equals."""
        return min(self.ways(), key=lambda way: (round(way.seconds, 12), way.moved))


def crossings(parts: Sequence[Module]) -> dict[int, Crossing]:
    """The values transferred between propagated parts, by channel."""
    sent: dict[int, tuple[Node, Mesh, Sharding]] = {}
    for part in parts:
        made = _made(part)
        for node in part.graph.nodes:
            if is_transfer_send(node):
                sent[node.attrs.channel] = node, part.mesh, made[node.operands[0]]
    received = [(node, part.mesh) for part in parts for node in part.graph.nodes if is_transfer_recv(node)]
    return {node.attrs.channel: Crossing(*sent[node.attrs.channel], node, mesh) for node, mesh in received}


def settle(parts: Sequence[Module]) -> list[Module]:
    """Propagated parts with transfers that have the shardings between which they move data."""
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

    return [_each_node(part, settled) for part in parts]


def _made(part: Module) -> dict[Value, Sharding]:
    """The sharding in which every value of a propagated part is made."""
    found = dict(zip(part.graph.inputs, part.in_shardings, strict=True))
    for node in part.graph.nodes:
        found.update(zip(node.results, _shardings_of(node).results, strict=True))
    return found


def _split_further(sharding: Sharding, mesh: Mesh) -> Iterator[Sharding]:
    """The sharding with dims split over axes that do not split it yet: over each of them, and over all."""
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
