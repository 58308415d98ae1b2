"""Rewrite the nodes of a chain in chunks: slices of whole operands, concatenations of results that are read whole.

before   %h = dot_general %x, %w   %s = all_reduce %h   %y = tanh %s                      f32[8,16]
after    %x0 = slice %x [0:4]  %h0 = dot_general %x0, %w  %s0 = all_reduce %h0  %y0 = tanh %s0
         %x1 = slice %x [4:8]  %h1 = dot_general %x1, %w  %s1 = all_reduce %h1  %y1 = tanh %s1
         %y = concatenate %y0, %y1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import used_by
from meshgen.ops.live import without_dead
from meshgen.sharding.chunks.chain import CHUNKED, Chain
from meshgen.sharding.optimizations.rewrite import merged_notes
from meshgen.sharding.optimizations.tiled import attrs_on_tiles, tile_of


def in_chunks(graph: Graph, chain: Chain) -> Graph:
    """An equivalent program, to the last bit, in which the nodes of the chain run chunk by chunk."""
    return _Rewriter(graph, chain).run()


class _Rewriter:
    """Chunks of values and their concatenations are made once, at the first use."""

    def __init__(self, graph: Graph, chain: Chain) -> None:
        self._graph, self._chain = graph, chain
        self._out = Graph(graph.name, list(graph.inputs))
        self._builder = Builder(self._out)
        self._chunks: dict[tuple[Value, int | None], list[Value]] = {}  # of a value along a dim
        self._made: dict[Value, int] = {}  # values in chunks that are not concatenated yet, with the dim

    def run(self) -> Graph:
        for node in self._graph.nodes:
            if node in self._chain.loops:
                self._cut(node)
            else:
                for value in used_by(node):
                    self._join(value)
                self._out.nodes.append(node)
        for value in self._graph.outputs:
            self._join(value)
        self._out.outputs = list(self._graph.outputs)
        return without_dead(self._out)

    def _cut(self, node: Node) -> None:
        """The chunks of a node, one after the other."""
        loop, count = self._chain.loops[node], self._chain.count
        operands = [self._pieces(value, dim) for value, dim in zip(node.operands, loop.operands, strict=True)]
        kind = tile_of(node.result.type, loop.result, count)
        attrs, note = (
            attrs_on_tiles(node, loop, count),
            f"{count} chunks along dim {loop.result}, which overlap with computing",
        )
        notes = merged_notes([node], note) if node.op in CHUNKED else node.notes
        results = [replace(node.result, type=kind) for _ in range(count)]
        for number, result in enumerate(results):
            taken = [pieces[number] for pieces in operands]
            self._out.nodes.append(Node(node.op, taken, [result], dict(attrs), node.loc, notes=notes))
        self._chunks[node.result, loop.result] = results
        self._made[node.result] = loop.result

    def _pieces(self, value: Value, dim: int | None) -> Sequence[Value]:
        """The operand of each chunk: a value's rows along the dim, or all of it."""
        if (value, dim) in self._chunks:
            return self._chunks[value, dim]
        self._join(value)
        pieces = [value if dim is None else self._slice(value, dim, n) for n in range(self._chain.count)]
        self._chunks[value, dim] = pieces
        return pieces

    def _slice(self, value: Value, dim: int, number: int) -> Value:
        kind = tile_of(value.type, dim, self._chain.count)
        rows = kind.sizes[dim]
        self._builder.loc = value.loc
        return self._builder.rows(value, dim, number * rows, (number + 1) * rows)

    def _join(self, value: Value) -> None:
        """Concatenate a value that was made in chunks; its users keep reading the same value."""
        if value in self._made:
            dim = self._made.pop(value)
            self._builder.loc = value.loc
            self._builder.concatenate(self._chunks[value, dim], dim)
            self._builder.make([value])
