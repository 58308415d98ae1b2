"""Importers of CHLO's ragged dots (grouped matmuls): each group of rows of the left operand has its own right matrix.

They become `ragged_dot` nodes, which take the start and end of each group, or masked dots.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin
from xdsl.ir import Operation

from meshgen.ir.graph import TensorType, Value, is_complex, is_inexact
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.attributes import integers, strings
from meshgen.mlir.conversion import Importer, Refused
from meshgen.ops.ragged_dots import bound_of, matrices_by_group, rows_by_group
from meshgen.ops.types.site import shapes_agree


def import_composite_ragged_dot(importer: Importer, operation: Operation) -> bool:
    """Import a StableHLO composite named `chlo.ragged_dot`. Returns False for any other composite.

    The decomposition that JAX writes for GPUs is not used: it multiplies all rows once per group.
    """
    name, attributes = (operation.properties.get(f"composite_{part}") for part in ("name", "attributes"))
    if name != builtin.StringAttr("chlo.ragged_dot") or not isinstance(attributes, builtin.DictionaryAttr):
        return False
    numbering, words = (attributes.data.get(n) for n in ("ragged_dot_dimension_numbers", "precision_config"))
    if not isinstance(numbering, builtin.ArrayAttr) or len(numbering.data) != 6 or len(operation.operands) != 3:
        return False
    import_ragged_dot(importer, operation, [integers(dims) for dims in numbering.data], strings(words))
    return True


def import_ragged_dot(importer: Importer, operation: Operation, lists: Sequence[tuple[int, ...]],
                      precision: tuple[str, ...]) -> None:  # fmt: skip
    """Import a dot in which one dim of the left operand, the ragged dim, is divided into groups.

    If the ragged dim is kept in the result, the right operand has a group dim. If it is contracted, the first dim of
    the result is the group dim. If it is a batch dim, the groups have no effect.

    Args:
        lists: lists of dims: the batch dims of both operands, the contracted dims of both operands, the ragged dim, and
            the group dim of the right operand.
    Raises:
        Refused: the dims or the group sizes do not fit the operands.
    """
    lhs, rhs, sizes = operands = importer.values(operation.operands)
    _check(operands, lists)
    builder, result = Builder(importer, operation), importer.type(operation.results[0])
    left_batch, right_batch, left_contract, right_contract, (ragged,), group_dims = lists
    has_one_list = not left_batch and sizes.type.rank == 1 and not is_complex(lhs.type.dtype)
    if ragged in left_batch:
        sides = (left_contract, right_contract), (left_batch, right_batch)
        product = builder.dot(lhs, rhs, result, *sides, precision)
    elif has_one_list and left_contract == (ragged,):
        rows, bounds = (ragged, right_contract[0]), _bounds_of_sizes(builder, sizes)
        product = matrices_by_group(builder, (lhs, rhs), bounds, rows=rows, dtype=result.dtype, precision=precision,
                                    disjoint=True)  # fmt: skip
    elif has_one_list and ragged not in left_contract and lhs.type.rank == 1 + len(left_contract):
        bounds, contract = _bounds_of_sizes(builder, sizes), (left_contract, right_contract)
        product = rows_by_group(builder, lhs, rhs, bounds, row=ragged, contract=contract, group=group_dims[0],
                                dtype=result.dtype, precision=precision, disjoint=True)  # fmt: skip
    else:
        product = _masked_dot(builder, operands, lists, precision, result)
    importer.bind(operation.results[0], product)


def _check(operands: Sequence[Value], lists: Sequence[tuple[int, ...]]) -> None:
    """Raise Refused if the operands of a ragged dot are invalid, or its lists of dims."""
    (lhs, rhs, sizes), (left_batch, right_batch, left_contract, right_contract, ragged_dims, group_dims) = (
        operands,
        lists,
    )
    if len(ragged_dims) != 1 or not 0 <= ragged_dims[0] < lhs.type.rank or len(group_dims) > 1:
        raise Refused("MG0104", "needs one ragged dim of its left operand, and at most one group dim")
    used_dims = ((*left_batch, *left_contract), (*right_batch, *right_contract, *group_dims))
    fits = len(left_batch) == len(right_batch) and len(left_contract) == len(right_contract)
    if not fits or not all(map(_are_dims, used_dims, (lhs.type.rank, rhs.type.rank))):
        pairs = (
            f"{list(used_dims[0])} and {list(used_dims[1])} are not dims of {lhs.type} and {rhs.type} that go together"
        )
        raise Refused("MG0104", pairs)
    if not group_dims and ragged_dims[0] not in used_dims[0]:
        raise Refused("MG0104", "the right operand needs a group dim")
    shape = tuple(lhs.type.shape[d] for d in _group_size_dims(lhs, left_batch, left_contract, ragged_dims[0]))
    fits = sizes.type.rank == 1 or (sizes.type.rank > 1 and shapes_agree(sizes.type.shape[:-1], shape))
    if is_inexact(sizes.type.dtype) or not fits:
        shapes = f"[groups] or {list(shape)} + [groups]"
        raise Refused("MG0104", f"needs integers of shape {shapes} as group sizes, got {sizes.type}")


def _group_size_dims(lhs: Value, batch: Sequence[int], contract: Sequence[int], ragged: int) -> list[int]:
    """Return the dims of the left operand that the group sizes may have in front of their group dim.

    These are the batch dims, and the dims before the ragged dim of the same role (batch, contracted or kept).
    """
    if ragged in batch:
        return [*batch[: batch.index(ragged)]]
    same_role = contract if ragged in contract else [d for d in range(lhs.type.rank) if d not in (*batch, *contract)]
    return [*batch, *same_role[: same_role.index(ragged)]]


def _are_dims(dims: Sequence[int], rank: int) -> bool:
    """Whether `dims` are distinct and valid dims of a tensor of rank `rank`."""
    return len({*dims}) == len(dims) and {*dims} <= {*range(rank)}


def _bounds_of_sizes(builder: Builder, sizes: Value) -> tuple[Value, Value]:
    """Return the start and end offset of each group, given their sizes. The groups are consecutive."""
    ends = _ends_of_groups(builder, sizes)
    return bound_of(builder, builder.apply("subtract", ends, sizes)), bound_of(builder, ends)


# ---- Ragged dots with batch dims, complex numbers or several kept dims: masked dots over all groups


def _masked_dot(builder: Builder, operands: Sequence[Value], lists: Sequence[tuple[int, ...]], precision: tuple[str, ...],
                result: TensorType) -> Value:  # fmt: skip
    """Return a ragged dot as a dot over all groups. The left operand gets a group dim, with zeros in the rows of other
    groups.
    """
    (lhs, rhs, sizes), (left_batch, right_batch, left_contract, right_contract, (ragged,), group_dims) = operands, lists
    masked = _by_group(builder, lhs, sizes, _group_size_dims(lhs, left_batch, left_contract, ragged), ragged)
    batch, contract = (tuple(d + 1 for d in dims) for dims in (left_batch, left_contract))
    if ragged not in left_contract:
        sides = ((0, *contract), (*group_dims, *right_contract)), (batch, right_batch)
        return builder.dot(masked, rhs, result, *sides, precision)
    product = _product_type(masked.type, rhs.type, batch, right_batch, contract, right_contract, result)
    dot = builder.dot(masked, rhs, product, (contract, right_contract), (batch, right_batch), precision)
    count = len(batch)
    order = (count, *range(count), *range(count + 1, result.rank))
    return dot if not count else builder.emit("transpose", [dot], result, perm=order)


def _product_type(left: TensorType, right: TensorType, left_batch: tuple[int, ...], right_batch: tuple[int, ...],
                  left_contract: tuple[int, ...], right_contract: tuple[int, ...], result: TensorType) -> TensorType:  # fmt: skip
    shape = [left.shape[d] for d in left_batch]
    shape += [n for d, n in enumerate(left.shape) if d not in (*left_batch, *left_contract)]
    shape += [n for d, n in enumerate(right.shape) if d not in (*right_batch, *right_contract)]
    return TensorType(tuple(shape), result.dtype)


def _by_group(builder: Builder, lhs: Value, sizes: Value, prefix: Sequence[int], ragged: int) -> Value:
    """Return `lhs` repeated along a new leading group dim, with zeros in the rows that are not in the group.

    `sizes` are the group sizes: their last dim is the group dim, and the dims before it, if any, are the dims `prefix`
    of `lhs`.
    """
    kind, groups = lhs.type, sizes.type.shape[-1]
    shape = (groups, *kind.shape)
    ends = _ends_of_groups(builder, sizes)
    starts = builder.apply("subtract", ends, sizes)
    dims = (*(d + 1 for d in prefix), 0) if sizes.type.rank > 1 else (0,)
    permutation = sorted(range(len(dims)), key=dims.__getitem__)
    row = builder.emit("iota", [], TensorType(shape, sizes.type.dtype), dim=ragged + 1)

    def spread(value: Value) -> Value:
        if permutation != sorted(permutation):
            transposed = value.type.with_shape(value.type.shape[d] for d in permutation)
            value = builder.emit("transpose", [value], transposed, perm=tuple(permutation))
        return builder.broadcast(value, shape, sorted(dims))

    is_in = builder.apply(
        "and", builder.compare("GE", row, spread(starts)), builder.compare("LT", row, spread(ends)), dtype="i1"
    )
    repeated = builder.broadcast(lhs, shape, range(1, len(shape)))
    return builder.select(is_in, repeated, builder.constant(0, repeated.type))


def _ends_of_groups(builder: Builder, sizes: Value) -> Value:
    """Return the cumulative sums of the group sizes, computed by a matmul with a triangular matrix of ones.

    The matrix is small, since there are few groups.
    """
    groups, dtype = sizes.type.sizes[-1], sizes.type.dtype
    square = TensorType((groups, groups), dtype)
    rows, columns = (builder.emit("iota", [], square, dim=d) for d in (0, 1))
    ones, zeros = (builder.constant(n, square) for n in (1, 0))
    upper = builder.select(builder.compare("LE", rows, columns), ones, zeros)
    return builder.dot(sizes, upper, sizes.type, ((sizes.type.rank - 1,), (0,)), precision=())
