"""Sink a concatenation below concatenations along other dims, next to its user.

    before   %j = concatenate %a, %x along 0     %s = slice %j     %y = concatenate %s, %j along 1
    after    %p = concatenate (slice %a), %a along 1     %q = concatenate (slice %x), %x along 1
             %y = concatenate %p, %q along 0

`jnp.pad(x, 1, mode="wrap")` joins rows, then columns of the result. In the other order, a convolution is the user of
the concatenated rows. It fetches the rows that it needs from the tensor itself, as a halo, whereas the joined tensor
would have its own tiles.
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
    """A concatenation that is not emitted yet: its dim and its parts."""

    dim: int
    parts: tuple[Value, ...]

    @property
    def sizes(self) -> list[int]:
        return [part.type.sizes[self.dim] for part in self.parts]


@graph_pass("concatenate-sink", applies="if cheaper")
def concatenate_sink(graph: Graph) -> Graph | None:
    """Return the rewritten graph, or None if no concatenation is followed by an op along another dim."""
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
        self.moved = 0  # number of ops that were emitted once per part

    def plain(self, value: Value) -> Value:
        """Return the value itself, after emitting its concatenation if that was deferred."""
        if (join := self._joins.pop(value, None)) is not None:
            super().add(Node("concatenate", list(join.parts), [value], {"dim": join.dim}, self._producers[value].loc))
        return value

    def write(self, node: Node) -> None:
        if node.option is None and not node.regions and self._try_defer(node):
            return
        for value in (*node.operands, *captured(node)):
            self.plain(value)
        super().add(node)

    def _try_defer(self, node: Node) -> bool:
        """Emit the node per part, or defer its concatenation. Return whether either was possible."""
        joins = [self._joins.get(value) for value in node.operands]
        if node.op == "concatenate":
            return self._concatenate(node, joins)
        join = joins[0] if joins else None
        if join is None:
            return False
        if node.op == "slice" and (part_slice := self._inside(node, join)) is not None:
            self.add(replace(node, operands=[part_slice[0]], attrs=part_slice[1]))
            self.moved += 1
            return True
        if not _is_along_others(node, join):
            return False
        self._emit_per_part(node, [join], [[part, *node.operands[1:]] for part in join.parts])
        return True

    def _concatenate(self, node: Node, joins: Sequence[_Join | None]) -> bool:
        dim, deferred = node.attrs.dim, [join for join in joins if join is not None]
        first = deferred[0] if deferred else None
        is_joined = first is not None and first.dim != dim and len(deferred) == len(joins)
        if is_joined and len({(join.dim, *join.sizes) for join in deferred}) == 1:
            self._emit_per_part(
                node, deferred, [list(parts) for parts in zip(*(join.parts for join in deferred), strict=True)]
            )
            return True
        parts = [
            part
            for value, join in zip(node.operands, joins, strict=True)
            for part in (join.parts if join and join.dim == dim else [self.plain(value)])
        ]
        self._joins[node.result] = _Join(dim, tuple(parts))
        return True

    def _emit_per_part(self, node: Node, joins: Sequence[_Join], operands: Sequence[list[Value]]) -> None:
        """Emit the node once per part. For a part that is a slice of another part, emit a slice of that part's
        result.
        """
        self.loc = node.loc
        dim, results = joins[0].dim, dict[int, Value]()
        cuts = [self._cut_of(joins, index) for index in range(len(operands))]
        for index in sorted(range(len(operands)), key=lambda n: cuts[n] is not None):
            cut, values = cuts[index], operands[index]
            rows = values[0].type.sizes[dim]
            shape = [rows if d == dim else size for d, size in enumerate(node.result.type.sizes)]
            if cut is None:
                attrs = _on_part(node, dim, rows)
                results[index] = self.emit(node.op, values, node.result.type.with_shape(shape), **attrs)
            else:
                results[index] = self.rows(results[cut[0]], dim, cut[1], cut[1] + rows)
        self._joins[node.result] = _Join(dim, tuple(results[index] for index in range(len(operands))))
        self.moved += 1

    def _cut_of(self, joins: Sequence[_Join], number: int) -> tuple[int, int] | None:
        """Return the index of the part that part `number` is a slice of, and the slice's first row.

        Returns None if the part is not such a slice in all `joins`.
        """
        sources: set[tuple[int, int] | None] = set()
        for join in joins:
            node, dim = self._producers.get(join.parts[number]), join.dim
            source = None
            if node is not None and node.op == "slice" and node.operands[0] in join.parts:
                cut = [d for d, size in enumerate(node.operands[0].type.sizes) if node.result.type.sizes[d] != size]
                if cut == [dim] and node.attrs.stride[dim] == 1:
                    source = join.parts.index(node.operands[0]), node.attrs.start[dim]
            sources.add(source)
        return sources.pop() if len(sources) == 1 else None

    def _inside(self, node: Node, join: _Join) -> tuple[Value, dict[str, Any]] | None:
        """Return the part that contains all rows of a slice, with the slice's attributes on it, or None if no part
        contains them all.
        """
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
    """Whether an op moves elements only along dims other than the concatenated one."""
    dim, attrs = join.dim, node.attrs
    if node.op == "slice":
        return (attrs.start[dim], attrs.limit[dim], attrs.stride[dim]) == (0, sum(join.sizes), 1)
    if node.op == "pad":
        return not any(getattr(attrs, name)[dim] for name in ("low", "high", "interior"))
    return node.op == "reverse" and dim not in attrs.dims


def _on_part(node: Node, dim: int, rows: int) -> dict[str, Any]:
    """Return the attributes of the op when it runs on a part of `rows` rows instead of the complete concatenation."""
    if node.op != "slice":
        return dict(node.attrs)
    return node.attrs | {"limit": tuple(rows if d == dim else end for d, end in enumerate(node.attrs.limit))}
