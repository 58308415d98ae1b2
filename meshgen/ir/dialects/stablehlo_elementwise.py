"""Element-wise operations of StableHLO."""

from __future__ import annotations

import re
from typing import ClassVar, Self

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from meshgen.ir.bridge import Exporter, Importer, exports, imports
from meshgen.ir.dialects.stablehlo_attributes import ComparisonDirection, ComparisonType, integer_of, word_of
from meshgen.ir.dialects.stablehlo_base import HloOperation, Properties, define
from meshgen.ir.graph import Node
from meshgen.ir.parser import TextParser

UNARY = (
    "abs", "negate", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "tanh", "sqrt",
    "rsqrt", "cbrt", "sine", "cosine", "tan", "floor", "ceil", "round_nearest_even", "round_nearest_afz", "sign",
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
    ONE_TYPE: ClassVar[bool] = True


class Conversion(HloOperation):
    operand = operand_def()
    result = result_def()


class Binary(HloOperation):
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    ONE_TYPE: ClassVar[bool] = True


class Compare(HloOperation):
    lhs = operand_def()
    rhs = operand_def()
    comparison_direction = prop_def(ComparisonDirection)
    compare_type = opt_prop_def(ComparisonType)
    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        properties: Properties = {"comparison_direction": ComparisonDirection(parser.parse_identifier())}
        parser.parse_punctuation(",")
        operands = parser.parse_values()
        if parser.parse_optional_punctuation(",") is not None:
            properties["compare_type"] = ComparisonType(parser.parse_identifier())
        return operands, properties

    def head(self, printer: Printer) -> None:
        printer.print_string(f" {self.comparison_direction.data}, ")
        printer.print_list(self.operands, printer.print_operand)
        if self.compare_type is not None:
            printer.print_string(f", {self.compare_type.data}")


class Combination(HloOperation):
    """`stablehlo.complex %a, %b : tensor<4xcomplex<f32>>`: the operands' type follows from the result's."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        operands = parser.parse_values()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        if (function := parser.parse_optional_function_type()) is not None:
            types, results = list(function.inputs.data), list(function.outputs.data)
        else:
            results = [parser.parse_type()]
            types = [_part_type(results[0])] * 2
        values = parser.resolve_operands(operands, types, start)
        return cls.create(operands=values, result_types=results, attributes=attributes)

    def print(self, printer: Printer) -> None:
        self.head(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if list(self.operand_types) != [_part_type(self.result.type)] * 2:
            printer.print_function_type(self.operand_types, self.result_types)
            return
        printer.print_attribute(self.result.type)


def _part_type(type: Attribute) -> Attribute:
    """The type of the parts of complex numbers; of what is none, itself."""
    if not isinstance(type, builtin.TensorType) or not isinstance(type.element_type, builtin.ComplexType):
        return type
    return builtin.TensorType(type.element_type.element_type, type.get_shape(), type.encoding)


class ReducePrecision(HloOperation):
    """`stablehlo.reduce_precision %x, format = e5m10 : tensor<4xf32>`"""

    operand = operand_def()
    exponent_bits = prop_def()
    mantissa_bits = prop_def()
    result = result_def()
    ONE_TYPE: ClassVar[bool] = True

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operand = parser.parse_unresolved_operand()
        parser.parse_clause("format")
        exponent, mantissa = parser.scan(_FORMAT, "format e5m10 expected").groups()
        return [operand], {"exponent_bits": _narrow(int(exponent)), "mantissa_bits": _narrow(int(mantissa))}

    def head(self, printer: Printer) -> None:
        super().head(printer)
        printer.print_string(f", format = e{integer_of(self.exponent_bits)}m{integer_of(self.mantissa_bits)}")


def _narrow(value: int) -> Attribute:
    return builtin.IntegerAttr(value, builtin.i32)


class Ternary(HloOperation):
    """`clamp`: one type for all where that is so."""

    first = operand_def()
    second = operand_def()
    third = operand_def()
    result = result_def()
    ONE_TYPE: ClassVar[bool] = True


class Select(HloOperation):
    """`stablehlo.select %p, %a, %b : tensor<4xi1>, tensor<4xf32>`"""

    pred = operand_def()
    on_true = operand_def()
    on_false = operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        operands = parser.parse_values()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        types: list[Attribute]
        results: list[Attribute]
        if (function := parser.parse_optional_function_type()) is not None:
            types, results = list(function.inputs.data), list(function.outputs.data)
        else:
            pred = parser.parse_type()
            parser.parse_punctuation(",")
            type = parser.parse_type()
            types, results = [pred, type, type], [type]
        values = parser.resolve_operands(operands, types, start)
        return cls.create(operands=values, result_types=results, attributes=attributes)

    def print(self, printer: Printer) -> None:
        self.head(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if not self.on_true.type == self.on_false.type == self.result.type:
            printer.print_function_type(self.operand_types, self.result_types)
            return
        printer.print_attribute(self.pred.type)
        printer.print_string(", ")
        printer.print_attribute(self.result.type)


CLASSES = (
    {name: define(Unary, f"stablehlo.{name}") for name in UNARY}
    | {name: define(Binary, f"stablehlo.{name}") for name in BINARY}
    | {name: define(Conversion, f"stablehlo.{name}") for name in CONVERSIONS}
    | {"complex": define(Combination, "stablehlo.complex")}
    | {"select": define(Select, "stablehlo.select"), "clamp": define(Ternary, "stablehlo.clamp")}
)
COMPARE = define(Compare, "stablehlo.compare")
REDUCE_PRECISION = define(ReducePrecision, "stablehlo.reduce_precision")


@imports(*(f"stablehlo.{name}" for name in CLASSES))
def _import_plain(importer: Importer, operation: Operation) -> None:
    importer.convert(operation, operation.name.partition(".")[2])


@imports("stablehlo.compare")
def _import_compare(importer: Importer, operation: Operation) -> None:
    direction = word_of(operation.properties["comparison_direction"])
    if direction not in _DIRECTIONS:
        importer.fault("MG0104", f"'{direction}' is no comparison", operation, f"use one of {', '.join(_DIRECTIONS)}")
    attrs = {"direction": direction, "compare_type": word_of(operation.properties.get("compare_type"))}
    importer.convert(operation, "compare", attrs)


@exports(*CLASSES)
def _export_plain(exporter: Exporter, node: Node) -> Operation:
    return CLASSES[node.op].create(operands=exporter.operands(node), result_types=exporter.types(node.results))


@exports("compare")
def _export_compare(exporter: Exporter, node: Node) -> Operation:
    properties: Properties = {"comparison_direction": ComparisonDirection(node.attrs["direction"])}
    if node.attrs.get("compare_type"):
        properties["compare_type"] = ComparisonType(node.attrs["compare_type"])
    types = exporter.types(node.results)
    return COMPARE.create(operands=exporter.operands(node), result_types=types, properties=properties)


@imports("stablehlo.reduce_precision")
def _import_reduce_precision(importer: Importer, operation: Operation) -> None:
    attrs = {name: integer_of(operation.properties[name]) for name in ("exponent_bits", "mantissa_bits")}
    importer.convert(operation, "reduce_precision", attrs)


@exports("reduce_precision")
def _export_reduce_precision(exporter: Exporter, node: Node) -> Operation:
    properties = {name: _narrow(node.attrs[name]) for name in ("exponent_bits", "mantissa_bits")}
    types = exporter.types(node.results)
    return REDUCE_PRECISION.create(operands=exporter.operands(node), result_types=types, properties=properties)
