"""Operations of StableHLO that are expanded to others when they are read: rng, map, ..."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from meshgen.ir.graph import TensorType, Value, is_float
from meshgen.mlir.arith.payload import Builder, all_computed, lifted
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.stablehlo.attributes import RngDistribution
from meshgen.mlir.stablehlo.base import GenericOperation, HloOperation, closed_regions
from meshgen.mlir.stablehlo.fields import word
from meshgen.mlir.stablehlo.types import ONE
from meshgen.mlir.text_operation import define, values_of

MHLO_FUNCTIONS = ("erf", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh")  # of chlo, which mhlo has too


def _import_function(importer: Importer, operation: Operation) -> None:
    importer.convert(operation, operation.name.partition(".")[2])


# Random numbers ---------------------------------------------------------------------------------------------------


def _rng(b: Builder, first: Value, second: Value, *_: Value) -> Value:
    """Bits of Threefry with the number of the operation as key: the same numbers in every run and on every mesh."""
    kind, how = b.result, values_of(b.source)["how"]
    if how not in ("UNIFORM", "NORMAL"):
        raise Refused("MG0104", f"unknown distribution '{how}'", "use UNIFORM or NORMAL")
    number = sum(node.op == "rng_bit_generator" for node in b.graph.nodes)
    seed = b.emit("constant", [], TensorType((2,), "ui64"), value=np.array([number, 0], np.uint64))
    bits_type = TensorType(kind.shape, "ui64" if kind.dtype.endswith("64") else "ui32")
    bits = b.append("rng_bit_generator", [seed], [seed.type, bits_type], {"algorithm": "THREE_FRY"})[1]
    low, high = (b.broadcast(x, kind.shape) for x in (first, second))
    if not is_float(kind.dtype):
        span = b.convert(b.apply("subtract", high, low), bits_type.dtype)
        return b.apply("add", low, b.convert(b.apply("remainder", bits, span), kind.dtype))
    wide, width, fraction_bits = ("f64", 64, 52) if kind.dtype == "f64" else ("f32", 32, 23)
    kept = b.apply("shift_right_logical", bits, b.constant(width - fraction_bits, bits_type))
    scale = b.constant(2.0**-fraction_bits, TensorType(kind.shape, wide))
    unit = b.apply("multiply", b.convert(kept, wide), scale)
    if how == "NORMAL":  # the inverse of the distribution; half a step away from 0, where it is infinite
        half = b.constant(2.0 ** -(fraction_bits + 1), unit.type)
        twice = b.apply("add", unit, b.apply("add", unit, half))
        centered = b.apply("subtract", twice, b.constant(1, unit.type))
        unit = b.apply("multiply", b.apply("erf_inv", centered), b.constant(2**0.5, unit.type))
        high = b.apply("add", low, high)
    return b.apply("add", low, b.apply("multiply", b.convert(unit, kind.dtype), b.apply("subtract", high, low)))


# Regions over whole arrays ----------------------------------------------------------------------------------------


def _map(b: Builder, *operands: Value) -> Value:
    """The region's element-wise operations on whole arrays."""
    (body,) = closed_regions(b.importer, b.source)
    found = lifted(b, body, operands)
    if isinstance(found, str):
        raise Refused("MG0103", f"'{found}' in the region of a map is not supported")
    return found


PART = Dialect(
    operations=(
        *define(HloOperation, "stablehlo", {"1 -> 1": " ".join(MHLO_FUNCTIONS)}, TYPES=ONE),
        # `stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (...) -> ...`
        *define(HloOperation, "stablehlo", {"3 -> 1": "rng"}, FIELDS=(
            word("rng_distribution", RngDistribution, "how", "distribution"),
        )),
        *define(GenericOperation, "stablehlo", {"1+n -> 1 {1+n -> 1} <dimensions?: integers>": "map"}),
    ),
    importers={
        **dict.fromkeys((f"stablehlo.{name}" for name in MHLO_FUNCTIONS), _import_function),
        **all_computed("stablehlo", {"rng": _rng, "map": _map}),
    },
    self_contained=tuple(f"stablehlo.{name}" for name in MHLO_FUNCTIONS),
)  # fmt: skip
