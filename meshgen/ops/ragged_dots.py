"""Write `ragged_dot` nodes for operands with their dims in any order.

rows [k, m] and matrices [g, k, a, b] of the groups of rows m
%x = transpose %rows [1, 0]    %w = reshape %matrices [g, k, a b]    %y = ragged_dot %x, %w, %starts, %ends    reshape %y [m, a, b]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from meshgen.ir.builder import Builder
from meshgen.ir.graph import TensorType, Value

_FAR = 1 << 40  # beyond all rows, and beyond all numbers that are added to rows


def rows_by_group(
    builder: Builder,
    rows: Value,
    matrices: Value,
    bounds: Sequence[Value],
    *,
    row: int,
    contract: tuple[Sequence[int], Sequence[int]],
    group: int,
    dtype: str,
    precision: Sequence[str] = (),
    disjoint: bool = False,
) -> Value:
    """Multiply each row by the matrix of its group; a row of no group becomes zero.

    Args:
        rows: has the dim `row` and those that are contracted.
        matrices: has the dim `group`, those that are contracted, and free ones.
        bounds: per group the first row and the row after the last, i32[groups] each.
        contract: dims of rows and of matrices that go together.
        dtype: that of the result.
        precision: of rows and of matrices.
        disjoint: whether no row is in two groups.
    Returns:
        [rows, *free dims of matrices].
    """
    ours, theirs = contract
    free = [d for d in range(matrices.type.rank) if d != group and d not in theirs]
    lhs = _merged(builder, builder.permuted(rows, [row, *ours]), 1)
    rhs = _merged(builder, builder.permuted(matrices, [group, *theirs, *free]), 1, 1 + len(theirs))
    kind = TensorType((lhs.type.shape[0], rhs.type.shape[2]), dtype)
    product = builder.emit(
        "ragged_dot", [lhs, rhs, *bounds], kind, contracts=False, precision=tuple(precision), disjoint=disjoint
    )
    return builder.shaped(product, [lhs.type.shape[0], *(matrices.type.shape[d] for d in free)])


def matrices_by_group(
    builder: Builder,
    operands: Sequence[Value],
    bounds: Sequence[Value],
    *,
    rows: Sequence[int],
    dtype: str,
    precision: Sequence[str] = (),
    disjoint: bool = False,
) -> Value:
    """Contract the rows of each group of both operands.

    Args:
        operands: of both sides; `rows` has the dim of each that is contracted.
        bounds, dtype, precision, disjoint: as in `rows_by_group`.
    Returns:
        [groups, *free dims of the left operand, *free dims of the right one].
    """
    free = [[d for d in range(x.type.rank) if d != row] for x, row in zip(operands, rows, strict=True)]
    sides = [
        _merged(builder, builder.permuted(x, [row, *dims]), 1)
        for x, row, dims in zip(operands, rows, free, strict=True)
    ]
    groups = bounds[0].type.shape[0]
    kind = TensorType((groups, *(side.type.shape[1] for side in sides)), dtype)
    product = builder.emit(
        "ragged_dot", [*sides, *bounds], kind, contracts=True, precision=tuple(precision), disjoint=disjoint
    )
    return builder.shaped(product, [groups, *(x.type.shape[d] for x, dims in zip(operands, free, strict=True) for d in dims)])  # fmt: skip


def bound_of(builder: Builder, number: Value, plus: int = 0, offsets: Sequence[Value] = ()) -> Value:
    """Return integers per group as a bound of groups of rows that are counted from 0.

    Args:
        number: of any shape, one per group.
        plus: is added to the numbers.
        offsets: 0-d values that the program adds to its row numbers.
    """
    number = builder.shaped(number, (number.type.size,))
    if number.type.dtype == "i32" and not plus and not offsets:
        return number
    number = _clamped(builder, builder.convert(number, "i64"), -_FAR, _FAR)
    if plus:
        number = builder.elementwise("add", number, builder.splat(plus, number.type))
    for offset in offsets:
        number = builder.elementwise(
            "subtract", number, builder.spread(builder.convert(offset, "i64"), number.type.shape)
        )
    return builder.convert(_clamped(builder, number, 0, (1 << 31) - 1), "i32")


def _clamped(builder: Builder, number: Value, low: int, high: int) -> Value:
    number = builder.elementwise("maximum", number, builder.splat(low, number.type))
    return builder.elementwise("minimum", number, builder.splat(high, number.type))


def _merged(builder: Builder, value: Value, *cuts: int) -> Value:
    """The value with the dims between two cuts, and those after the last, as one dim each."""
    parts = list(itertools.pairwise([0, *cuts, value.type.rank]))
    if all(stop - start == 1 for start, stop in parts):
        return value
    return builder.shaped(value, [math.prod(value.type.sizes[start:stop]) for start, stop in parts])
