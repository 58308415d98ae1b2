"""Importers of CHLO functions that StableHLO lacks, and of element-wise operations with implicit broadcasts.

A function becomes one node if the graph has an op for it, and several StableHLO operations otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import builtin
from xdsl.parser import UnresolvedOperand

from meshgen.ir.graph import Value, is_complex, real_dtype
from meshgen.mlir.arith.builder import Builder, Compute, all_computed, computed
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.fields import listed, number
from meshgen.mlir.parser import TextParser
from meshgen.mlir.stablehlo.attributes import ComparisonDirection, ComparisonType, enumeration
from meshgen.mlir.stablehlo.base import HloOperation, as_nodes
from meshgen.mlir.stablehlo.fields import word
from meshgen.mlir.stablehlo.types import ARROW, TypesForm
from meshgen.mlir.text_operation import Field, Properties, Values, define, values_of

# Example: `chlo.broadcast_add %x, %y {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>, tensor<2x4xf32>) -> ...`
_DIMS = listed("broadcast_dimensions", "dims")._replace(is_required=False)


ChloDirection = enumeration("chlo.comparison_direction")
ChloType = enumeration("chlo.comparison_type")


class TopK(HloOperation):
    """An operation that returns the k largest elements along the last dim, and their indices.

    %values, %indices = chlo.top_k(%x, k = 8) : tensor<..> -> (tensor<..>, tensor<..>)
    """

    FIELDS: ClassVar[tuple[Field, ...]] = (number("k", "k", "k"),)
    TYPES: ClassVar[TypesForm] = ARROW

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        parser.parse_punctuation("(")
        head = super().read_head(parser)
        parser.parse_punctuation(")")
        return head

    @classmethod
    def head(cls, operands: Sequence[str], attrs: Values) -> str:
        return f"({operands[0]}, k = {attrs['k']})"


# Expansions ------------------------------------------------------------------------------------------------------


def _real_and_imag(builder: Builder, x: Value) -> list[Value]:
    return [builder.apply(part, x, dtype=real_dtype(x.type.dtype)) for part in ("real", "imag")]


def _atan(builder: Builder, z: Value) -> Value:
    """Emit atan. For complex numbers this is `-i atanh(iz)`, which is accurate also near the poles at i and -i."""
    if not is_complex(z.type.dtype):
        return builder.apply("atan2", z, builder.constant(1, z.type))
    real, imaginary = _real_and_imag(builder, z)
    rotated = builder.apply("complex", builder.apply("negate", imaginary), real, dtype=z.type.dtype)
    real, imaginary = _real_and_imag(builder, builder.apply("atanh", rotated))
    return builder.apply("complex", imaginary, builder.apply("negate", real), dtype=z.type.dtype)


def _conj(builder: Builder, x: Value) -> Value:
    if not is_complex(x.type.dtype):
        return x
    real, imaginary = _real_and_imag(builder, x)
    return builder.apply("complex", real, builder.apply("negate", imaginary), dtype=x.type.dtype)


def _is_infinity(sign: int) -> Compute:
    """Return a function that compares its operand with infinity: +inf if `sign` is 1, -inf if -1, and both if 0."""

    def is_infinity(builder: Builder, x: Value) -> Value:
        value = x if sign else builder.apply("abs", x)
        return builder.compare("EQ", value, builder.constant(np.inf if sign >= 0 else -np.inf, x.type))

    return is_infinity


def _constant_like(builder: Builder, x: Value) -> Value:
    attribute = builder.attribute("value")
    kind, result = x.type, builder.source.results[0].type
    value_type = (
        attribute.data.type.element_type if isinstance(attribute, DenseElements) else getattr(attribute, "type", None)
    )
    if isinstance(result, builtin.TensorType) and value_type != result.element_type:
        raise Refused("MG0104", f"its value must be of type {result.element_type}, got {value_type}")
    if isinstance(attribute, builtin.FloatAttr | builtin.IntegerAttr):
        return builder.constant(attribute.value.data, kind)
    if isinstance(attribute, DenseElements) and attribute.data.array.ndim == 0:
        return builder.constant(attribute.data.array.item(), kind)
    raise Refused("MG0104", "expected a number as its value")


# Expansions of functions that have no op: operation signature -> mnemonic -> function that emits the nodes.
_EXPANSIONS: dict[str, dict[str, Compute]] = {
    "1 -> 1": {
        "atan": _atan, "conj": _conj, "square": lambda builder, x: builder.apply("multiply", x, x),
        "tan": lambda builder, x: builder.apply("tan", x),
    },
    "1 float -> 1": {"is_inf": _is_infinity(0), "is_neg_inf": _is_infinity(-1), "is_pos_inf": _is_infinity(1)},
    "1 -> 1 <value: number|elements>": {"constant_like": _constant_like},
}  # fmt: skip
_FUNCTIONS = define(HloOperation, "chlo", {line: " ".join(functions) for line, functions in _EXPANSIONS.items()}, TYPES=ARROW)  # fmt: skip


# Broadcasts ------------------------------------------------------------------------------------------------------


def _broadcast_elementwise(builder: Builder, *operands: Value) -> Value:
    """Broadcast the operands to the result's shape and emit the element-wise op.

    Operands of lower rank get new leading dims, unless `broadcast_dimensions` says to which result dims their dims
    belong.
    """
    result, attrs = builder.result, values_of(builder.source)
    listed_dims, rank = attrs.pop("dims"), builder.result.rank
    values: list[Value] = []
    for value in operands:
        smaller = value.type.rank < rank
        dims = listed_dims if listed_dims and smaller else tuple(range(rank - value.type.rank, rank))
        fits = len(dims) == value.type.rank and all(
            0 <= d < rank and (size == 1 or size == result.shape[d])
            for size, d in zip(value.type.shape, dims, strict=False)
        )
        if not fits:
            raise Refused("MG0104", f"{value.type} cannot be broadcast to {result}")
        values.append(value if value.type.shape == result.shape else builder.broadcast(value, result.shape, dims))
    return builder.emit(builder.source.name.removeprefix("chlo.broadcast_"), values, result, **attrs)


# CHLO has its own enums, such as `#chlo<comparison_direction EQ>`. The enums of StableHLO are accepted too.
_DIRECTION = word("comparison_direction", ChloDirection, "direction")
_KIND = word("compare_type", ChloType, "compare_type", is_required=False)
_WORDS = (
    _DIRECTION._replace(kind=f"{ChloDirection.name}|{ComparisonDirection.name}"),
    _KIND._replace(kind=f"{ChloType.name}|{ComparisonType.name}"),
)
_BROADCASTS = (
    *define(HloOperation, "chlo", {
        "2 float -> 1": "broadcast_next_after broadcast_polygamma broadcast_zeta",
        "2 -> 1": "broadcast_add broadcast_and broadcast_atan2 broadcast_complex broadcast_divide broadcast_maximum "
        "broadcast_minimum broadcast_multiply broadcast_or broadcast_power broadcast_remainder broadcast_shift_left "
        "broadcast_shift_right_arithmetic broadcast_shift_right_logical broadcast_subtract broadcast_xor",
        "3 -> 1": "broadcast_select",
    }, TYPES=ARROW, FIELDS=(_DIMS,)),
    *define(HloOperation, "chlo", {"2 -> 1": "broadcast_compare"}, TYPES=ARROW, FIELDS=(_DIMS, *_WORDS)),
)  # fmt: skip
PART = merged(
    as_nodes(
        # Example: `chlo.zeta %x, %q : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>`
        *define(HloOperation, "chlo", {
            "1 -> 1": "acos acosh asin asinh _asin_acos_kernel atanh bessel_i1e cosh digamma erf erf_inv erfc lgamma sinh",
            "2 -> 1": "mulhi next_after polygamma zeta",
        }, TYPES=ARROW),
        *define(TopK, "chlo", {"1 -> 2": "top_k"}),
    ),
    Dialect(
        operations=(*_FUNCTIONS, *_BROADCASTS),
        attributes=(ChloDirection, ChloType),
        importers={
            **all_computed("chlo", {name: compute for functions in _EXPANSIONS.values() for name, compute in functions.items()}),
            **{operation.name: computed(_broadcast_elementwise) for operation in _BROADCASTS},
        },
        self_contained=tuple(operation.name for operation in _FUNCTIONS),
    ),
)  # fmt: skip
