"""Components of scatter indices that are always zero are dropped.

Updates as large as a dim of the operand and written at 0 are tied to it row by row and split with it; at an unknown
position some rows would fall outside and the others move. A scatter of blocks at clamped positions (a batch of
dynamic_update_slices) has an index for every dim, which is 0 where no other position fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import needed_nodes
from meshgen.ops.evaluate.common import integer_range

_Producers = Mapping[Value, Node]
_Range = tuple[int, int]  # least and greatest element


def scatter_drop_zero_indices(graph: Graph) -> Graph | None:
    """Before: `scatter %x, (concatenate %i, %zeros), %u`.   After: `scatter %x, %i, %u`. None if there is none."""
    producers = graph.producers()
    nodes = [made for node in graph.nodes for made in _without_zeros(node, producers)]
    if len(nodes) == len(graph.nodes):
        return None
    return replace(graph, nodes=needed_nodes(nodes, graph.outputs, lambda node: node.op != "concatenate"))


def _without_zeros(node: Node, producers: _Producers) -> list[Node]:
    """The node, or slices of its index vectors and a scatter with these."""
    if node.op != "scatter" or node.option is not None:  # an option counts the loops of the node as written
        return [node]
    attrs, place = node.attrs, len(node.operands) // 2
    indices, dim = node.operands[place], attrs["index_vector_dim"]
    if dim == indices.type.rank:
        return [node]
    indexed = attrs["scatter_dims_to_operand_dims"]
    kept = [n for n in range(len(indexed)) if range_of(indices, producers, (dim, n)) != (0, 0)] or [0]
    if len(kept) == len(indexed):
        return [node]
    made = _selected(indices, dim, kept)
    operands = [*node.operands[:place], made[-1].result, *node.operands[place + 1 :]]
    attrs = attrs | {"scatter_dims_to_operand_dims": tuple(indexed[n] for n in kept)}
    return [*made, replace(node, operands=operands, attrs=attrs)]


def _selected(value: Value, dim: int, rows: Sequence[int]) -> list[Node]:
    """Nodes that make these rows of a value along a dim; the last has the result."""
    runs = [[row for _, row in run] for _, run in groupby(enumerate(rows), key=lambda each: each[1] - each[0])]
    parts = [_slice(value, dim, run[0], run[-1] + 1) for run in runs]
    if len(parts) == 1:
        return parts
    shape = [len(rows) if d == dim else size for d, size in enumerate(value.type.shape)]
    joined = Value(value.type.with_shape(shape), loc=value.loc)
    return [*parts, Node("concatenate", [part.result for part in parts], [joined], {"dim": dim}, value.loc)]


def _slice(value: Value, dim: int, start: int, limit: int) -> Node:
    sizes = value.type.sizes
    bounds = [(start, limit) if d == dim else (0, size) for d, size in enumerate(sizes)]
    attrs = {"start": tuple(b[0] for b in bounds), "limit": tuple(b[1] for b in bounds), "stride": (1,) * len(sizes)}
    return Node("slice", [value], [Value(value.type.with_shape([b - a for a, b in bounds]), loc=value.loc)], attrs, value.loc)  # fmt: skip


def range_of(
    value: Value,
    producers: _Producers,
    row: tuple[int, int] | None = None,
    depth: int = DEFAULT.search.bounded_index_steps,
) -> _Range:
    """The range that all elements of an integer value are known to be in.

    Args:
        row: a dim and an index along it, to ask for the elements there only.
    """
    node = producers.get(value)
    known = integer_range(value.type.dtype)
    if node is None or not depth or not value.type.size:
        return known

    def of(operand: Value, at: tuple[int, int] | None = row) -> _Range:
        return range_of(operand, producers, at if operand.type.rank else None, depth - 1)

    match node.op:
        case "constant":
            return _extent(np.asarray(node.attrs["value"]), row)
        case "broadcast_in_dim":
            return of(node.operands[0], _before_broadcast(node, row))
        case "concatenate":
            parts = _joined_at(node, row)
            return _union([of(part, at) for part, at in parts])
        case "select":
            return _union([of(operand) for operand in node.operands[1:]])
        case "minimum" | "maximum":
            pick = min if node.op == "minimum" else max
            low, high = zip(*map(of, node.operands), strict=True)
            return pick(low), pick(high)
        case "clamp":
            ends = zip(*map(of, node.operands), strict=True)
            low, high = (min(max(least, x), most) for least, x, most in ends)
            return low, high
        case "convert" if node.operands[0].type.dtype[0] in "iu":
            inner = of(node.operands[0])
            return inner if known[0] <= inner[0] and inner[1] <= known[1] else known
        case _:
            return known


def _extent(array: np.ndarray, row: tuple[int, int] | None) -> _Range:
    part = array if row is None else np.take(array, row[1], axis=row[0])
    return int(part.min()), int(part.max())


def _union(ranges: Sequence[_Range]) -> _Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _before_broadcast(node: Node, row: tuple[int, int] | None) -> tuple[int, int] | None:
    """The row of the operand that a row of the result is; None if it is all of it."""
    dims, operand = node.attrs["dims"], node.operands[0].type
    if row is None or row[0] not in dims:
        return None
    dim = dims.index(row[0])
    return dim, row[1] if operand.sizes[dim] > 1 else 0


def _joined_at(node: Node, row: tuple[int, int] | None) -> list[tuple[Value, tuple[int, int] | None]]:
    """The operands of a concatenate that a row of the result is made of, with their rows."""
    if row is None or row[0] != node.attrs["dim"]:
        return [(operand, row) for operand in node.operands if operand.type.size]
    ends = np.cumsum([0, *(operand.type.sizes[row[0]] for operand in node.operands)])
    number = next(n for n, (start, end) in enumerate(pairwise(ends)) if start <= row[1] < end)
    return [(node.operands[number], (row[0], row[1] - int(ends[number])))]
