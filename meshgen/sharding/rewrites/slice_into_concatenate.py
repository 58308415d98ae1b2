"""A slice of a concatenation becomes a concatenation of slices: what wraps around is then a rotation.

`jnp.pad(x, 1, mode="wrap")` joins the last row, x and the first row; a stencil then slices that. The joined tensor, a
little larger than x, would have other tiles than what is made from it.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import needed_nodes, rewired, used_values
from meshgen.sharding.rewrites.graph_passes import graph_pass

_Cut = tuple[tuple[int, int], ...]  # [start, stop) of each dim


@graph_pass("slice-into-concatenate", applies="if cheaper")
def slice_into_concatenate(graph: Graph) -> Graph | None:
    """Before: `slice (concatenate %a, %b) [1:]`.   After: `concatenate (slice %a [1:]), %b`. None if there is none.

    Only concatenations that are used by slices alone.
    """
    writer = _CutWriter(graph)
    for node in graph.nodes:
        if node.op != "slice" or not writer.is_cut_join(node.operands[0]) or set(node.attrs.stride) != {1}:
            writer.graph.nodes.append(node)
            continue
        writer.loc = node.loc
        limits = zip(node.attrs.start, node.attrs.limit, strict=True)
        writer.replaced[node.result] = writer.cut(node.operands[0], tuple(limits))
    if not writer.replaced:
        return None
    nodes = [rewired(node, writer.replaced) for node in writer.graph.nodes]
    outputs = [writer.latest(value) for value in graph.outputs]
    return _without_unused(replace(graph, nodes=nodes, outputs=outputs))


class _CutWriter(Builder):
    def __init__(self, graph: Graph) -> None:
        super().__init__(Graph(graph.name))
        self._producers, self._uses = dict(graph.index.producers), dict(graph.index.uses)
        self._outputs = set(graph.outputs)
        self._inner = {value for node in graph.nodes for region in node.regions for value in used_values(region)}
        self._made: dict[tuple[Value, _Cut], Value] = {}
        self.replaced: dict[Value, Value] = {}

    def latest(self, value: Value) -> Value:
        return self.replaced.get(value, value)

    def is_cut_join(self, value: Value) -> bool:
        """Whether a value is a concatenation that only slices use, or a slice of one that only slices use."""
        node = self._producers.get(value)
        if node is None or node.op != "concatenate" or value in self._outputs or value in self._inner:
            return False
        users = self._uses[value]
        return node.option is None and bool(users) and all(self._is_slice(user) for user, _ in users)

    def _is_slice(self, node: Node) -> bool:
        """A slice, or a concatenation of slices that is itself sliced again."""
        is_plain = node.op == "slice" and set(node.attrs.stride) == {1} and node.option is None
        return is_plain or (node.op == "concatenate" and self.is_cut_join(node.result))

    def cut(self, value: Value, cut: _Cut) -> Value:
        """A slice of a value, made of slices of the operands that it concatenates."""
        value = self.latest(value)
        if all(part == (0, size) for part, size in zip(cut, value.type.sizes, strict=True)):
            return value
        if (value, cut) not in self._made:
            self._made[value, cut] = self._cut(value, cut)
        return self._made[value, cut]

    def _cut(self, value: Value, cut: _Cut) -> Value:
        node = self._producers.get(value)
        if node is not None and node.op == "slice" and self._is_slice(node):
            moved = [(a + s, b + s) for (a, b), s in zip(cut, node.attrs.start, strict=True)]
            return self.cut(node.operands[0], tuple(moved))
        if not self.is_cut_join(value):
            return self.slice(value, *zip(*cut, strict=True))
        assert node is not None, "joined"
        dim = node.attrs.dim
        first, stop = cut[dim]
        ends = list(itertools.accumulate((v.type.sizes[dim] for v in node.operands), initial=0))
        parts = [
            self.cut(piece, (*cut[:dim], (max(first - a, 0), min(stop, b) - a), *cut[dim + 1 :]))
            for piece, (a, b) in zip(node.operands, itertools.pairwise(ends), strict=True)
            if max(first, a) < min(stop, b)
        ] or [self.cut(node.operands[0], (*cut[:dim], (0, 0), *cut[dim + 1 :]))]  # of no rows
        return parts[0] if len(parts) == 1 else self.concatenate(parts, dim)

    def add(self, node: Node) -> None:
        super().add(node)
        self._producers[node.result] = node
        self._uses[node.result] = []


def _without_unused(graph: Graph) -> Graph:
    """The graph without concatenations and slices that have no use left."""
    nodes = needed_nodes(graph.nodes, graph.outputs, lambda node: node.op not in ("slice", "concatenate"))
    return replace(graph, nodes=nodes)
