"""A concatenation moves below concatenations along other dims, next to the operation that reads it.

`jnp.pad(x, 1, mode="wrap")` joins rows, and then columns of that. Written the other way round, a convolution sees the joined
rows and fetches those that it looks at from the tensor itself: a halo, where the joined tensor has tiles of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import captured, needed_nodes
from meshgen.sharding.rewrites.graph_passes import graph_pass


class _Join(NamedTuple):
    """A value that is not emitted yet: its parts along a dim."""

    dim: int
    parts: tuple[Value, ...]

    @property
    def sizes(self) -> list[int]:
        return [part.type.sizes[self.dim] for part in self.parts]


@graph_pass("concatenate-sink", applies="if cheaper")
def concatenate_sink(graph: Graph) -> Graph | None:
    """Before: `concatenate (slice %j), %j along 1`, with `%j = concatenate %a, %x along 0`.   After: parts of both joined along 1, these along 0.

    None if no op along another dim follows a concatenation.
    """
    writer = _PartwiseWriter(graph)
    for node in graph.nodes:
        writer.write(node)
    outputs = [writer.plain(value) for value in graph.outputs]
    if not writer.moved:
        return None
    nodes = needed_nodes(writer.graph.nodes, outputs, lambda node: node.op not in ("concatenate", "slice"))
    return replace(graph, nodes=nodes, outputs=outputs)


class _PartwiseWriter(Builder):
    def __init__(self, graph: Graph) -> None:
        super().__init__(Graph(graph.name))
        self._producers = dict(graph.index.producers)
        self._joins: dict[Value, _Join] = {}
        self.moved = 0  # ops that were emitted per part

    def plain(self, value: Value) -> Value:
        """The value itself, joined here if it was not yet."""
        if (join := self._joins.pop(value, None)) is not None:
            super().add(Node("concatenate", list(join.parts), [value], {"dim": join.dim}, self._producers[value].loc))
        return value

    def write(self, node: Node) -> None:
        if node.option is None and not node.regions and self._deferred(node):
            return
        for value in (*node.operands, *captured(node)):
            self.plain(value)
        super().add(node)

    def _deferred(self, node: Node) -> bool:
        """Whether the node was emitted per part, or its concatenation is deferred."""
        joins = [self._joins.get(value) for value in node.operands]
        if node.op == "concatenate":
            return self._concatenate(node, joins)
        join = joins[0] if joins else None
        if join is None:
            return False
        if node.op == "slice" and (whole := self._inside(node, join)) is not None:
            self.add(replace(node, operands=[whole[0]], attrs=whole[1]))
            self.moved += 1
            return True
        if not _is_along_others(node, join):
            return False
        self._each(node, [join], [[part, *node.operands[1:]] for part in join.parts])
        return True

    def _concatenate(self, node: Node, joins: Sequence[_Join | None]) -> bool:
        dim, found = node.attrs.dim, [join for join in joins if join is not None]
        first = found[0] if found else None
        is_joined = first is not None and first.dim != dim and len(found) == len(joins)
        if is_joined and len({(join.dim, *join.sizes) for join in found}) == 1:
            self._each(node, found, [list(parts) for parts in zip(*(join.parts for join in found), strict=True)])
            return True
        parts = [
            part
            for value, join in zip(node.operands, joins, strict=True)
            for part in (join.parts if join and join.dim == dim else [self.plain(value)])
        ]
        self._joins[node.result] = _Join(dim, tuple(parts))
        return True

    def _each(self, node: Node, joins: Sequence[_Join], operands: Sequence[list[Value]]) -> None:
        """The node on each part. A part that is a slice of another one becomes a slice of that one's result."""
        self.loc = node.loc
        dim, made = joins[0].dim, dict[int, Value]()
        cuts = [self._cut_of(joins, number) for number in range(len(operands))]
        for number in sorted(range(len(operands)), key=lambda n: cuts[n] is not None):
            cut, values = cuts[number], operands[number]
            rows = values[0].type.sizes[dim]
            shape = [rows if d == dim else size for d, size in enumerate(node.result.type.sizes)]
            if cut is None:
                attrs = _on_part(node, dim, rows)
                made[number] = self.emit(node.op, values, node.result.type.with_shape(shape), **attrs)
            else:
                made[number] = self.rows(made[cut[0]], dim, cut[1], cut[1] + rows)
        self._joins[node.result] = _Join(dim, tuple(made[number] for number in range(len(operands))))
        self.moved += 1

    def _cut_of(self, joins: Sequence[_Join], number: int) -> tuple[int, int] | None:
        """The other part that this one is a slice of, in all concatenations alike, and the first row; None if there is none."""
        found: set[tuple[int, int] | None] = set()
        for join in joins:
            node, dim = self._producers.get(join.parts[number]), join.dim
            place = None
            if node is not None and node.op == "slice" and node.operands[0] in join.parts:
                cut = [d for d, size in enumerate(node.operands[0].type.sizes) if node.result.type.sizes[d] != size]
                if cut == [dim] and node.attrs.stride[dim] == 1:
                    place = join.parts.index(node.operands[0]), node.attrs.start[dim]
            found.add(place)
        return found.pop() if len(found) == 1 else None

    def _inside(self, node: Node, join: _Join) -> tuple[Value, dict[str, Any]] | None:
        """The part that holds all rows of a slice, and the slice of it; None if it takes rows of several parts, or all."""
        start, limit = (list(getattr(node.attrs, name)) for name in ("start", "limit"))
        for part, begin in zip(join.parts, itertools.accumulate(join.sizes, initial=0), strict=False):
            if begin <= start[join.dim] < limit[join.dim] <= begin + part.type.sizes[join.dim]:
                start[join.dim] -= begin
                limit[join.dim] -= begin
                return part, node.attrs | {"start": tuple(start), "limit": tuple(limit)}
        return None

    def add(self, node: Node) -> None:
        super().add(node)
        self._producers[node.result] = node


def _is_along_others(node: Node, join: _Join) -> bool:
    """Whether an op moves elements along other dims than a joined one."""
    dim, attrs = join.dim, node.attrs
    if node.op == "slice":
        return (attrs.start[dim], attrs.limit[dim], attrs.stride[dim]) == (0, sum(join.sizes), 1)
    if node.op == "pad":
        return not any(getattr(attrs, name)[dim] for name in ("low", "high", "interior"))
    return node.op == "reverse" and dim not in attrs.dims


def _on_part(node: Node, dim: int, rows: int) -> dict[str, Any]:
    """The attributes of the op on a part of `rows` rows."""
    if node.op != "slice":
        return dict(node.attrs)
    return node.attrs | {"limit": tuple(rows if d == dim else end for d, end in enumerate(node.attrs.limit))}
