"""Declarations of StableHLO's element-wise operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Operation
from xdsl.parser import UnresolvedOperand

from meshgen.mlir.attributes import integer
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.fields import number
from meshgen.mlir.parser import TextParser
from meshgen.mlir.stablehlo.attributes import ComparisonDirection, ComparisonType
from meshgen.mlir.stablehlo.base import HloOperation, as_nodes
from meshgen.mlir.stablehlo.fields import word
from meshgen.mlir.stablehlo.types import CHOICE, ONE, PARTS, TypesForm
from meshgen.mlir.text_operation import Field, Properties, Values, define, values_of

BINARY = "add subtract multiply divide remainder power maximum minimum and or xor shift_left shift_right_logical shift_right_arithmetic atan2"
_FORMAT = re.compile(r"e(\d+)m(\d+)")
_DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")


class Compare(HloOperation):
    """A comparison: `stablehlo.compare LT, %a, %b, FLOAT : (...) -> ...`."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        word("comparison_direction", ComparisonDirection, "direction", ","),
        word("compare_type", ComparisonType, "compare_type", ",", is_required=False),
    )

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        properties: Properties = {"comparison_direction": ComparisonDirection(parser.parse_identifier())}
        parser.parse_punctuation(",")
        operands = parser.parse_values()
        if parser.parse_optional_punctuation(",") is not None:
            properties["compare_type"] = ComparisonType(parser.parse_identifier())
        return operands, properties

    @classmethod
    def head(cls, operands: Sequence[str], attrs: Values) -> str:
        direction, kind = (field.text(attrs) for field in cls.FIELDS)
        return f" {', '.join([direction, *operands, *filter(None, [kind])])}"


class ReducePrecision(HloOperation):
    """A rounding to fewer exponent and mantissa bits: `stablehlo.reduce_precision %x, format = e5m10 : tensor<4xf32>`."""

    FIELDS: ClassVar[tuple[Field, ...]] = tuple(
        number(name, name, "format", width=32) for name in ("exponent_bits", "mantissa_bits")
    )

    TYPES: ClassVar[TypesForm] = ONE

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operand = parser.parse_unresolved_operand()
        parser.parse_clause("format")
        counts = parser.scan(_FORMAT, "expected a format such as e5m10").groups()
        return [operand], {field.prop: integer(int(count), 32) for field, count in zip(cls.FIELDS, counts, strict=True)}

    @classmethod
    def head(cls, operands: Sequence[str], attrs: Values) -> str:
        exponent, mantissa = (field.text(attrs) for field in cls.FIELDS)
        return f" {operands[0]}, format = e{exponent}m{mantissa}"


OPERATIONS = (
    *define(HloOperation, "stablehlo", {
        "1 -> 1": "abs negate floor ceil round_nearest_even round_nearest_afz sign not popcnt count_leading_zeros",
        "1 -> 1 <result_accuracy?: any>": "exponential exponential_minus_one log log_plus_one logistic tanh sqrt rsqrt cbrt sine cosine tan",
        "2 -> 1": BINARY,
        "3 -> 1": "clamp",
    }, TYPES=ONE),
    *define(HloOperation, "stablehlo", {"1 -> 1": "convert bitcast_convert is_finite real imag"}),
    # The text has only the complex result type, which determines the operand types.
    *define(HloOperation, "stablehlo", {"2 -> 1": "complex"}, TYPES=PARTS),
    *define(HloOperation, "stablehlo", {"3 -> 1": "select"}, TYPES=CHOICE),
    *define(Compare, "stablehlo", {"2 -> 1": "compare"}),
    *define(ReducePrecision, "stablehlo", {"1 -> 1": "reduce_precision"}),
)  # fmt: skip


def _import_compare(importer: Importer, operation: Operation) -> None:
    attrs = values_of(operation)
    if attrs["direction"] not in _DIRECTIONS:
        message = f"unknown comparison '{attrs['direction']}'"
        importer.fault("MG0104", message, operation, f"use one of {', '.join(_DIRECTIONS)}")
    importer.convert(operation, "compare", attrs)


PART = merged(
    as_nodes(*OPERATIONS, importers={"stablehlo.compare": _import_compare}),
    Dialect(self_contained=("stablehlo.compare",)),
)
