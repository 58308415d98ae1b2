"""The operation `stablehlo.reduce`, with a region or in the short form `applies`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand

from meshgen.ir.graph import Graph, Node
from meshgen.mlir.attributes import array
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.fields import listed
from meshgen.mlir.literals import function_type
from meshgen.mlir.parser import TextParser
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.stablehlo.base import RETURN, GenericOperation, closed_regions
from meshgen.mlir.stablehlo.elementwise import BINARY, OPERATIONS
from meshgen.mlir.text_operation import Field, Properties, define, values_of

_BINARY = {operation.name.partition(".")[2]: operation for operation in OPERATIONS}
KINDS = ("add", "maximum", "minimum", "multiply", "and", "or", "xor")


class Reduce(GenericOperation):
    """A reduction over dims in one of two forms.

        stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (...) -> ...
        stablehlo.reduce(%x init: %i), (%y init: %j) across dimensions = [1] : (...) -> (...)
            reducer(%a: ..., %b: ...) (%c: ..., %d: ...) {...}

    In each pair of arguments, the first is the accumulator and the second an element.
    """

    FIELDS: ClassVar[tuple[Field, ...]] = (listed("dimensions", "dims"),)

    @classmethod
    def read(cls, parser: TextParser) -> Self:
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
        return cls.of(values, results, attributes, properties, [body])

    @classmethod
    def write(cls, printer: TextPrinter, node: Node) -> str:
        """Return the text of a `reduce` or `reduce_region` node."""
        results, operands, count = printer.results(node), printer.names(node.operands), len(node.operands) // 2
        pairs = ", ".join(f"({x} init: {init})" for x, init in zip(operands[:count], operands[count:], strict=True))
        kind = node.attrs.kind if node.op == "reduce" else _applied_kind(printer, node.regions[0])
        applied = f" applies stablehlo.{kind}" if kind else ""
        types = function_type(printer.types(node.operands), printer.types(node.results))
        head = f"{results}{cls.name}{pairs}{applied} across dimensions = {list(node.attrs.dims)}{printer.attributes(node)} : {types}"
        return head if kind else head + _reducer_text(printer, node.regions[0], count)


def _reducer_text(printer: TextPrinter, body: Graph, count: int) -> str:
    sides = zip(body.inputs[:count], body.inputs[count:], strict=True)
    pairs = [(printer.argument(first), printer.argument(second)) for first, second in sides]
    arguments = "".join(f"({first}, {second}) " for first, second in pairs)
    return f"{printer.newline}     reducer{arguments}{printer.region(body, names=printer.names(body.inputs))}"


def _applied_kind(printer: TextPrinter, body: Graph) -> str:
    """Return the op if the region only combines its two inputs with one op that `applies` can name, else ""."""
    live = [node for node in body.nodes if any(result in body.outputs for result in node.results)]
    if len(body.inputs) != 2 or len(live) != 1 or len(body.outputs) != 1 or live[0].op not in KINDS:
        return ""
    is_plain = {*live[0].operands} == {*body.inputs} and not printer.attributes(live[0])
    return live[0].op if is_plain else ""


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
    """Return the region of a reduction in the short form, which applies the binary operation `name` to scalars."""
    mnemonic = name.removeprefix("mhlo.").removeprefix("stablehlo.")
    if mnemonic not in BINARY.split():
        parser.fail(f"'{name}' is not a binary operation")
    return fold_region(mnemonic, types[0])


def fold_region(mnemonic: str, type: Attribute) -> Region:
    """Return the region of a reduction by the binary operation `mnemonic`."""
    block = Block(arg_types=[type, type])
    operation = _BINARY[mnemonic].create(operands=block.args, result_types=[type])
    block.add_ops([operation, RETURN.create(operands=operation.results)])
    return Region(block)


def applied_op(region: Region) -> Operation | None:
    """Return the operation of a region that only combines its two arguments by one commutative operation, else None.

    Unused operations are ignored, and so are sharding constraints, which JAX also writes into such regions.
    """
    block = region.block
    operations = [operation for operation in _used(block) if not _is_constraint(operation)]
    if len(operations) != 2 or len(block.args) != 2:
        return None
    operation, _ = operations
    is_plain = operation.name.partition(".")[2] in KINDS and not operation.attributes
    combined, returned = ([_unconstrained(ssa) for ssa in user.operands] for user in operations)
    if not is_plain or {*combined} != {*block.args} or returned != list(operation.results):
        return None
    return operation


def _used(block: Block) -> list[Operation]:
    """Return the terminator of a block and the operations on which it depends, in program order."""
    used: list[Operation] = []
    for operation in reversed(list(block.ops)):
        users = {use.operation for result in operation.results for use in result.uses}
        if not used or not users.isdisjoint(used):
            used.append(operation)
    return used[::-1]


def _is_constraint(operation: Operation) -> bool:
    target = operation.properties.get("call_target_name")
    return operation.name == "sdy.sharding_constraint" or (isinstance(target, StringAttr) and target.data == "Sharding")


def _unconstrained(ssa: SSAValue) -> SSAValue:
    while isinstance(ssa.owner, Operation) and _is_constraint(ssa.owner):
        ssa = ssa.owner.operands[0]
    return ssa


def _import_reduce(importer: Importer, operation: Operation) -> None:
    attrs = values_of(operation)
    scalar = importer.type(operation.operands[0]).with_shape(())
    is_of_scalars = [importer.type(argument) for argument in operation.regions[0].block.args] == [scalar, scalar]
    if is_of_scalars and (applied := applied_op(operation.regions[0])) is not None:
        importer.convert(operation, "reduce", attrs | {"kind": applied.name.partition(".")[2]})
        return
    importer.convert(operation, "reduce_region", attrs, regions=closed_regions(importer, operation))


(_REDUCE,) = define(Reduce, "stablehlo", {"2+2n -> 1+n {2+2n -> 1+n}": "reduce"})
PART = Dialect(
    operations=(_REDUCE,),
    importers={"stablehlo.reduce": _import_reduce},
    self_contained=("stablehlo.reduce",),
    writers=dict.fromkeys(("reduce", "reduce_region"), _REDUCE.write),
)
