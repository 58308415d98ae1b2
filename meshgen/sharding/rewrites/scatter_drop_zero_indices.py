"""Remove components of scatter indices that are always zero.

    before   %1 = concatenate %i, %zeros   %y = scatter %x, %1, %u
    after    %y = scatter %x, %i, %u

An update that covers a dim and is written at 0 is tied to the operand's rows and split with them. At an unknown
position, some rows could be out of bounds and the others would move. A scatter of blocks at clamped positions (a batch
of dynamic_update_slices) has an index for every dim, which is 0 if no other position fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import needed_nodes
from meshgen.ops.classes import JOINING
from meshgen.ops.evaluate.ranges import range_of
from meshgen.sharding.rewrites.graph_passes import graph_pass

_Producers = Mapping[Value, Node]


@graph_pass("scatter-drop-zero-indices")
def scatter_drop_zero_indices(graph: Graph) -> Graph | None:
    """Return the rewritten graph, or None if no scatter has index components that are always zero."""
    producers = graph.index.producers
    nodes = [rewritten for node in graph.nodes for rewritten in _without_zeros(node, producers)]
    if len(nodes) == len(graph.nodes):
        return None
    return replace(graph, nodes=needed_nodes(nodes, graph.outputs, lambda node: node.op not in JOINING))


def _without_zeros(node: Node, producers: _Producers) -> list[Node]:
    """Return `[node]`, or slices of the node's index vectors followed by a scatter at these slices."""
    if node.op != "scatter" or node.option is not None:  # a sharding option refers to the loops of the node as written
        return [node]
    attrs, indices_operand = node.attrs, len(node.operands) // 2
    indices, dim = node.operands[indices_operand], attrs["index_vector_dim"]
    indexed = attrs["scatter_dims_to_operand_dims"]
    if dim == indices.type.rank or not indexed:
        return [node]
    kept = [n for n in range(len(indexed)) if range_of(indices, producers, (dim, n)) != (0, 0)] or [0]
    if len(kept) == len(indexed):
        return [node]
    selection = _selected(indices, dim, kept)
    operands = [*node.operands[:indices_operand], selection[-1].result, *node.operands[indices_operand + 1 :]]
    attrs = attrs | {"scatter_dims_to_operand_dims": tuple(indexed[n] for n in kept)}
    return [*selection, replace(node, operands=operands, attrs=attrs)]


def _selected(value: Value, dim: int, rows: Sequence[int]) -> list[Node]:
    """Return nodes that select these rows of a value along a dim; the last node has the result."""
    runs = [[row for _, row in run] for _, run in groupby(enumerate(rows), key=lambda pair: pair[1] - pair[0])]
    parts = [_slice_along(value, dim, run[0], run[-1] + 1) for run in runs]
    if len(parts) == 1:
        return parts
    shape = [len(rows) if d == dim else size for d, size in enumerate(value.type.shape)]
    joined = Value(value.type.with_shape(shape), loc=value.loc)
    return [*parts, Node("concatenate", [part.result for part in parts], [joined], {"dim": dim}, value.loc)]


def _slice_along(value: Value, dim: int, start: int, limit: int) -> Node:
    sizes = value.type.sizes
    bounds = [(start, limit) if d == dim else (0, size) for d, size in enumerate(sizes)]
    attrs = {"start": tuple(b[0] for b in bounds), "limit": tuple(b[1] for b in bounds), "stride": (1,) * len(sizes)}
    return Node("slice", [value], [Value(value.type.with_shape([b - a for a, b in bounds]), loc=value.loc)], attrs, value.loc)  # fmt: skip
