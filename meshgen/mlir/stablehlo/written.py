"""Operations of StableHLO that are expanded into others during import, such as rng and map."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from meshgen.ir.graph import TensorType, Value, is_float
from meshgen.mlir.arith.builder import Builder, all_computed, lifted
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.stablehlo.attributes import RngDistribution
from meshgen.mlir.stablehlo.base import GenericOperation, HloOperation, closed_regions
from meshgen.mlir.stablehlo.fields import word
from meshgen.mlir.stablehlo.types import ONE
from meshgen.mlir.text_operation import define, values_of

# functions of CHLO that also exist in MHLO
MHLO_FUNCTIONS = ("erf", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh")


def _import_function(importer: Importer, operation: Operation) -> None:
    importer.convert(operation, operation.name.partition(".")[2])


# Random numbers ---------------------------------------------------------------------------------------------------


def _rng(b: Builder, first: Value, second: Value, *_: Value) -> Value:
    """Expand `rng`: return random numbers from the Threefry generator.

    The key is the number of random operations before this one, so the results are equal in every run and on every mesh.
    """
    kind, distribution = b.result, values_of(b.source)["how"]
    if distribution not in ("UNIFORM", "NORMAL"):
        raise Refused("MG0104", f"unknown distribution '{distribution}'", "use UNIFORM or NORMAL")
    key = sum(node.op == "rng_bit_generator" for node in b.graph.nodes)
    seed = b.emit("constant", [], TensorType((2,), "ui64"), value=np.array([key, 0], np.uint64))
    bits_type = TensorType(kind.shape, "ui64" if kind.dtype.endswith("64") else "ui32")
    bits = b.append("rng_bit_generator", [seed], [seed.type, bits_type], {"algorithm": "THREE_FRY"})[1]
    low, high = (b.broadcast(x, kind.shape) for x in (first, second))
    if not is_float(kind.dtype):
        span = b.convert(b.apply("subtract", high, low), bits_type.dtype)
        return b.apply("add", low, b.convert(b.apply("remainder", bits, span), kind.dtype))
    float_dtype, width, fraction_bits = ("f64", 64, 52) if kind.dtype == "f64" else ("f32", 32, 23)
    fraction = b.apply("shift_right_logical", bits, b.constant(width - fraction_bits, bits_type))
    scale = b.constant(2.0**-fraction_bits, TensorType(kind.shape, float_dtype))
    unit = b.apply("multiply", b.convert(fraction, float_dtype), scale)
    # A normal number is the inverse of the distribution function at a uniform number. Add half a step, since the
    # inverse is infinite at 0.
    if distribution == "NORMAL":
        half = b.constant(2.0 ** -(fraction_bits + 1), unit.type)
        twice = b.apply("add", unit, b.apply("add", unit, half))
        centered = b.apply("subtract", twice, b.constant(1, unit.type))
        unit = b.apply("multiply", b.apply("erf_inv", centered), b.constant(2**0.5, unit.type))
        high = b.apply("add", low, high)
    return b.apply("add", low, b.apply("multiply", b.convert(unit, kind.dtype), b.apply("subtract", high, low)))


# Regions over entire arrays ---------------------------------------------------------------------------------------


def _map(b: Builder, *operands: Value) -> Value:
    """Expand `map`: apply the element-wise operations of its region to whole arrays."""
    (body,) = closed_regions(b.importer, b.source)
    mapped = lifted(b, body, operands)
    if isinstance(mapped, str):
        raise Refused("MG0103", f"'{mapped}' in the region of a map is not supported")
    return mapped


PART = Dialect(
    operations=(
        *define(HloOperation, "stablehlo", {"1 -> 1": " ".join(MHLO_FUNCTIONS)}, TYPES=ONE),
        # Example: `stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (...) -> ...`
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
