"""Construction of `ragged_dot` nodes from operands whose dims are in any order: transposes and reshapes are inserted.

operands: rows [k, m], matrices [g, k, a, b] (one per group of rows m)

%x = transpose %rows [1, 0]                      [m, k]
%w = reshape %matrices                           [g, k, a * b]
%y = ragged_dot %x, %w, %starts, %ends           [m, a * b]
%z = reshape %y                                  [m, a, b]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from meshgen.ir.builder import Builder
from meshgen.ir.graph import TensorType, Value

# Clamping bound for row numbers in i64. Chosen: far beyond any row count, and the sum of two bounds cannot overflow.
_FAR = 1 << 40


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
    """Append the product of each row and the matrix of the row's group. A row outside of all groups becomes zero.

    Args:
        rows: the left operand, with the dim `row` and the contracted dims.
        matrices: the right operand, with the dim `group`, the contracted dims, and free dims.
        bounds: two i32[groups] tensors: the first row of each group, and the row after the last row of each group.
        row: the dim of `rows` that enumerates the rows.
        contract: the contracted dims of `rows` and of `matrices`, in matching order.
        group: the dim of `matrices` that enumerates the groups.
        dtype: the element type of the result.
        precision: the precision of `rows` and of `matrices`.
        disjoint: whether no row is in two groups.
    Returns:
        A tensor [rows, *free dims of matrices].
    """
    lhs_contract, rhs_contract = contract
    free = [d for d in range(matrices.type.rank) if d != group and d not in rhs_contract]
    lhs = _merged(builder, builder.permuted(rows, [row, *lhs_contract]), 1)
    rhs = _merged(builder, builder.permuted(matrices, [group, *rhs_contract, *free]), 1, 1 + len(rhs_contract))
    result_type = TensorType((lhs.type.shape[0], rhs.type.shape[2]), dtype)
    product = builder.emit(
        "ragged_dot", [lhs, rhs, *bounds], result_type, contracts=False, precision=tuple(precision), disjoint=disjoint
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
    """Append one matrix per group: the contraction of both operands over the rows of the group.

    Args:
        operands: the left and the right operand.
        bounds, dtype, precision, disjoint: as in `rows_by_group`.
        rows: per operand, the dim that enumerates the rows.
    Returns:
        A tensor [groups, *free dims of the left operand, *free dims of the right operand].
    """
    free = [[d for d in range(x.type.rank) if d != row] for x, row in zip(operands, rows, strict=True)]
    sides = [
        _merged(builder, builder.permuted(x, [row, *dims]), 1)
        for x, row, dims in zip(operands, rows, free, strict=True)
    ]
    groups = bounds[0].type.shape[0]
    result_type = TensorType((groups, *(side.type.shape[1] for side in sides)), dtype)
    product = builder.emit(
        "ragged_dot", [*sides, *bounds], result_type, contracts=True, precision=tuple(precision), disjoint=disjoint
    )
    return builder.shaped(product, [groups, *(x.type.shape[d] for x, dims in zip(operands, free, strict=True) for d in dims)])  # fmt: skip


def bound_of(builder: Builder, number: Value, plus: int = 0, offsets: Sequence[Value] = ()) -> Value:
    """Append the conversion of one row number per group to group bounds i32[groups], clamped to 0 or more.

    Args:
        number: the row numbers, in a tensor of any shape.
        plus: a constant that is added to each row number.
        offsets: 0-d values that are subtracted from each row number, because the program added them.
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


def _clamped(builder: Builder, value: Value, low: int, high: int) -> Value:
    value = builder.elementwise("maximum", value, builder.splat(low, value.type))
    return builder.elementwise("minimum", value, builder.splat(high, value.type))


def _merged(builder: Builder, value: Value, *cuts: int) -> Value:
    """Merge dims: `cuts` splits the list of dims into ranges, and each range becomes one dim."""
    parts = list(itertools.pairwise([0, *cuts, value.type.rank]))
    if all(stop - start == 1 for start, stop in parts):
        return value
    return builder.shaped(value, [math.prod(value.type.sizes[start:stop]) for start, stop in parts])
