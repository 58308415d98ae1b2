"""Element-wise operations of StableHLO, and those of CHLO that mean the same or are one function."""

from __future__ import annotations

from typing import ClassVar, Self

from xdsl.ir import Attribute, Operation
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from meshgen.ir.bridge import Exporter, Importer, exports, imports
from meshgen.ir.dialects.stablehlo_attributes import ComparisonDirection, ComparisonType, word_of
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
CONVERSIONS = ("convert", "bitcast_convert", "is_finite")
CHLO_UNARY = {"erf": "erf", "erf_inv": "erf_inv", "tan": "tan"}
_DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")


class Unary(HloOperation):
    operand = operand_def()
    result = result_def()
    ONE_TYPE: ClassVar[bool] = True


class Conversion(HloOperation):
    operand = operand_def()
    result = result_def()


class ChloUnary(HloOperation):
    """`chlo.erf %x : tensor<4xf32> -> tensor<4xf32>`"""

    operand = operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        parser.parse_punctuation("->")
        value = parser.resolve_operand(operand, type)
        return cls.create(operands=[value], result_types=[parser.parse_type()], attributes=attributes)

    def print(self, printer: Printer) -> None:
        self.head(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.operand.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


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
    | {"select": define(Select, "stablehlo.select"), "clamp": define(Ternary, "stablehlo.clamp")}
)
CHLO = {name: define(ChloUnary, f"chlo.{name}") for name in (*CHLO_UNARY, "square")}
COMPARE = define(Compare, "stablehlo.compare")


@imports(*(f"stablehlo.{name}" for name in CLASSES))
def _import_plain(importer: Importer, operation: Operation) -> None:
    importer.convert(operation, operation.name.partition(".")[2])


@imports(*(f"chlo.{name}" for name in CHLO_UNARY))
def _import_chlo(importer: Importer, operation: Operation) -> None:
    importer.convert(operation, CHLO_UNARY[operation.name.partition(".")[2]])


@imports("chlo.square")
def _import_square(importer: Importer, operation: Operation) -> None:
    importer.convert(operation, "multiply", operands=[operation.operands[0], operation.operands[0]])


@imports("stablehlo.compare")
def _import_compare(importer: Importer, operation: Operation) -> None:
    direction = word_of(operation.properties["comparison_direction"])
    if direction not in _DIRECTIONS:
        importer.fault("MG0104", f"'{direction}' is no comparison", operation, f"use one of {', '.join(_DIRECTIONS)}")
    attrs = {"direction": direction, "compare_type": word_of(operation.properties.get("compare_type"))}
    importer.convert(operation, "compare", attrs)


@exports(*CLASSES, *("erf", "erf_inv"))
def _export_plain(exporter: Exporter, node: Node) -> Operation:
    operation = CLASSES.get(node.op) or CHLO[node.op]
    return operation.create(operands=exporter.operands(node), result_types=exporter.types(node.results))


@exports("compare")
def _export_compare(exporter: Exporter, node: Node) -> Operation:
    properties: Properties = {"comparison_direction": ComparisonDirection(node.attrs["direction"])}
    if node.attrs.get("compare_type"):
        properties["compare_type"] = ComparisonType(node.attrs["compare_type"])
    types = exporter.types(node.results)
    return COMPARE.create(operands=exporter.operands(node), result_types=types, properties=properties)
