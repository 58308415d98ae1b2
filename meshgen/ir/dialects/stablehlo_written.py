"""Operations of StableHLO and CHLO that are written out in others when they are read: rng, map, ragged_dot, ..."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
)
from xdsl.parser import UnresolvedOperand
from xdsl.printer import Printer

from meshgen.ir.bridge import Importer, imports
from meshgen.ir.bridge_payload import Builder, finish
from meshgen.ir.dialects.stablehlo_attributes import (
    ATTRIBUTES,
    RngDistribution,
    Struct,
    Word,
    precision_of,
    word_of,
)
from meshgen.ir.dialects.stablehlo_base import HloOperation, Properties, define
from meshgen.ir.dialects.stablehlo_windows import closed_regions
from meshgen.ir.evaluate_elementwise import LIFTABLE
from meshgen.ir.graph import TensorType, Value, is_float
from meshgen.ir.parser import TextParser

Array = np.ndarray[Any, Any]


@irdl_attr_definition
class RaggedDotDimensions(Struct):
    name = "chlo.ragged_dot"


@irdl_attr_definition
class ChloPrecision(Word):
    name = "chlo.precision"


ATTRIBUTES.extend((RaggedDotDimensions, ChloPrecision))


class Rng(HloOperation):
    """`stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (...) -> ...`"""

    arguments = var_operand_def()
    rng_distribution = prop_def(RngDistribution)
    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operands = parser.parse_values()
        parser.parse_clause("distribution")
        return operands, {"rng_distribution": RngDistribution(parser.parse_identifier())}


class Map(IRDLOperation):
    arguments = var_operand_def()
    dimensions = opt_prop_def()
    computation = region_def()
    result = result_def()


class RaggedDot(IRDLOperation):
    lhs = operand_def()
    rhs = operand_def()
    group_sizes = operand_def()
    ragged_dot_dimension_numbers = prop_def(RaggedDotDimensions)
    precision_config = opt_prop_def()
    result = result_def()


class ReplicaId(HloOperation):
    """`%0 = stablehlo.replica_id : tensor<ui32>`"""

    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        return [], {}

    def head(self, printer: Printer) -> None:
        """There is none."""


define(Rng, "stablehlo.rng")
define(Map, "stablehlo.map")
define(RaggedDot, "chlo.ragged_dot")
define(ReplicaId, "stablehlo.replica_id")


# Random numbers ---------------------------------------------------------------------------------------------------


@imports("stablehlo.rng")
def _import_rng(importer: Importer, operation: Operation) -> None:
    """Bits of Threefry with the number of the operation as key: the same numbers in every run and on every mesh."""
    builder, kind = Builder(importer, operation), importer.type(operation.results[0])
    first, second = (importer.value(x) for x in operation.operands[:2])
    how = word_of(operation.properties["rng_distribution"])
    number = sum(node.op == "rng_bit_generator" for node in importer.graph.nodes)
    seed = builder.node("constant", [], TensorType((2,), "ui64"), value=np.array([number, 0], np.uint64))
    bits_type = TensorType(kind.shape, "ui64" if kind.dtype.endswith("64") else "ui32")
    types = [seed.type, bits_type]
    _, bits = importer.emit("rng_bit_generator", [seed], types, {"algorithm": "THREE_FRY"}, operation)
    low, high = (builder.broadcast(x, kind.shape) for x in (first, second))
    if not is_float(kind.dtype):
        span = builder.convert(builder.apply("subtract", high, low), bits_type.dtype)
        offset = builder.convert(builder.apply("remainder", bits, span), kind.dtype)
        finish(importer, operation, builder.apply("add", low, offset))
        return
    wide = "f64" if kind.dtype == "f64" else "f32"
    fraction_bits = 52 if wide == "f64" else 23
    width = 64 if wide == "f64" else 32
    kept = builder.apply("shift_right_logical", bits, builder.constant(width - fraction_bits, bits_type))
    scale = builder.constant(2.0**-fraction_bits, TensorType(kind.shape, wide))
    unit = builder.apply("multiply", builder.convert(kept, wide), scale)
    if how == "NORMAL":  # the inverse of the distribution; half a step away from 0, where it is infinite
        half = builder.constant(2.0 ** -(fraction_bits + 1), unit.type)
        centred = builder.apply("subtract", builder.apply("add", unit, builder.apply("add", unit, half)), builder.constant(1, unit.type))  # fmt: skip
        unit = builder.apply("multiply", builder.apply("erf_inv", centred), builder.constant(2**0.5, unit.type))
        high = builder.apply("add", low, high)
    value = builder.convert(unit, kind.dtype)
    finish(importer, operation, builder.apply("add", low, builder.apply("multiply", value, builder.apply("subtract", high, low))))  # fmt: skip


# Regions over whole arrays ----------------------------------------------------------------------------------------


@imports("stablehlo.map")
def _import_map(importer: Importer, operation: Operation) -> None:
    """The region's element-wise operations on whole arrays."""
    (body,) = closed_regions(importer, operation)
    shape = importer.type(operation.results[0]).shape
    if other := next((node.op for node in body.nodes if node.op not in LIFTABLE), None):
        importer.fault("MG0103", f"'{other}' in the region of a map is not supported", operation)
        return
    builder = Builder(importer, operation)
    values = dict(zip(body.inputs, importer.values(operation.operands), strict=True))
    for node in body.nodes:
        kind = TensorType(shape, node.result.type.dtype)
        if node.op == "constant":
            values[node.result] = builder.constant(np.asarray(node.attrs["value"]).item(), kind)
        else:
            values[node.result] = builder.node(node.op, [values[v] for v in node.operands], kind, **node.attrs)
    finish(importer, operation, values[body.outputs[0]])


