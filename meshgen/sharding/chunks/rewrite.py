"""Rewrite the nodes of a chain in chunks: slice unchunked operands, and concatenate results that are read in full.

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
from meshgen.ops.dead_code import without_dead
from meshgen.sharding.chunks.chain import CHUNKED, Chain
from meshgen.sharding.optimizations.loops_on_tiles import attrs_on_tiles, tile_of
from meshgen.sharding.optimizations.walk import merged_notes


def in_chunks(graph: Graph, chain: Chain) -> Graph:
    """Return a bitwise equivalent program in which the nodes of the chain run chunk by chunk."""
    return _Rewriter(graph, chain).run()


class _Rewriter:
    """Rewrites one graph; chunks and concatenations of a value are emitted once, at the first use."""

    def __init__(self, graph: Graph, chain: Chain) -> None:
        self._graph, self._chain = graph, chain
        self._out = Graph(graph.name, list(graph.inputs))
        self._builder = Builder(self._out)
        self._chunks: dict[tuple[Value, int | None], list[Value]] = {}  # (value, chunked dim) -> chunks
        self._unjoined: dict[Value, int] = {}  # values whose chunks are not concatenated yet -> chunked dim

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
        """Emit the chunks of a node, one after the other."""
        loop, count = self._chain.loops[node], self._chain.count
        operands = [self._operand_chunks(value, dim) for value, dim in zip(node.operands, loop.operands, strict=True)]
        tile_type = tile_of(node.result.type, loop.result, count)
        attrs, note = (
            attrs_on_tiles(node, loop, count),
            f"{count} chunks along dim {loop.result}, which overlap with computing",
        )
        notes = merged_notes([node], note) if node.op in CHUNKED else node.notes
        results = [replace(node.result, type=tile_type) for _ in range(count)]
        for index, result in enumerate(results):
            chunk_operands = [pieces[index] for pieces in operands]
            self._out.nodes.append(Node(node.op, chunk_operands, [result], dict(attrs), node.loc, notes=notes))
        self._chunks[node.result, loop.result] = results
        self._unjoined[node.result] = loop.result

    def _operand_chunks(self, value: Value, dim: int | None) -> Sequence[Value]:
        """Return the operand for each chunk: rows of `value` along `dim`, or the complete value if the chunks do not
        split it.
        """
        if (value, dim) in self._chunks:
            return self._chunks[value, dim]
        self._join(value)
        chunks = [value if dim is None else self._slice(value, dim, n) for n in range(self._chain.count)]
        self._chunks[value, dim] = chunks
        return chunks

    def _slice(self, value: Value, dim: int, index: int) -> Value:
        tile_type = tile_of(value.type, dim, self._chain.count)
        rows = tile_type.sizes[dim]
        self._builder.loc = value.loc
        return self._builder.rows(value, dim, index * rows, (index + 1) * rows)

    def _join(self, value: Value) -> None:
        """Concatenate the chunks of a value; its users keep reading the same value."""
        if value in self._unjoined:
            dim = self._unjoined.pop(value)
            self._builder.loc = value.loc
            self._builder.concatenate(self._chunks[value, dim], dim)
            self._builder.make([value])
