"""Element-wise operations of StableHLO."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Operation
from xdsl.irdl import operand_def, result_def
from xdsl.parser import UnresolvedOperand

from meshgen.mlir.attributes import integer
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.parser import TextParser
from meshgen.mlir.stablehlo.attributes import ComparisonDirection, ComparisonType
from meshgen.mlir.stablehlo.base import HloOperation, Properties, as_nodes, define, values_of
from meshgen.mlir.stablehlo.fields import Field, Values, number, unread, word
from meshgen.mlir.stablehlo.types import CHOICE, ONE, PARTS, TypesForm

ACCURATE = (  # functions with a `result_accuracy`
    "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "tanh", "sqrt", "rsqrt", "cbrt", "sine",
    "cosine", "tan",
)  # fmt: skip
UNARY = (
    "abs", "negate", "floor", "ceil", "round_nearest_even", "round_nearest_afz", "sign",
    "not", "popcnt", "count_leading_zeros",
)  # fmt: skip
BINARY = (
    "add", "subtract", "multiply", "divide", "remainder", "power", "maximum", "minimum", "and", "or", "xor",
    "shift_left", "shift_right_logical", "shift_right_arithmetic", "atan2",
)  # fmt: skip
CONVERSIONS = ("convert", "bitcast_convert", "is_finite", "real", "imag")
_FORMAT = re.compile(r"e(\d+)m(\d+)")
_DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")


class Unary(HloOperation):
    operand = operand_def()
    result = result_def()
    TYPES: ClassVar[TypesForm] = ONE


class Accurate(Unary):
    """`stablehlo.tanh %x {result_accuracy = #stablehlo.result_accuracy<...>} : tensor<4xf32>`"""

    FIELDS: ClassVar[tuple[Field, ...]] = unread("result_accuracy")


class Conversion(HloOperation):
    operand = operand_def()
    result = result_def()


class Binary(HloOperation):
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    TYPES: ClassVar[TypesForm] = ONE


class Combination(Binary):
    """`stablehlo.complex %a, %b : tensor<4xcomplex<f32>>`: the operands' type follows from the result's."""

    TYPES: ClassVar[TypesForm] = PARTS


class Ternary(HloOperation):
    """`clamp`: one type for all where that is so."""

    first = operand_def()
    second = operand_def()
    third = operand_def()
    result = result_def()
    TYPES: ClassVar[TypesForm] = ONE


class Select(Ternary):
    """`stablehlo.select %p, %a, %b : tensor<4xi1>, tensor<4xf32>`"""

    TYPES: ClassVar[TypesForm] = CHOICE


class Compare(HloOperation):
    """`stablehlo.compare LT, %a, %b, FLOAT : (...) -> ...`"""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
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


class ReducePrecision(Unary):
    """`stablehlo.reduce_precision %x, format = e5m10 : tensor<4xf32>`"""

    FIELDS: ClassVar[tuple[Field, ...]] = tuple(
        number(name, name, "format", width=32) for name in ("exponent_bits", "mantissa_bits")
    )

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


CLASSES = {
    name: define(kind, f"stablehlo.{name}")
    for kind, names in (
        (Unary, UNARY), (Accurate, ACCURATE), (Binary, BINARY), (Conversion, CONVERSIONS), (Combination, ("complex",)), (Select, ("select",)),
        (Ternary, ("clamp",)), (Compare, ("compare",)), (ReducePrecision, ("reduce_precision",)),
    )
    for name in names
}  # fmt: skip


def _import_compare(importer: Importer, operation: Operation) -> None:
    attrs = values_of(operation)
    if attrs["direction"] not in _DIRECTIONS:
        message = f"unknown comparison '{attrs['direction']}'"
        importer.fault("MG0104", message, operation, f"use one of {', '.join(_DIRECTIONS)}")
    importer.convert(operation, "compare", attrs)


PART = merged(
    as_nodes(*CLASSES.values(), importers={"stablehlo.compare": _import_compare}),
    Dialect(self_contained=("stablehlo.compare",)),
)
