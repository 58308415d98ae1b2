"""Combine independent fetches of rows into one message, if the busiest device then sends or receives less.

    before   %a = fetch_rows %x base = 0   %b = fetch_rows %x base = 64      the operands may also be different tensors
    after    %m = fetch_rows %x parts = [...]   %a = slice %m   %b = slice %m

Works on a local program (stage partition). Slices of a fused weight, or rows of a concatenation, are fetched
separately, and each fetch has another busiest device. A separate fetch takes as long as its busiest device; in one
message only the sum per device counts. Overlapping windows of one tensor, such as the taps of a stencil, are fetched
once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from meshgen.ccl.halo import Part, RowFetch, rows_moved
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node
from meshgen.mesh import Mesh
from meshgen.ops.classes import ELEMENTWISE, NEVER_STORED
from meshgen.sharding.optimizations.collective_combine import is_light
from meshgen.sharding.optimizations.walk import merged_notes, with_graph

_MASKS = ELEMENTWISE | NEVER_STORED


@module_pass("fetch-combine", "partition", applies="unless more expensive", requires_ops=("fetch_rows",))
def fetch_combine(module: Module, context: Compilation) -> Module:
    """Return the module with combined fetches; each message is placed where its first fetch was."""
    return with_graph(module, _joined_fetches(module.graph, module.mesh))


@dataclass
class _Message:
    """Fetches that become one message, in program order."""

    place: int  # position of the first fetch
    last: int  # position of the last fetch
    members: list[Node] = field(default_factory=list[Node])
    fetches: list[RowFetch] = field(default_factory=list[RowFetch])


def _joined_fetches(graph: Graph, mesh: Mesh) -> Graph:
    nodes = [
        replace(n, regions=tuple(_joined_fetches(region, mesh) for region in n.regions)) if n.regions else n
        for n in graph.nodes
    ]
    messages = [message for message in _messages(nodes, mesh) if len(message.members) > 1]
    if not messages:
        return replace(graph, nodes=nodes)
    first = {message.members[0]: message for message in messages}
    combined = {node for message in messages for node in message.members}
    kept: list[Node] = []
    for node in nodes:
        kept += _write_message(first[node]) if node in first else [] if node in combined else [node]
    return replace(graph, nodes=kept)


def _messages(nodes: list[Node], mesh: Mesh) -> list[_Message]:
    defined_at = {value: position for position, node in enumerate(nodes) for value in node.results}
    open_messages: dict[Any, list[_Message]] = {}
    for position, node in enumerate(nodes):
        if node.op != "fetch_rows" or not {"wrap", "parts", "divisor"}.isdisjoint(node.attrs.given):
            continue
        fetch = _fetch(node, mesh)
        messages = open_messages.setdefault(_fetch_key(node), [])
        for message in messages:
            is_defined = defined_at.get(node.operands[0], -1) < message.place
            if (
                is_defined
                and _is_near(node, message, nodes[message.last + 1 : position])
                and _is_profitable(message, node, fetch)
            ):
                break
        else:
            message = _Message(position, position)
            messages.append(message)
        message.last = position
        message.members.append(node)
        message.fetches.append(fetch)
    return [message for messages in open_messages.values() for message in messages]


def _fetch(node: Node, mesh: Mesh) -> RowFetch:
    dim, attrs = node.attrs.dim, node.attrs
    tile, rows = node.operands[0].type.sizes[dim], node.result.type.sizes[dim]
    return RowFetch(mesh.group_size(tuple(attrs.axes)), tile, attrs.base, attrs.step, rows, attrs.limit)


def _fetch_key(node: Node) -> tuple[Any, ...]:
    """Return a key that is equal for fetches that can share a message, since their rows have the same shape and
    dtype.
    """
    dim, tensor_type = node.attrs.dim, node.operands[0].type
    return tuple(node.attrs.axes), dim, tensor_type.dtype, tensor_type.sizes[:dim], tensor_type.sizes[dim + 1 :]


def _is_near(node: Node, message: _Message, between: list[Node]) -> bool:
    """Whether a fetch can join a message.

    It either fetches from the same tensor as a member, or only cheap element-wise ops are between both.
    """
    if any(node_between.operands == node.operands for node_between in message.members):
        return True
    return all(
        is_light(node_between) or (node_between.op in _MASKS and not node_between.regions) for node_between in between
    )


def _is_profitable(message: _Message, node: Node, fetch: RowFetch) -> bool:
    """Whether the fetch and the message move less together than separately."""
    members, fetches = [*message.members, node], [*message.fetches, fetch]
    return _moved(members, fetches) < _moved(message.members, message.fetches) + fetch.moved()


def _moved(members: Sequence[Node], fetches: Sequence[RowFetch]) -> int:
    hull = _hull(members, fetches)
    return hull.moved() if hull else rows_moved(fetches)


def _hull(members: Sequence[Node], fetches: Sequence[RowFetch]) -> RowFetch | None:
    """Return one window that covers all fetches, or None if they read several tensors or the window would move more."""
    first = fetches[0]
    if any(m.operands != members[0].operands for m in members) or any(f.step != first.step for f in fetches):
        return None
    base, stop = min(f.base for f in fetches), max(f.base + f.rows for f in fetches)
    hull = replace(first, base=base, rows=stop - base, limit=max(f.limit for f in fetches))
    return hull if hull.moved() <= rows_moved(fetches) else None


def _write_message(message: _Message) -> list[Node]:
    """Write the concatenated tensors, one fetch, and the slices of its result that replace the results of the
    members.
    """
    first, dim = message.members[0], message.members[0].attrs.dim
    builder = Builder(Graph(""), first.loc)
    tensors = list(dict.fromkeys(node.operands[0] for node in message.members))
    tiles = [value.type.sizes[dim] for value in tensors]
    source = tensors[0] if len(tensors) == 1 else builder.concatenate(tensors, dim)
    counts = [fetch.rows for fetch in message.fetches]
    attrs: dict[str, Any] = {"axes": first.attrs.axes, "dim": first.attrs.dim}
    notes = merged_notes(message.members, f"{len(counts)} fetches in one message: its busiest device moves less")
    if hull := _hull(message.members, message.fetches):
        rows, window = hull.rows, {"base": hull.base, "step": hull.step, "limit": hull.limit}
        starts = [fetch.base - hull.base for fetch in message.fetches]
    else:
        offsets = dict(zip(tensors, itertools.accumulate(tiles, initial=0), strict=False))
        member_fetches = zip(message.members, message.fetches, strict=True)
        parts = tuple(
            number for node, fetch in member_fetches for number in Part(offsets[node.operands[0]], fetch).numbers
        )
        rows, first_attrs = sum(counts), first.attrs
        window = {"base": first_attrs.base, "step": first_attrs.step, "limit": first_attrs.limit, "parts": parts}
        starts = list(itertools.accumulate(counts, initial=0))[:-1]
    sizes = [rows if d == dim else size for d, size in enumerate(source.type.sizes)]
    (result,) = builder.append("fetch_rows", [source], [source.type.with_shape(sizes)], attrs | window, notes=notes)
    for node, start, count in zip(message.members, starts, counts, strict=True):
        builder.rows(result, dim, start, start + count)
        builder.make(node.results)
    return builder.graph.nodes