# Ragged dots ------------------------------------------------------------------------------------------------------

_RAGGED_LISTS = ("lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
                 "rhs_contracting_dimensions", "lhs_ragged_dimensions", "rhs_group_dimensions")  # fmt: skip


@imports("chlo.ragged_dot")
def _import_ragged_dot(importer: Importer, operation: Operation) -> None:
    """A dot in which the rows of the left side are masked by group.

    The left side gets a dim of groups, with zeros in the rows of others. That dim is contracted where the right side
    has groups, is the first of the result where a contracted dim is ragged, and means nothing where a batch dim is.
    """
    assert isinstance(operation, RaggedDot)
    numbering = operation.ragged_dot_dimension_numbers
    lists = [numbering.integers(name) for name in _RAGGED_LISTS]
    left_batch, right_batch, left_contract, right_contract, ragged_dims, group_dims = lists
    lhs, rhs, sizes = importer.values(operation.operands)
    if len(ragged_dims) != 1 or not 0 <= ragged_dims[0] < lhs.type.rank or len(group_dims) > 1:
        importer.fault(
            "MG0104", "chlo.ragged_dot has one ragged dim of its left side, and at most one of groups", operation
        )
        return
    builder, (ragged,) = Builder(importer, operation), ragged_dims
    attrs: dict[str, Any] = {"precision": precision_of(operation.precision_config)}
    result = importer.type(operation.results[0])
    if ragged in left_batch:
        attrs |= {"lhs_batch": left_batch, "rhs_batch": right_batch, "lhs_contract": left_contract, "rhs_contract": right_contract}  # fmt: skip
        finish(importer, operation, builder.node("dot_general", [lhs, rhs], result, **attrs))
        return
    masked = _by_group(builder, lhs, sizes, left_batch, ragged)
    left_batch, left_contract = (tuple(d + 1 for d in dims) for dims in (left_batch, left_contract))
    if ragged in lists[2]:  # the groups are dims of the result, before all others but the batches
        product = _product_type(masked.type, rhs.type, left_batch, right_batch, left_contract, right_contract, result)
        attrs |= {"lhs_batch": left_batch, "rhs_batch": right_batch, "lhs_contract": left_contract, "rhs_contract": right_contract}  # fmt: skip
        found = builder.node("dot_general", [masked, rhs], product, **attrs)
        count = len(left_batch)
        order = (count, *range(count), *range(count + 1, result.rank))
        finish(importer, operation, found if not count else builder.node("transpose", [found], result, perm=order))
        return
    if len(group_dims) != 1:
        importer.fault("MG0104", "chlo.ragged_dot: the right side needs a dim of groups", operation)
        return
    attrs |= {"lhs_batch": left_batch, "rhs_batch": right_batch, "lhs_contract": (0, *left_contract), "rhs_contract": (*group_dims, *right_contract)}  # fmt: skip
    finish(importer, operation, builder.node("dot_general", [masked, rhs], result, **attrs))


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
    row = builder.node("iota", [], TensorType(shape, sizes.type.dtype), dim=ragged + 1)

    def spread(value: Value) -> Value:
        if order != sorted(order):
            turned = value.type.with_shape(value.type.shape[d] for d in order)
            value = builder.node("transpose", [value], turned, perm=tuple(order))
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
    rows, columns = (builder.node("iota", [], square, dim=d) for d in (0, 1))
    ones, zeros = (builder.constant(n, square) for n in (1, 0))
    upper = builder.select(builder.compare("LE", rows, columns), ones, zeros)
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (sizes.type.rank - 1,), "rhs_contract": (0,), "precision": ()}  # fmt: skip
    return builder.node("dot_general", [sizes, upper], sizes.type, **attrs)


@imports("stablehlo.replica_id")
def _import_replica_id(importer: Importer, operation: Operation) -> None:
    """A program over a mesh has one replica."""
    finish(importer, operation, Builder(importer, operation).constant(0, importer.type(operation.results[0])))
