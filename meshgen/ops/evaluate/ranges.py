"""Ranges that integer values are known to be in, from how they are computed: `clamp 0, %i, 7` is in 0 .. 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from meshgen.ir.graph import Node, Value
from meshgen.ops.evaluate.common import integer_range

# Nodes in a row through which the range of an index is derived.
_BOUNDED_INDEX_STEPS = 16

_Producers = Mapping[Value, Node]
_Range = tuple[int, int]  # least and greatest element


def range_of(
    value: Value,
    producers: _Producers,
    row: tuple[int, int] | None = None,
    depth: int = _BOUNDED_INDEX_STEPS,
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
            return _extent(np.asarray(node.attrs.value), row)
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
    dims, operand = node.attrs.dims, node.operands[0].type
    if row is None or row[0] not in dims:
        return None
    dim = dims.index(row[0])
    return dim, row[1] if operand.sizes[dim] > 1 else 0


def _joined_at(node: Node, row: tuple[int, int] | None) -> list[tuple[Value, tuple[int, int] | None]]:
    """The operands of a concatenate that a row of the result is made of, with their rows."""
    if row is None or row[0] != node.attrs.dim:
        return [(operand, row) for operand in node.operands if operand.type.size]
    ends = np.cumsum([0, *(operand.type.sizes[row[0]] for operand in node.operands)])
    number = next(n for n, (start, end) in enumerate(pairwise(ends)) if start <= row[1] < end)
    return [(node.operands[number], (row[0], row[1] - int(ends[number])))]
