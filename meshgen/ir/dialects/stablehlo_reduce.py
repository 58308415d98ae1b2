"""Reductions of StableHLO: `reduce`, in the form `applies` and with a region, and the terminator of regions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, prop_def, region_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

from meshgen.ir.bridge import Exporter, Importer, exports, imports
from meshgen.ir.dialects.stablehlo_attributes import array, integers
from meshgen.ir.dialects.stablehlo_base import Properties, define
from meshgen.ir.dialects.stablehlo_elementwise import BINARY, CLASSES
from meshgen.ir.graph import Node
from meshgen.ir.parser import TextParser

KINDS = ("add", "maximum", "minimum", "multiply", "and", "or", "xor")
_CONSTRAINT = "sdy.sharding_constraint"


class Return(IRDLOperation):
    """`stablehlo.return %a, %b : tensor<f32>, tensor<i32>`"""

    arguments = var_operand_def()
    traits = traits_def(IsTerminator())

    @classmethod
    def parse(cls, parser: Parser) -> IRDLOperation:
        assert isinstance(parser, TextParser)
        attributes = parser.parse_optional_attr_dict()
        if not parser.at_value():
            return cls.create(attributes=attributes)
        operands = parser.parse_values()
        parser.parse_punctuation(":")
        start = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return cls.create(operands=parser.resolve_operands(operands, types, start), attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_operand)
            printer.print_string(" : ")
            printer.print_list(self.operand_types, printer.print_attribute)


RETURN = define(Return, "stablehlo.return")


class Reduce(IRDLOperation):
    """`stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (...) -> ...`, or with a
    region: `stablehlo.reduce(%x init: %i), (%y init: %j) across dimensions = [1] : (...) -> (...)
    reducer(%a: ..., %b: ...) (%c: ..., %d: ...) {...}`, where the first of each pair is the accumulated value."""

    arguments = var_operand_def()
    dimensions = prop_def()
    outputs = var_result_def()
    body = region_def()

    @classmethod
    def parse(cls, parser: Parser) -> IRDLOperation:
        assert isinstance(parser, TextParser)
        pairs = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: _parse_pair(parser))
        applied = parser.parse_identifier() if parser.parse_optional_keyword("applies") else None
        parser.parse_keyword("across")
        parser.parse_keyword("dimensions")
        parser.parse_punctuation("=")
        properties: Properties = {"dimensions": array(parser.parse_integers())}
        attributes = parser.parse_optional_attr_dict()
        operands = [value for value, _ in pairs] + [init for _, init in pairs]
        values, results = parser.parse_signature(operands)
        types = [value.type for value in values[len(pairs) :]]
        body = _parse_reducer(parser) if applied is None else _applied(parser, applied, types)
        return cls.create(
            operands=values, result_types=results, properties=properties, attributes=attributes, regions=[body]
        )

    def print(self, printer: Printer) -> None:
        count = len(self.operands) // 2
        applied = applied_op(self.body)
        for index in range(count):
            printer.print_string(", (" if index else "(")
            printer.print_operand(self.operands[index])
            printer.print_string(" init: ")
            printer.print_operand(self.operands[count + index])
            printer.print_string(")")
        printer.print_string(f" applies {applied.name}" if applied else "")
        printer.print_string(f" across dimensions = {list(integers(self.dimensions))}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)
        if applied is None:
            self._print_reducer(printer, count)

    def _print_reducer(self, printer: Printer, count: int) -> None:
        arguments = self.body.block.args
        printer.print_string("\n     reducer")
        for index in range(count):
            printer.print_string("(")
            printer.print_block_argument(arguments[index])
            printer.print_string(", ")
            printer.print_block_argument(arguments[count + index])
            printer.print_string(") ")
        printer.print_region(self.body, print_entry_block_args=False)


def _parse_pair(parser: TextParser) -> tuple[UnresolvedOperand, UnresolvedOperand]:
    parser.parse_punctuation("(")
    value = parser.parse_unresolved_operand()
    parser.parse_keyword("init")
    parser.parse_punctuation(":")
    init = parser.parse_unresolved_operand()
    parser.parse_punctuation(")")
    return value, init


def _parse_reducer(parser: TextParser) -> Region:
    parser.parse_keyword("reducer")
    pairs: list[list[Parser.Argument]] = []
    while parser.parse_optional_punctuation("(") is not None:
        first = parser.parse_argument()
        parser.parse_punctuation(",")
        pairs.append([first, parser.parse_argument()])
        parser.parse_punctuation(")")
    return parser.parse_region([pair[side] for side in range(2) for pair in pairs])


def _applied(parser: TextParser, name: str, types: Sequence[Attribute]) -> Region:
    """The region of the form `applies`: one operation on scalars."""
    mnemonic = name.removeprefix("mhlo.").removeprefix("stablehlo.")
    if mnemonic not in BINARY:
        parser.fail(f"'{name}' is no binary operation")
    return fold_region(mnemonic, types[0])


def fold_region(mnemonic: str, type: Attribute) -> Region:
    """The region of a reduction by one binary operation."""
    block = Block(arg_types=[type, type])
    operation = CLASSES[mnemonic].create(operands=block.args, result_types=[type])
    block.add_ops([operation, RETURN.create(operands=operation.results)])
    return Region(block)


def applied_op(region: Region) -> Operation | None:
    """The only operation of a region that combines its two arguments, in either order where that is the same.

    Sharding constraints, which JAX writes into regions too, mean nothing on scalars.
    """
    block = region.block
    operations = [operation for operation in block.ops if operation.name != _CONSTRAINT]
    if len(operations) != 2 or len(block.args) != 2:
        return None
    operation, _ = operations
    is_plain = operation.name.partition(".")[2] in KINDS and not operation.attributes
    combined, given = ([_unconstrained(ssa) for ssa in each.operands] for each in operations)
    if not is_plain or {*combined} != {*block.args} or given != list(operation.results):
        return None
    return operation


def _unconstrained(ssa: SSAValue) -> SSAValue:
    while isinstance(ssa.owner, Operation) and ssa.owner.name == _CONSTRAINT:
        ssa = ssa.owner.operands[0]
    return ssa


REDUCE = define(Reduce, "stablehlo.reduce")


@imports("stablehlo.reduce")
def _import_reduce(importer: Importer, operation: Operation) -> None:
    dims = integers(operation.properties["dimensions"])
    if (applied := applied_op(operation.regions[0])) is not None:
        importer.convert(operation, "reduce", {"dims": dims, "kind": applied.name.partition(".")[2]})
        return
    body, captures = importer.region(operation.regions[0])
    if captures:
        importer.fault("MG0103", "the region of a reduce uses values from outside", operation)
    importer.convert(operation, "reduce_region", {"dims": dims}, regions=(body,))


@exports("reduce")
def _export_reduce(exporter: Exporter, node: Node) -> Operation:
    scalar = exporter.tensor(node.operands[0].type.with_shape(()))
    return _reduce(exporter, node, fold_region(node.attrs["kind"], scalar))


@exports("reduce_region")
def _export_reduce_region(exporter: Exporter, node: Node) -> Operation:
    return _reduce(exporter, node, Region(exporter.block(node.regions[0], RETURN)))


def _reduce(exporter: Exporter, node: Node, body: Region) -> Operation:
    properties: Properties = {"dimensions": array(node.attrs["dims"])}
    types = exporter.types(node.results)
    operands = exporter.operands(node)
    return REDUCE.create(operands=operands, result_types=types, properties=properties, regions=[body])
