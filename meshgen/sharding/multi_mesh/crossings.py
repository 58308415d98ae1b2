"""How values cross between the meshes of a program: what one part's propagation tells the others, and the cheapest way over.

A part takes from those that are decided how what crosses between them lies there, as a hint: the same split, as far as
both meshes have the axes. The parts are decided in order of declaration, then once more there and back where a
decision tells a part something new of a value of which it knew nothing. When all are decided, each crossing gets
the two shardings between which it moves data. A value may be reduced and split on the way out, and gathered on the
way in, where that is faster than the network between the meshes; the collectives for it are the parts' own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from meshgen.ccl.between import Ends, between, seconds_between
from meshgen.ir.graph import Graph, Module, Node, NodeSharding, Value
from meshgen.ir.notes import Notes
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.mesh import Mesh, split_ref
from meshgen.sharding.reshard.plan import plan_reshard
from meshgen.spec import Sharding

Stage = Callable[[Module], Module]


def propagate_parts(parts: Sequence[Module], propagate: Stage) -> list[Module]:
    """The parts propagated, each knowing how what crosses lies on other meshes. What they knew stays on the transfers."""
    entered = list(parts)
    found: dict[int, Module] = {}
    forward = range(len(parts))
    for number in (*forward, *reversed(forward), *forward):
        told = _told(entered[number], number, found)
        if number not in found or told is not entered[number]:
            entered[number], found[number] = told, propagate(told)
    return [found[number] for number in forward]


def with_hints(parts: Sequence[Module], propagated: Sequence[Module]) -> list[Module]:
    """Parts that were not propagated, with what `propagate_parts` told them."""
    hints = {
        _key(node): node.notes.hint
        for part in propagated
        for node in part.graph.nodes
        if node.op in BETWEEN_MESHES and node.notes.hint is not None
    }

    def told(node: Node) -> Node:
        hint = hints.get(_key(node)) if node.op in BETWEEN_MESHES else None
        return _hinted(node, hint) if hint else node

    return [_each_node(part, told) for part in parts]


def _told(part: Module, number: int, found: Mapping[int, Module]) -> Module:
    """The part with hints for what crosses and is whole here as far as is known; itself where there is nothing new."""
    there = {
        _key(node): (_end(node), other.mesh)
        for place, other in found.items()
        if place != number
        for node in other.graph.nodes
        if node.op in BETWEEN_MESHES
    }
    here = found.get(number)
    split = (
        {_key(node) for node in here.graph.nodes if node.op in BETWEEN_MESHES and _end(node).split_axes}
        if here
        else set()
    )
    hints: dict[Node, Sharding] = {}
    for node in part.graph.nodes:
        if node.op not in BETWEEN_MESHES or node.notes.hint is not None or _key(node) in split:
            continue
        other = there.get((BETWEEN_MESHES[BETWEEN_MESHES.index(node.op) - 1], node.attrs["channel"]))
        hint = _carried(*other, part.mesh) if other else None
        if hint and hint.split_axes:
            hints[node] = hint
    if not hints:
        return part
    return _each_node(part, lambda node: _hinted(node, hints[node]) if node in hints else node)


def _hinted(node: Node, hint: Sharding) -> Node:
    return replace(node, notes=replace(node.notes, hint=hint))


def _key(node: Node) -> tuple[str, int]:
    return node.op, node.attrs["channel"]


def _end(node: Node) -> Sharding:
    """How what crosses lies on the near side of a propagated transfer."""
    return _shardings_of(node).operands[0] if node.op == "transfer_send" else _shardings_of(node).results[0]


def _each_node(part: Module, change: Callable[[Node], Node]) -> Module:
    graph = part.graph
    return replace(part, graph=Graph(graph.name, graph.inputs, [change(node) for node in graph.nodes], graph.outputs))


def _carried(sharding: Sharding, here: Mesh, there: Mesh) -> Sharding:
    """The same split over axes of the same name and size, per dim as far as there are such."""

    def is_same(ref: str) -> bool:
        name = split_ref(ref)[0]
        return name in there.names and there.axis_size(name) == here.axis_size(name)

    return Sharding(tuple(tuple(itertools.takewhile(is_same, axes)) for axes in sharding.dims))


def alone(part: Module) -> Module:
    """A propagated part to be planned before the others are known: the far side of a crossing lies as the near one."""

    def settled(node: Node) -> Node:
        if node.op not in BETWEEN_MESHES:
            return node
        here = _end(node)
        return replace(node, attrs={**node.attrs, "source": here, "target": here, "peer": part.mesh})

    return _each_node(part, settled)


@dataclass(frozen=True)
class Way:
    """Shardings to cross between, with the time and bytes of what is done before, on the way and behind."""

    source: Sharding
    target: Sharding
    seconds: float
    moved: int


@dataclass(frozen=True)
class Crossing:
    """A value that crosses: the transfers of propagated parts, and how its meshes have and want it."""

    sent: Node
    sender: Mesh
    made: Sharding
    got: Node
    receiver: Mesh

    @property
    def wanted(self) -> Sharding:
        """How the receiving mesh wants the value."""
        return _end(self.got)

    @property
    def sides(self) -> tuple[tuple[Mesh, Node], tuple[Mesh, Node]]:
        """The two meshes and their transfers."""
        return (self.sender, self.sent), (self.receiver, self.got)

    def ways(self) -> Iterator[Way]:
        """Between what is sent and received as the parts were decided, first, and between such with further splits."""
        sources = [_end(self.sent), *_split_further(self.made.without_partial(), self.sender)]
        targets = [self.wanted, *_split_further(self.wanted, self.receiver)]
        yield from itertools.starmap(self._way, itertools.product(dict.fromkeys(sources), dict.fromkeys(targets)))

    def _way(self, source: Sharding, target: Sharding) -> Way:
        kind = self.got.results[0].type
        ends = Ends(kind.sizes, source, self.sender, target, self.receiver)
        before = plan_reshard(kind, self.made, source, self.sender)
        behind = plan_reshard(kind, target, self.wanted, self.receiver)
        seconds = before.seconds + seconds_between(ends, kind.numpy_dtype.itemsize) + behind.seconds
        moved = before.ring_bytes + max(between(ends)) * kind.numpy_dtype.itemsize + behind.ring_bytes
        return Way(source, target, seconds, moved)

    def cheapest(self) -> Way:
        """The way of least time; the first of equals."""
        return min(self.ways(), key=lambda way: (round(way.seconds, 12), way.moved))


def crossings(parts: Sequence[Module]) -> dict[int, Crossing]:
    """What crosses between propagated parts, by channel."""
    sent: dict[int, tuple[Node, Mesh, Sharding]] = {}
    for part in parts:
        made = _made(part)
        for node in part.graph.nodes:
            if node.op == "transfer_send":
                sent[node.attrs["channel"]] = node, part.mesh, made[node.operands[0]]
    received = [(node, part.mesh) for part in parts for node in part.graph.nodes if node.op == "transfer_recv"]
    return {node.attrs["channel"]: Crossing(*sent[node.attrs["channel"]], node, mesh) for node, mesh in received}


def settle(parts: Sequence[Module]) -> list[Module]:
    """Propagated parts whose transfers know the shardings between which they move data."""
    ways = {channel: crossing.cheapest() for channel, crossing in crossings(parts).items()}

    def settled(node: Node) -> Node:
        if node.op not in BETWEEN_MESHES:
            return node
        way, shardings = ways[node.attrs["channel"]], _shardings_of(node)
        if node.op == "transfer_send":
            shardings = replace(shardings, operands=(way.source, *shardings.operands[1:]))
        else:
            shardings = replace(shardings, results=(way.target, *shardings.results[1:]))
        why = "; ".join(filter(None, (node.notes.why, f"it crosses from {way.source} to {way.target}")))
        attrs = {**node.attrs, "source": way.source, "target": way.target}
        return replace(node, sharding=shardings, attrs=attrs, notes=Notes(why))

    return [_each_node(part, settled) for part in parts]


def _made(part: Module) -> dict[Value, Sharding]:
    """How every value of a propagated part is made."""
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
