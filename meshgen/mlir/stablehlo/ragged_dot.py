"""Ragged dots, of which each row takes the matrix of its group: expanded to dots over all groups, of rows that a mask selects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Operation

from meshgen.ir.graph import TensorType, Value, is_inexact
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.attributes import integers
from meshgen.mlir.conversion import Importer


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
    listed = words.data if isinstance(words, builtin.ArrayAttr) else ()
    precision = tuple(word.data for word in listed if isinstance(word, builtin.StringAttr))
    return import_ragged_dot(importer, operation, [integers(each) for each in numbering.data], precision)


def import_ragged_dot(importer: Importer, operation: Operation, lists: Sequence[tuple[int, ...]],
                      precision: tuple[str, ...]) -> bool:  # fmt: skip
    """A dot in which the rows of the left side are masked by group; False, and a fault, for dims that say nothing.

    The left side gets a dim of groups, with zeros in the rows of others. That dim is contracted where the right side
    has groups, is the first of the result where a contracted dim is ragged, and means nothing where a batch dim is.
    Kernels take it for what it is (`codegen/passes/masked_dot_to_ragged.py`).

    Args:
        lists: dims of both sides that are batches, then those that are contracted; the ragged dim; the groups of the right side.
    """
    left_batch, right_batch, left_contract, right_contract, ragged_dims, group_dims = lists
    lhs, rhs, sizes = importer.values(operation.operands)
    if len(ragged_dims) != 1 or not 0 <= ragged_dims[0] < lhs.type.rank or len(group_dims) > 1:
        importer.fault(
            "MG0104", "chlo.ragged_dot needs one ragged dim of its left operand, and at most one group dim", operation
        )
        return False
    if is_inexact(sizes.type.dtype) or len(precision) not in (0, 2):
        message = f"chlo.ragged_dot needs integers as group sizes, and no precisions or two, got {sizes.type} and {list(precision)}"
        importer.fault("MG0104", message, operation)
        return False
    builder, (ragged,) = Builder(importer, operation), ragged_dims
    attrs: dict[str, Any] = {"precision": precision}
    result = importer.type(operation.results[0])
    if ragged in left_batch:
        attrs |= {"lhs_batch": left_batch, "rhs_batch": right_batch, "lhs_contract": left_contract, "rhs_contract": right_contract}  # fmt: skip
        importer.bind(operation.results[0], builder.emit("dot_general", [lhs, rhs], result, **attrs))
        return True
    masked = _by_group(builder, lhs, sizes, left_batch, ragged)
    left_batch, left_contract = (tuple(d + 1 for d in dims) for dims in (left_batch, left_contract))
    if ragged in lists[2]:  # the groups are dims of the result, before all others but the batches
        product = _product_type(masked.type, rhs.type, left_batch, right_batch, left_contract, right_contract, result)
        attrs |= {"lhs_batch": left_batch, "rhs_batch": right_batch, "lhs_contract": left_contract, "rhs_contract": right_contract}  # fmt: skip
        found = builder.emit("dot_general", [masked, rhs], product, **attrs)
        count = len(left_batch)
        order = (count, *range(count), *range(count + 1, result.rank))
        importer.bind(
            operation.results[0], found if not count else builder.emit("transpose", [found], result, perm=order)
        )
        return True
    if len(group_dims) != 1:
        importer.fault("MG0104", "chlo.ragged_dot: the right operand needs a group dim", operation)
        return False
    attrs |= {"lhs_batch": left_batch, "rhs_batch": right_batch, "lhs_contract": (0, *left_contract), "rhs_contract": (*group_dims, *right_contract)}  # fmt: skip
    importer.bind(operation.results[0], builder.emit("dot_general", [masked, rhs], result, **attrs))
    return True


def _product_type(left: TensorType, right: TensorType, left_batch: tuple[int, ...], right_batch: tuple[int, ...],
                  left_contract: tuple[int, ...], right_contract: tuple[int, ...], result: TensorType) -> TensorType:  # fmt: skip
    shape = [left.shape[d] for d in left_batch]
    shape += [n for d, n in enumerate(left.shape) if d not in (*left_batch, *left_contract)]
    shape += [n for d, n in enumerate(right.shape) if d not in (*right_batch, *right_contract)]
    return TensorType(tuple(shape), result.dtype)


def _by_group(builder: Builder, lhs: Value, sizes: Value, batch: tuple[int, ...], ragged: int) -> Value:
    """`lhs` once per group, the first dim, with zeros where a row is not of the group.

    Sizes have the left side's batch dims, then the groups; or only the groups.
    """
    kind, groups = lhs.type, sizes.type.shape[-1]
    shape = (groups, *kind.shape)
    ends = _ends_of_groups(builder, sizes)
    starts = builder.apply("subtract", ends, sizes)
    dims = (*(d + 1 for d in batch), 0) if sizes.type.rank > 1 else (0,)
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
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (sizes.type.rank - 1,), "rhs_contract": (0,), "precision": ()}  # fmt: skip
    return builder.emit("dot_general", [sizes, upper], sizes.type, **attrs)
