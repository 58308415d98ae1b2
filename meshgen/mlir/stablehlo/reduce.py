"""Reductions of StableHLO: `reduce`, in the form `applies` and with a region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, region_def, var_operand_def, var_result_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from meshgen.ir.graph import Node
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.exporter import Exporter
from meshgen.mlir.parser import TextParser
from meshgen.mlir.stablehlo.attributes import array, integers
from meshgen.mlir.stablehlo.base import RETURN, Properties, build, closed_regions, define, values_of
from meshgen.mlir.stablehlo.elementwise import BINARY, CLASSES
from meshgen.mlir.stablehlo.fields import Field, listed

KINDS = ("add", "maximum", "minimum", "multiply", "and", "or", "xor")


class Reduce(IRDLOperation):
    """`stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (...) -> ...`, or with a
    region: `stablehlo.reduce(%x init: %i), (%y init: %j) across dimensions = [1] : (...) -> (...)
    reducer(%a: ..., %b: ...) (%c: ..., %d: ...) {...}`, where the first of each pair is the accumulated value."""

    arguments = var_operand_def()
    outputs = var_result_def()
    body = region_def()
    FIELDS: ClassVar[tuple[Field, ...]] = (listed("dimensions", "dims"),)

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
        printer.print_string(f" across dimensions = {list(integers(self.properties['dimensions']))}")
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
        first = parser.parse_region_argument()
        parser.parse_punctuation(",")
        pairs.append([first, parser.parse_region_argument()])
        parser.parse_punctuation(")")
    return parser.parse_region([pair[side] for side in range(2) for pair in pairs])


def _applied(parser: TextParser, name: str, types: Sequence[Attribute]) -> Region:
    """The region of the form `applies`: one operation on scalars."""
    mnemonic = name.removeprefix("mhlo.").removeprefix("stablehlo.")
    if mnemonic not in BINARY:
        parser.fail(f"'{name}' is not a binary operation")
    return fold_region(mnemonic, types[0])


def fold_region(mnemonic: str, type: Attribute) -> Region:
    """The region of a reduction by one binary operation."""
    block = Block(arg_types=[type, type])
    operation = CLASSES[mnemonic].create(operands=block.args, result_types=[type])
    block.add_ops([operation, RETURN.create(operands=operation.results)])
    return Region(block)


def applied_op(region: Region) -> Operation | None:
    """The only operation of a region that combines its two arguments, in either order where that is the same.

    Sharding constraints, which JAX writes into regions too, have no effect on scalars; nor have unused operations.
    """
    block = region.block
    operations = [operation for operation in _used(block) if not _is_constraint(operation)]
    if len(operations) != 2 or len(block.args) != 2:
        return None
    operation, _ = operations
    is_plain = operation.name.partition(".")[2] in KINDS and not operation.attributes
    combined, given = ([_unconstrained(ssa) for ssa in each.operands] for each in operations)
    if not is_plain or {*combined} != {*block.args} or given != list(operation.results):
        return None
    return operation


def _used(block: Block) -> list[Operation]:
    """The operations of a block that its terminator needs, itself included."""
    kept: list[Operation] = []
    for operation in reversed(list(block.ops)):
        users = {use.operation for result in operation.results for use in result.uses}
        if not kept or not users.isdisjoint(kept):
            kept.append(operation)
    return kept[::-1]


def _is_constraint(operation: Operation) -> bool:
    target = operation.properties.get("call_target_name")
    return operation.name == "sdy.sharding_constraint" or (isinstance(target, StringAttr) and target.data == "Sharding")


def _unconstrained(ssa: SSAValue) -> SSAValue:
    while isinstance(ssa.owner, Operation) and _is_constraint(ssa.owner):
        ssa = ssa.owner.operands[0]
    return ssa


REDUCE = define(Reduce, "stablehlo.reduce")


def _import_reduce(importer: Importer, operation: Operation) -> None:
    attrs = values_of(operation)
    scalar = importer.type(operation.operands[0]).with_shape(())
    is_of_scalars = [importer.type(argument) for argument in operation.regions[0].block.args] == [scalar, scalar]
    if is_of_scalars and (applied := applied_op(operation.regions[0])) is not None:
        importer.convert(operation, "reduce", attrs | {"kind": applied.name.partition(".")[2]})
        return
    importer.convert(operation, "reduce_region", attrs, regions=closed_regions(importer, operation))


def _export_reduce(exporter: Exporter, node: Node) -> Operation:
    operation = build(exporter, node, REDUCE)
    operation.add_region(fold_region(node.attrs.kind, exporter.tensor(node.operands[0].type.with_shape(()))))
    return operation


def _export_reduce_region(exporter: Exporter, node: Node) -> Operation:
    return build(exporter, node, REDUCE)


PART = Dialect(
    operations=(REDUCE,),
    importers={"stablehlo.reduce": _import_reduce},
    self_contained=("stablehlo.reduce",),
    exporters={"reduce": _export_reduce, "reduce_region": _export_reduce_region},
)
