"""Shared base of the operations of StableHLO and CHLO: text, properties, and nodes.

An operation says once what it is: its operands, results and regions by its signature, its properties (`FIELDS`), and how
its types are written (`TYPES`). From that follow the pretty form,

    name OPERANDS, keyword = value, ... {other properties} : TYPES

the checks of the generic form, and the way to a node and back: operations are read as xDSL's, and written from
nodes (`write`). A form that is written otherwise overrides `read_head` and `head`; what means something else than a node of its name has an importer of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self

from xdsl.ir import Operation
from xdsl.irdl import traits_def
from xdsl.parser import UnresolvedOperand
from xdsl.traits import IsTerminator

from meshgen.ir.graph import Graph, Node, Value
from meshgen.mlir.constants import known_array
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, ImportOp, WriteNode
from meshgen.mlir.literals import dictionary, function_type
from meshgen.mlir.parser import TextParser
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.stablehlo.types import FUNCTION, OPERANDS, TypesForm
from meshgen.mlir.text_operation import Properties, TextOperation, Values, define, values_of


class HloOperation(TextOperation):
    """An operation with the common pretty form."""

    TYPES: ClassVar[TypesForm] = FUNCTION

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        """Parse the operands, and the properties after keywords."""
        operands = parser.parse_values() if parser.at_value() else []
        fields = [field for field in cls.FIELDS if field.keyword]
        properties: Properties = {}
        for field in fields:
            if (operands or properties) and parser.parse_optional_punctuation(",") is None:
                break
            name = parser.parse_identifier()
            found = next((each for each in fields if each.keyword == name and each.prop not in properties), None)
            if found is None:
                parser.fail(f"'{field.keyword} =' expected")
            parser.parse_punctuation("=")
            properties[found.prop] = found.read(parser)
        return operands, properties

    @classmethod
    def head(cls, operands: Sequence[str], attrs: Values) -> str:
        """The inverse of `read_head`."""
        clauses = [f"{each.keyword} = {text}" for each in cls.FIELDS if each.keyword and (text := each.text(attrs))]
        return f" {', '.join([*operands, *clauses])}" if operands or clauses else ""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        before = parser.parse_optional_attr_dict()  # where some operations print it
        operands, properties = cls.read_head(parser)
        attributes = before | parser.parse_optional_attr_dict()
        values, results = cls.TYPES.read(parser, operands)
        return cls.of(values, results, attributes, properties)

    @classmethod
    def write(cls, printer: TextPrinter, node: Node) -> str:
        """The text of a node that is this operation."""
        results, head = printer.results(node), cls.head(printer.names(node.operands), node.attrs)
        types = cls.TYPES.write(printer.types(node.operands), printer.types(node.results))
        return f"{results}{cls.name}{head}{printer.attributes(node, entries_of(cls, node))}{types}"


class GenericOperation(TextOperation):
    """An operation that has the generic form only."""

    @classmethod
    def write(cls, printer: TextPrinter, node: Node) -> str:
        """The text of a node that is this operation."""
        return generic_text(printer, node, cls.name, entries_of(cls, node))


def entries_of(operation: type[TextOperation], node: Node) -> dict[str, str]:
    """The properties of a node's operation that are in braces."""
    fields = [field for field in operation.FIELDS if not field.keyword or not issubclass(operation, HloOperation)]
    return {field.prop: text for field in fields if (text := field.entry(node.attrs))}


def as_nodes(*operations: type[TextOperation], importers: Mapping[str, ImportOp] | None = None) -> Dialect:
    """Operations that are one node each, whose `op` is the mnemonic; `importers` has those that are read otherwise."""
    others = importers or {}
    return Dialect(
        operations=operations,
        importers={**{each.name: _import_as_node for each in operations if each.name not in others}, **others},
        self_contained=tuple(each.name for each in operations if each.name not in others),
        writers=writers_of(operations),
    )


def writers_of(operations: Sequence[type[TextOperation]]) -> dict[str, WriteNode]:
    """How nodes are written that are one of these operations, by their mnemonics."""
    forms = [each for each in operations if issubclass(each, HloOperation | GenericOperation)]
    return {each.name.partition(".")[2]: each.write for each in forms}


def _import_as_node(importer: Importer, operation: Operation) -> None:
    mnemonic = operation.name.partition(".")[2]
    importer.convert(operation, mnemonic, values_of(operation), regions=closed_regions(importer, operation))


def generic_text(printer: TextPrinter, node: Node, name: str, properties: Mapping[str, str], *, operands: Sequence[Value] | None = None,
                 region: Callable[[Graph], str] | None = None) -> str:  # fmt: skip
    """`%r = "name"(%a) <{property = 1}> ({...}) {attribute = 2} : (type) -> type`; `region` writes those of the node."""
    values = node.operands if operands is None else operands
    head = f'{printer.results(node)}"{name}"({", ".join(printer.names(values))})'
    inside = f" <{dictionary(properties)}>" if properties else ""
    regions = f" ({', '.join(map(region or printer.region, node.regions))})" if node.regions else ""
    types = function_type(printer.types(values), printer.types(node.results))
    return f"{head}{inside}{regions}{printer.attributes(node)} : {types}"


def closed_regions(importer: Importer, operation: Operation) -> tuple[Graph, ...]:
    """The graphs of regions that use nothing from outside but constants, which are put inside."""
    found: list[Graph] = []
    for region in operation.regions:
        graph, captures = importer.region(region)
        values = [known_array(importer, ssa) for ssa in captures]
        if any(value is None for value in values):
            importer.fault("MG0103", f"the region of {operation.name} captures values from outside", operation)
        first = len(graph.inputs) - len(captures)
        graph.nodes[:0] = [
            Node("constant", [], [inner], {"value": value}, inner.loc)
            for inner, value in zip(graph.inputs[first:], values, strict=True)
        ]
        del graph.inputs[first:]
        found.append(graph)
    return tuple(found)


class Return(HloOperation):
    """`stablehlo.return %a, %b : tensor<f32>, tensor<i32>`"""

    traits = traits_def(IsTerminator())
    TYPES: ClassVar[TypesForm] = OPERANDS


(RETURN,) = define(Return, "stablehlo", {"_ -> 0": "return"})
PART = Dialect(operations=(RETURN,))
