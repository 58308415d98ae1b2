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
from meshgen.ir.infer_sharding import BETWEEN
from meshgen.mesh import Mesh, split_ref
from meshgen.sharding.reshard import plan_reshard
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
        _key(node): node.attrs["hint"]
        for part in propagated
        for node in part.graph.nodes
        if node.op in BETWEEN and "hint" in node.attrs
    }

    def told(node: Node) -> Node:
        hint = hints.get(_key(node)) if node.op in BETWEEN else None
        return replace(node, attrs={**node.attrs, "hint": hint}) if hint else node

    return [_each_node(part, told) for part in parts]


def _told(part: Module, number: int, found: Mapping[int, Module]) -> Module:
    """The part with hints for what crosses and is whole here as far as is known; itself where there is nothing new."""
    there = {
        _key(node): (_end(node), other.mesh)
        for place, other in found.items()
        if place != number
        for node in other.graph.nodes
        if node.op in BETWEEN
    }
    here = found.get(number)
    split = {_key(node) for node in here.graph.nodes if node.op in BETWEEN and _end(node).split_axes} if here else set()
    hints: dict[Node, Sharding] = {}
    for node in part.graph.nodes:
        if node.op not in BETWEEN or "hint" in node.attrs or _key(node) in split:
            continue
        other = there.get((BETWEEN[BETWEEN.index(node.op) - 1], node.attrs["channel"]))
        hint = _carried(*other, part.mesh) if other else None
        if hint and hint.split_axes:
            hints[node] = hint
    if not hints:
        return part
    return _each_node(
        part, lambda node: replace(node, attrs={**node.attrs, "hint": hints[node]}) if node in hints else node
    )


def _key(node: Node) -> tuple[str, int]:
    return node.op, node.attrs["channel"]


def _end(node: Node) -> Sharding:
    """How what crosses lies on the near side of a propagated transfer."""
    return _lies(node).operands[0] if node.op == "transfer_send" else _lies(node).results[0]


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
        if node.op not in BETWEEN:
            return node
        here = _end(node)
        return replace(node, attrs={**node.attrs, "source": here, "target": here, "peer": part.mesh})

    return _each_node(part, settled)


@dataclass(frozen=True)
class _Side:
    """One end of a crossing: where it stands, and the sharding in which its mesh has or wants the value."""

    part: int
    place: int
    node: Node
    sharding: Sharding
    mesh: Mesh


def settle(parts: Sequence[Module]) -> list[Module]:
    """Propagated parts whose transfers know the shardings between which they move data."""
    sides = {each.node.attrs["channel"]: each for each in _sides(parts, "transfer_send")}
    nodes = [list(part.graph.nodes) for part in parts]
    for got in _sides(parts, "transfer_recv"):
        sent = sides[got.node.attrs["channel"]]
        source, target = _cheapest(sent, _lies(sent.node).operands[0], got)
        note = f"; it crosses from {source} to {target}"
        attrs = {"source": source, "target": target}
        for side in (sent, got):
            lies, end = _lies(side.node), source if side is sent else target
            moved = (
                replace(lies, operands=(end, *lies.operands[1:]))
                if side is sent
                else replace(lies, results=(end, *lies.results[1:]))
            )
            kept = {name: value for name, value in side.node.attrs.items() if name != "hint"}
            named = {**kept, **attrs, "why": kept["why"] + note}
            nodes[side.part][side.place] = replace(side.node, attrs=named, sharding=moved)
    graphs = [Graph(p.graph.name, p.graph.inputs, n, p.graph.outputs) for p, n in zip(parts, nodes, strict=True)]
    return [replace(part, graph=graph) for part, graph in zip(parts, graphs, strict=True)]


def _sides(parts: Sequence[Module], op: str) -> Iterator[_Side]:
    for number, part in enumerate(parts):
        made = _made(part)
        for place, node in enumerate(part.graph.nodes):
            if node.op == op:
                here = made[node.operands[0] if op == "transfer_send" else node.results[0]]
                yield _Side(number, place, node, here, part.mesh)


def _made(part: Module) -> dict[Value, Sharding]:
    """How every value of a propagated part is made."""
    found = dict(zip(part.graph.inputs, part.in_shardings, strict=True))
    for node in part.graph.nodes:
        found.update(zip(node.results, _lies(node).results, strict=True))
    return found


def _cheapest(sent: _Side, wanted: Sharding, got: _Side) -> tuple[Sharding, Sharding]:
    """The shardings to cross between: least time of what is done before, on the way and behind; the plain way of equals."""
    kind = got.node.results[0].type

    def cost(pair: tuple[Sharding, Sharding]) -> tuple[float, int]:
        source, target = pair
        ends = Ends(kind.sizes, source, sent.mesh, target, got.mesh)
        before = plan_reshard(kind, sent.sharding, source, sent.mesh)
        behind = plan_reshard(kind, target, got.sharding, got.mesh)
        seconds = before.seconds + seconds_between(ends, kind.numpy_dtype.itemsize) + behind.seconds
        moved = before.ring_bytes + max(between(ends)) * kind.numpy_dtype.itemsize + behind.ring_bytes
        return round(seconds, 12), moved

    sources = [wanted, *_split_further(sent.sharding.without_partial(), sent.mesh)]
    targets = [got.sharding, *_split_further(got.sharding, got.mesh)]
    return min(itertools.product(dict.fromkeys(sources), dict.fromkeys(targets)), key=cost)


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


def _lies(node: Node) -> NodeSharding:
    assert node.sharding is not None, "the parts are propagated"
    return node.sharding
