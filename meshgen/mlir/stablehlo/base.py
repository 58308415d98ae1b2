"""Base classes of StableHLO and CHLO operations, which define their text, their properties and their nodes.

An operation is declared once: its operands, results and regions by a signature, its properties by `FIELDS`, and the
form of its types by `TYPES`. From these follow the pretty form,

    name OPERANDS, keyword = value, ... {other properties} : TYPES

the checks of the generic form, and the conversion to and from nodes. Reading creates an xDSL operation, whereas
printing starts from a node (`write`). An operation with another pretty form overrides `read_head` and `head`. An
operation that does not become the node of its name has its own importer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self

from xdsl.ir import Operation
from xdsl.irdl import traits_def
from xdsl.parser import UnresolvedOperand
from xdsl.traits import IsTerminator

from meshgen.ir.graph import Graph, Node, Value
from meshgen.mlir.constants import folded_array
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, ImportOp, WriteNode
from meshgen.mlir.literals import dictionary, function_type
from meshgen.mlir.parser import TextParser
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.stablehlo.types import FUNCTION, OPERANDS, TypesForm
from meshgen.mlir.text_operation import Properties, TextOperation, Values, define, values_of


class HloOperation(TextOperation):
    """Base class of operations in StableHLO's pretty form."""

    TYPES: ClassVar[TypesForm] = FUNCTION

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        """Parse the operands, and the properties that follow them as `keyword = value`."""
        operands = parser.parse_values() if parser.at_value() else []
        fields = [field for field in cls.FIELDS if field.keyword]
        properties: Properties = {}
        for field in fields:
            if (operands or properties) and parser.parse_optional_punctuation(",") is None:
                break
            name = parser.parse_identifier()
            matching = next(
                (candidate for candidate in fields if candidate.keyword == name and candidate.prop not in properties),
                None,
            )
            if matching is None:
                parser.fail(f"'{field.keyword} =' expected")
            parser.parse_punctuation("=")
            properties[matching.prop] = matching.read(parser)
        return operands, properties

    @classmethod
    def head(cls, operands: Sequence[str], attrs: Values) -> str:
        """Return the text of operands and properties in the form that `read_head` parses."""
        clauses = [f"{field.keyword} = {text}" for field in cls.FIELDS if field.keyword and (text := field.text(attrs))]
        return f" {', '.join([*operands, *clauses])}" if operands or clauses else ""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        leading_attributes = (
            parser.parse_optional_attr_dict()
        )  # Some operations have their attributes in front of the operands.
        operands, properties = cls.read_head(parser)
        attributes = leading_attributes | parser.parse_optional_attr_dict()
        values, results = cls.TYPES.read(parser, operands)
        return cls.of(values, results, attributes, properties)

    @classmethod
    def write(cls, printer: TextPrinter, node: Node) -> str:
        """Return the text of a node that became this operation."""
        results, head = printer.results(node), cls.head(printer.names(node.operands), node.attrs)
        types = cls.TYPES.write(printer.types(node.operands), printer.types(node.results))
        return f"{results}{cls.name}{head}{printer.attributes(node, entries_of(cls, node))}{types}"


class GenericOperation(TextOperation):
    """Base class of operations that have only MLIR's generic form."""

    @classmethod
    def write(cls, printer: TextPrinter, node: Node) -> str:
        """Return the text of a node as this operation."""
        return generic_text(printer, node, cls.name, entries_of(cls, node))


def entries_of(operation: type[TextOperation], node: Node) -> dict[str, str]:
    """Return the text of the properties of a node that are printed in braces, by name."""
    fields = [field for field in operation.FIELDS if not field.keyword or not issubclass(operation, HloOperation)]
    return {field.prop: text for field in fields if (text := field.entry(node.attrs))}


def as_nodes(*operations: type[TextOperation], importers: Mapping[str, ImportOp] | None = None) -> Dialect:
    """Return a `Dialect` of operations that become one node each. The op of the node is the operation's mnemonic.

    `importers` has importers, by operation name, that replace this default.
    """
    special_importers = importers or {}
    return Dialect(
        operations=operations,
        importers={
            **{operation.name: _import_as_node for operation in operations if operation.name not in special_importers},
            **special_importers,
        },
        self_contained=tuple(operation.name for operation in operations if operation.name not in special_importers),
        writers=writers_of(operations),
    )


def writers_of(operations: Sequence[type[TextOperation]]) -> dict[str, WriteNode]:
    """Return the functions that print nodes as these operations, by op."""
    printable = [operation for operation in operations if issubclass(operation, HloOperation | GenericOperation)]
    return {operation.name.partition(".")[2]: operation.write for operation in printable}


def _import_as_node(importer: Importer, operation: Operation) -> None:
    mnemonic = operation.name.partition(".")[2]
    importer.convert(operation, mnemonic, values_of(operation), regions=closed_regions(importer, operation))


def generic_text(printer: TextPrinter, node: Node, name: str, properties: Mapping[str, str], *, operands: Sequence[Value] | None = None,
                 region: Callable[[Graph], str] | None = None) -> str:  # fmt: skip
    """Return a node in generic form: `%r = "name"(%a) <{property = 1}> ({...}) {attribute = 2} : (type) -> type`.

    `region` returns the text of a region, by default that of the printer.
    """
    values = node.operands if operands is None else operands
    head = f'{printer.results(node)}"{name}"({", ".join(printer.names(values))})'
    inside = f" <{dictionary(properties)}>" if properties else ""
    regions = f" ({', '.join(map(region or printer.region, node.regions))})" if node.regions else ""
    types = function_type(printer.types(values), printer.types(node.results))
    return f"{head}{inside}{regions}{printer.attributes(node)} : {types}"


def closed_regions(importer: Importer, operation: Operation) -> tuple[Graph, ...]:
    """Return the graphs of an operation's regions.

    Captured values must be constants, which are copied into the graphs. Reports a fault for any other.
    """
    graphs: list[Graph] = []
    for region in operation.regions:
        graph, captures = importer.region(region)
        values = [folded_array(importer, ssa) for ssa in captures]
        if any(value is None for value in values):
            importer.fault("MG0103", f"the region of {operation.name} captures values from outside", operation)
        first = len(graph.inputs) - len(captures)
        graph.nodes[:0] = [
            Node("constant", [], [inner], {"value": value}, inner.loc)
            for inner, value in zip(graph.inputs[first:], values, strict=True)
        ]
        del graph.inputs[first:]
        graphs.append(graph)
    return tuple(graphs)


class Return(HloOperation):
    """The terminator of a region: `stablehlo.return %a, %b : tensor<f32>, tensor<i32>`."""

    traits = traits_def(IsTerminator())
    TYPES: ClassVar[TypesForm] = OPERANDS


(RETURN,) = define(Return, "stablehlo", {"_ -> 0": "return"})
PART = Dialect(operations=(RETURN,))
