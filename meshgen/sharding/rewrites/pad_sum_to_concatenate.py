"""Replace a sum of zero-padded tensors that do not overlap by their concatenation.

    before   %1 = pad %a high = 3   %2 = pad %b low = 5   %3 = add %1, %2
    after    %3 = concatenate %a, %b

Gradients of slices have this form, for example if a tensor was split or rotated. A concatenation moves all rows to
their positions at once, whereas each padded operand is as large as the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import needed_nodes
from meshgen.ops.constants import splat_of
from meshgen.sharding.rewrites.graph_passes import graph_pass


class _Rows(NamedTuple):
    """A sum of zero-padded tensors: the tensors, and the row of a larger tensor at which each starts, in ascending
    order.

    All other rows of the larger tensor, along `dim`, are zero.
    """

    dim: int
    parts: tuple[tuple[int, Value], ...]

    def beside(self, other: _Rows) -> _Rows | None:
        """Return the union of both sets of rows, or None if some overlap."""
        if self.dim != other.dim:
            return None
        parts = sorted((*self.parts, *other.parts), key=lambda part: part[0])
        ends = [start + value.type.sizes[self.dim] for start, value in parts]
        is_apart = all(end <= start for end, (start, _) in zip(ends, parts[1:], strict=False))
        return _Rows(self.dim, tuple(parts)) if is_apart else None

    def fills(self, size: int) -> bool:
        """Whether the parts cover all rows of the larger tensor."""
        return sum(value.type.sizes[self.dim] for _, value in self.parts) == size


@graph_pass("pad-sum-to-concatenate")
def pad_sum_to_concatenate(graph: Graph) -> Graph | None:
    """Return the rewritten graph, or None if it has no sum of zero-padded tensors."""
    producers, rows = graph.index.producers, dict[Value, _Rows]()
    nodes: list[Node] = []
    for node in graph.nodes:
        padded = _padded_parts(node, rows, producers) if node.option is None else None
        if padded:
            rows[node.result] = padded
            if len(padded.parts) > 1 and padded.fills(node.result.type.sizes[padded.dim]):
                values = [value for _, value in padded.parts]
                node = Node("concatenate", values, list(node.results), {"dim": padded.dim}, node.loc)
        nodes.append(node)
    if all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
        return None
    nodes = needed_nodes(nodes, graph.outputs, lambda node: not node.results or node.results[0] not in rows)
    return replace(graph, nodes=nodes)


def _padded_parts(node: Node, rows: Mapping[Value, _Rows], producers: Mapping[Value, Node]) -> _Rows | None:
    if node.op == "add":
        left, right = (rows.get(value) for value in node.operands)
        return left.beside(right) if left and right else None
    if node.op != "pad" or any(node.attrs.interior) or min((*node.attrs.low, *node.attrs.high), default=0) < 0:
        return None
    dims = [d for d, ends in enumerate(zip(node.attrs.low, node.attrs.high, strict=True)) if any(ends)]
    if len(dims) != 1 or splat_of(node.operands[1], producers.get) != 0:
        return None
    return _Rows(dims[0], ((node.attrs.low[dims[0]], node.operands[0]),))
