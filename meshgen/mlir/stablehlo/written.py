"""Operations of StableHLO that are expanded to others when they are read: rng, map, ..."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.ir import Operation
from xdsl.irdl import region_def, result_def, var_operand_def

from meshgen.ir.graph import TensorType, is_float
from meshgen.mlir.arith.payload import Builder, finish, lifted
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.stablehlo.attributes import RngDistribution
from meshgen.mlir.stablehlo.base import GenericOperation, HloOperation, closed_regions, define, values_of
from meshgen.mlir.stablehlo.collective_ops import DeviceNumber
from meshgen.mlir.stablehlo.elementwise import Unary
from meshgen.mlir.stablehlo.fields import Field, unread, word


class Rng(HloOperation):
    """`stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (...) -> ...`"""

    arguments = var_operand_def()
    result = result_def()
    FIELDS: ClassVar[tuple[Field, ...]] = (word("rng_distribution", RngDistribution, "how", "distribution"),)


class Map(GenericOperation):
    arguments = var_operand_def()
    computation = region_def()
    result = result_def()
    FIELDS: ClassVar[tuple[Field, ...]] = unread("dimensions")


MHLO_FUNCTIONS = ("erf", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh")  # of chlo, which mhlo has too


def _import_function(importer: Importer, operation: Operation) -> None:
    importer.convert(operation, operation.name.partition(".")[2])


# Random numbers ---------------------------------------------------------------------------------------------------


def _import_rng(importer: Importer, operation: Operation) -> None:
    """Bits of Threefry with the number of the operation as key: the same numbers in every run and on every mesh."""
    builder, kind = Builder(importer, operation), importer.type(operation.results[0])
    first, second = (importer.value(x) for x in operation.operands[:2])
    how = values_of(operation)["how"]
    if how not in ("UNIFORM", "NORMAL"):
        importer.fault("MG0104", f"{operation.name}: unknown distribution '{how}'", operation, "use UNIFORM or NORMAL")
    number = sum(node.op == "rng_bit_generator" for node in importer.graph.nodes)
    seed = builder.emit("constant", [], TensorType((2,), "ui64"), value=np.array([number, 0], np.uint64))
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


def _import_map(importer: Importer, operation: Operation) -> None:
    """The region's element-wise operations on whole arrays."""
    (body,) = closed_regions(importer, operation)
    found = lifted(Builder(importer, operation), body, importer.values(operation.operands))
    if isinstance(found, str):
        importer.fault("MG0103", f"'{found}' in the region of a map is not supported", operation)
        return
    finish(importer, operation, found)


PART = Dialect(
    operations=(
        *(define(Unary, f"stablehlo.{name}") for name in MHLO_FUNCTIONS),
        define(Rng, "stablehlo.rng"),
        define(Map, "stablehlo.map"),
        define(DeviceNumber, "stablehlo.replica_id"),
    ),
    importers={
        **dict.fromkeys((f"stablehlo.{name}" for name in MHLO_FUNCTIONS), _import_function),
        "stablehlo.rng": _import_rng,
        "stablehlo.map": _import_map,
    },
    self_contained=tuple(f"stablehlo.{name}" for name in MHLO_FUNCTIONS),
)
