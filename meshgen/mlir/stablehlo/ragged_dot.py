"""Ragged dots of CHLO, of which each row takes the matrix of its group, as `ragged_dot` with the bounds of the groups."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin
from xdsl.ir import Operation

from meshgen.ir.graph import TensorType, Value, is_complex, is_inexact
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.attributes import integers, strings
from meshgen.mlir.conversion import Importer, Refused
from meshgen.ops.ragged_dots import bound_of, matrices_by_group, rows_by_group
from meshgen.ops.types.site import shapes_agree


def composite_ragged_dot(importer: Importer, operation: Operation) -> bool:
    """Read a composite "chlo.ragged_dot" as what its name and attributes say; False where it is another, or they do not say it.

    Its decomposition, as JAX writes it for GPUs, is a product of all rows per group.
    """
    name, attributes = (operation.properties.get(f"composite_{part}") for part in ("name", "attributes"))
    if name != builtin.StringAttr("chlo.ragged_dot") or not isinstance(attributes, builtin.DictionaryAttr):
        return False
    numbering, words = (attributes.data.get(n) for n in ("ragged_dot_dimension_numbers", "precision_config"))
    if not isinstance(numbering, builtin.ArrayAttr) or len(numbering.data) != 6 or len(operation.operands) != 3:
        return False
    import_ragged_dot(importer, operation, [integers(each) for each in numbering.data], strings(words))
    return True


def import_ragged_dot(importer: Importer, operation: Operation, lists: Sequence[tuple[int, ...]],
                      precision: tuple[str, ...]) -> None:  # fmt: skip
    """Read a dot whose rows are in groups.

    Groups are a dim of the right side where rows are kept, and the first dim of the result where rows are contracted. Where a batch
    dim is ragged they mean nothing.

    Args:
        lists: dims of both sides that are batches, then those that are contracted; the ragged dim; the groups of the right side.
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
    """Raise Refused for dims of a ragged dot, or other operands, that are invalid."""
    (lhs, rhs, sizes), (left_batch, right_batch, left_contract, right_contract, ragged_dims, group_dims) = (
        operands,
        lists,
    )
    if len(ragged_dims) != 1 or not 0 <= ragged_dims[0] < lhs.type.rank or len(group_dims) > 1:
        raise Refused("MG0104", "needs one ragged dim of its left operand, and at most one group dim")
    taken = ((*left_batch, *left_contract), (*right_batch, *right_contract, *group_dims))
    fits = len(left_batch) == len(right_batch) and len(left_contract) == len(right_contract)
    if not fits or not all(map(_are_dims, taken, (lhs.type.rank, rhs.type.rank))):
        pairs = f"{list(taken[0])} and {list(taken[1])} are not dims of {lhs.type} and {rhs.type} that go together"
        raise Refused("MG0104", pairs)
    if not group_dims and ragged_dims[0] not in taken[0]:
        raise Refused("MG0104", "the right operand needs a group dim")
    shape = tuple(lhs.type.shape[d] for d in _prefix(lhs, left_batch, left_contract, ragged_dims[0]))
    fits = sizes.type.rank == 1 or (sizes.type.rank > 1 and shapes_agree(sizes.type.shape[:-1], shape))
    if is_inexact(sizes.type.dtype) or not fits:
        shapes = f"[groups] or {list(shape)} + [groups]"
        raise Refused("MG0104", f"needs integers of shape {shapes} as group sizes, got {sizes.type}")


def _prefix(lhs: Value, batch: Sequence[int], contract: Sequence[int], ragged: int) -> list[int]:
    """Return the dims of the left operand that group sizes may have before their groups: batches, and those of its kind before the ragged one."""
    if ragged in batch:
        return [*batch[: batch.index(ragged)]]
    others = contract if ragged in contract else [d for d in range(lhs.type.rank) if d not in (*batch, *contract)]
    return [*batch, *others[: others.index(ragged)]]


def _are_dims(dims: Sequence[int], rank: int) -> bool:
    """Whether these are different dims of a tensor of this rank."""
    return len({*dims}) == len(dims) and {*dims} <= {*range(rank)}


