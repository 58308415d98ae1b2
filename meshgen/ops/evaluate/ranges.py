"""Interval analysis of integer values: `clamp 0, %i, 7` is in 0 .. 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from meshgen.ir.graph import Node, Value
from meshgen.ops.evaluate.common import integer_range

# The longest chain of producers that the analysis follows. Chosen: index arithmetic rarely has a longer chain.
_BOUNDED_INDEX_STEPS = 16

_Producers = Mapping[Value, Node]
_Range = tuple[int, int]  # Smallest and largest element.


def range_of(
    value: Value,
    producers: _Producers,
    row: tuple[int, int] | None = None,
    depth: int = _BOUNDED_INDEX_STEPS,
) -> _Range:
    """Return the smallest interval that the analysis can prove for all elements of an integer value.

    Args:
        row: a dim and an index along it, which restrict the query to this slice.
        depth: how many more producers the analysis may follow.
    """
    node = producers.get(value)
    type_range = integer_range(value.type.dtype)
    if node is None or not depth or not value.type.size:
        return type_range

    def operand_range(operand: Value, operand_row: tuple[int, int] | None = row) -> _Range:
        return range_of(operand, producers, operand_row if operand.type.rank else None, depth - 1)

    match node.op:
        case "constant":
            return _extent(np.asarray(node.attrs.value), row)
        case "broadcast_in_dim":
            return operand_range(node.operands[0], _before_broadcast(node, row))
        case "concatenate":
            operands_with_rows = _joined_at(node, row)
            return _union([operand_range(part, operand_row) for part, operand_row in operands_with_rows])
        case "select":
            return _union([operand_range(operand) for operand in node.operands[1:]])
        case "minimum" | "maximum":
            choose = min if node.op == "minimum" else max
            low, high = zip(*map(operand_range, node.operands), strict=True)
            return choose(low), choose(high)
        case "clamp":
            ends = zip(*map(operand_range, node.operands), strict=True)
            low, high = (min(max(least, x), most) for least, x, most in ends)
            return low, high
        case "convert" if node.operands[0].type.dtype[0] in "iu":
            inner = operand_range(node.operands[0])
            return inner if type_range[0] <= inner[0] and inner[1] <= type_range[1] else type_range
        case _:
            return type_range


def _extent(array: np.ndarray, row: tuple[int, int] | None) -> _Range:
    part = array if row is None else np.take(array, row[1], axis=row[0])
    return int(part.min()), int(part.max())


def _union(ranges: Sequence[_Range]) -> _Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _before_broadcast(node: Node, row: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the operand row that becomes `row` of a broadcast's result, or None if every operand row contributes."""
    dims, operand = node.attrs.dims, node.operands[0].type
    if row is None or row[0] not in dims:
        return None
    dim = dims.index(row[0])
    return dim, row[1] if operand.sizes[dim] > 1 else 0


def _joined_at(node: Node, row: tuple[int, int] | None) -> list[tuple[Value, tuple[int, int] | None]]:
    """Return the operands of a concatenation that contribute to `row` of the result, as (operand, row of the operand)."""
    if row is None or row[0] != node.attrs.dim:
        return [(operand, row) for operand in node.operands if operand.type.size]
    ends = np.cumsum([0, *(operand.type.sizes[row[0]] for operand in node.operands)])
    index = next(n for n, (start, end) in enumerate(pairwise(ends)) if start <= row[1] < end)
    return [(node.operands[index], (row[0], row[1] - int(ends[index])))]
