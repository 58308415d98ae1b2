"""Fetches of rows that do not wait for each other share a message, where the busiest device then moves less.

Works on a local program (stage partition). What is taken apart of a fused weight, or joined from two tensors, is
fetched in pieces, and each piece keeps other devices busy: on its own every fetch takes as long as its busiest device,
in one message only the sum of what a device sends or receives counts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

from meshgen.ccl.halo import Part, parts_of, rows_moved
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.mesh import Mesh
from meshgen.sharding.optimizations.combine import is_light
from meshgen.sharding.optimizations.rewrite import merged_why


def join_fetches(module: Module) -> Module:
    """Before: `%a = fetch_rows %x base = 0   %b = fetch_rows %x base = 64`, `%x` or other tensors with such rows.

    After: `%m = fetch_rows %x parts = [...]   %a = slice %m   %b = slice %m`, where the first one stood.
    """
    return replace(module, graph=_joined(module.graph, module.mesh))


@dataclass
class _Message:
    """Fetches of one message, in program order; `place` is that of the first."""

    place: int
    last: int  # place of the last
    members: list[Node] = field(default_factory=list[Node])
    parts: list[Part] = field(default_factory=list[Part])
    apart: int = 0  # rows that they move each by itself


def _joined(graph: Graph, mesh: Mesh) -> Graph:
    nodes = [
        replace(n, regions=tuple(_joined(region, mesh) for region in n.regions)) if n.regions else n
        for n in graph.nodes
    ]
    found = [message for message in _messages(nodes, mesh) if len(message.members) > 1]
    if not found:
        return replace(graph, nodes=nodes)
    first = {message.members[0]: message for message in found}
    gone = {node for message in found for node in message.members}
    kept: list[Node] = []
    for node in nodes:
        kept += _write(first[node]) if node in first else [] if node in gone else [node]
    return replace(graph, nodes=kept)


def _messages(nodes: list[Node], mesh: Mesh) -> list[_Message]:
    made = {value: place for place, node in enumerate(nodes) for value in node.results}
    opened: dict[Any, list[_Message]] = {}
    for place, node in enumerate(nodes):
        if node.op != "fetch_rows" or node.attrs.get("wrap"):
            continue
        messages = opened.setdefault(_key(node), [])
        parts = _parts(node, mesh)
        moved = rows_moved([part.fetch for part in parts])
        for message in messages:
            together = rows_moved([part.fetch for part in (*message.parts, *parts)])
            is_known = made.get(node.operands[0], -1) < message.place
            if (
                is_known
                and _is_near(node, message, nodes[message.last + 1 : place])
                and together < message.apart + moved
            ):
                break
        else:
            message = _Message(place, place)
            messages.append(message)
        message.last = place
        message.members.append(node)
        message.parts += parts
        message.apart += moved
    return [message for messages in opened.values() for message in messages]


def _is_near(node: Node, message: _Message, between: list[Node]) -> bool:
    """Whether a fetch belongs to a message: it is of one of its tensors, or no work lies between."""
    return any(other.operands == node.operands for other in message.members) or all(map(is_light, between))


def _key(node: Node) -> tuple[Any, ...]:
    """Fetches of the same key may share a message: their rows are alike."""
    dim, kind = node.attrs["dim"], node.operands[0].type
    return tuple(node.attrs["axes"]), dim, kind.dtype, kind.sizes[:dim], kind.sizes[dim + 1 :]


def _parts(node: Node, mesh: Mesh) -> list[Part]:
    dim = node.attrs["dim"]
    tile, rows = node.operands[0].type.sizes[dim], node.result.type.sizes[dim]
    return parts_of(node.attrs, tile, rows, mesh.group_size(tuple(node.attrs["axes"])))


def _write(message: _Message) -> list[Node]:
    """The tensors joined, their one fetch, and its result cut apart; the cuts make the values of the members."""
    first, dim = message.members[0], message.members[0].attrs["dim"]
    nodes: list[Node] = []

    def emit(op: str, operands: list[Value], rows: int, **attrs: Any) -> Value:
        sizes = [rows if d == dim else size for d, size in enumerate(operands[0].type.sizes)]
        result = Value(operands[0].type.with_shape(sizes), loc=first.loc)
        nodes.append(Node(op, operands, [result], attrs, first.loc))
        return result

    tensors = list(dict.fromkeys(node.operands[0] for node in message.members))
    tiles = [value.type.sizes[dim] for value in tensors]
    begin = dict(zip(tensors, itertools.accumulate(tiles, initial=0), strict=False))
    source = tensors[0] if len(tensors) == 1 else emit("concatenate", tensors, sum(tiles), dim=dim)
    counts = [node.result.type.sizes[dim] for node in message.members]
    why = merged_why(message.members, f"{len(counts)} fetches in one message: its busiest device moves less")
    numbers = _numbers(message, begin)
    attrs = {name: first.attrs[name] for name in ("axes", "dim", "base", "step", "limit")}
    result = emit("fetch_rows", [source], sum(counts), **attrs, parts=numbers, **why)
    ends = itertools.accumulate(counts, initial=0)
    for node, (start, stop) in zip(message.members, itertools.pairwise(ends), strict=True):
        low, high = [0] * result.type.rank, [*result.type.sizes]
        low[dim], high[dim] = start, stop
        cut = {"start": tuple(low), "limit": tuple(high), "stride": (1,) * len(low)}
        emit("slice", [result], stop - start, **cut)
        nodes[-1].results[:] = node.results
    return nodes


def _numbers(message: _Message, begin: dict[Value, int]) -> tuple[int, ...]:
    """The parts in terms of the joined tensor."""
    found: list[int] = []
    parts = iter(message.parts)
    for node in message.members:
        count = max(1, len(node.attrs.get("parts", ())) // len(message.parts[0].numbers))
        for part in itertools.islice(parts, count):
            found += replace(part, start=part.start + begin[node.operands[0]]).numbers
    return tuple(found)