def _bounds_of_sizes(builder: Builder, sizes: Value) -> tuple[Value, Value]:
    """Where groups of these sizes start and end, one after the other."""
    ends = _ends_of_groups(builder, sizes)
    return bound_of(builder, builder.apply("subtract", ends, sizes)), bound_of(builder, ends)


# ---- batches of ragged dots, complex ones, and those with further dims beside the rows: dots over all groups, whose rows a mask selects


def _masked_dot(builder: Builder, operands: Sequence[Value], lists: Sequence[tuple[int, ...]], precision: tuple[str, ...],
                result: TensorType) -> Value:  # fmt: skip
    """The left side gets a dim of groups, with zeros in the rows of other groups."""
    (lhs, rhs, sizes), (left_batch, right_batch, left_contract, right_contract, (ragged,), group_dims) = operands, lists
    masked = _by_group(builder, lhs, sizes, _prefix(lhs, left_batch, left_contract, ragged), ragged)
    batch, contract = (tuple(d + 1 for d in dims) for dims in (left_batch, left_contract))
    if ragged not in left_contract:
        sides = ((0, *contract), (*group_dims, *right_contract)), (batch, right_batch)
        return builder.dot(masked, rhs, result, *sides, precision)
    product = _product_type(masked.type, rhs.type, batch, right_batch, contract, right_contract, result)
    found = builder.dot(masked, rhs, product, (contract, right_contract), (batch, right_batch), precision)
    count = len(batch)
    order = (count, *range(count), *range(count + 1, result.rank))
    return found if not count else builder.emit("transpose", [found], result, perm=order)


def _product_type(left: TensorType, right: TensorType, left_batch: tuple[int, ...], right_batch: tuple[int, ...],
                  left_contract: tuple[int, ...], right_contract: tuple[int, ...], result: TensorType) -> TensorType:  # fmt: skip
    shape = [left.shape[d] for d in left_batch]
    shape += [n for d, n in enumerate(left.shape) if d not in (*left_batch, *left_contract)]
    shape += [n for d, n in enumerate(right.shape) if d not in (*right_batch, *right_contract)]
    return TensorType(tuple(shape), result.dtype)


def _by_group(builder: Builder, lhs: Value, sizes: Value, prefix: Sequence[int], ragged: int) -> Value:
    """`lhs` once per group, the first dim, with zeros where a row is not of the group.

    Sizes have the `prefix` dims of the left side, then the groups; or only the groups.
    """
    kind, groups = lhs.type, sizes.type.shape[-1]
    shape = (groups, *kind.shape)
    ends = _ends_of_groups(builder, sizes)
    starts = builder.apply("subtract", ends, sizes)
    dims = (*(d + 1 for d in prefix), 0) if sizes.type.rank > 1 else (0,)
    order = sorted(range(len(dims)), key=dims.__getitem__)
    row = builder.emit("iota", [], TensorType(shape, sizes.type.dtype), dim=ragged + 1)

    def spread(value: Value) -> Value:
        if order != sorted(order):
            turned = value.type.with_shape(value.type.shape[d] for d in order)
            value = builder.emit("transpose", [value], turned, perm=tuple(order))
        return builder.broadcast(value, shape, sorted(dims))

    is_in = builder.apply(
        "and", builder.compare("GE", row, spread(starts)), builder.compare("LT", row, spread(ends)), dtype="i1"
    )
    repeated = builder.broadcast(lhs, shape, range(1, len(shape)))
    return builder.select(is_in, repeated, builder.constant(0, repeated.type))


def _ends_of_groups(builder: Builder, sizes: Value) -> Value:
    """The sums of the sizes up to each group, as a product with a triangle of ones: groups are few."""
    groups, dtype = sizes.type.sizes[-1], sizes.type.dtype
    square = TensorType((groups, groups), dtype)
    rows, columns = (builder.emit("iota", [], square, dim=d) for d in (0, 1))
    ones, zeros = (builder.constant(n, square) for n in (1, 0))
    upper = builder.select(builder.compare("LE", rows, columns), ones, zeros)
    return builder.dot(sizes, upper, sizes.type, ((sizes.type.rank - 1,), (0,)), precision=())
