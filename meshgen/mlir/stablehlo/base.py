"""Shared base of the operations of StableHLO and CHLO: text, properties, and nodes.

A class says once what an operation is: its operands, results and regions, its properties (`FIELDS`), and how
its types are written (`TYPES`). From that follow the pretty form,

    name OPERANDS, keyword = value, ... {other properties} : TYPES

the checks of the generic form, and the way to a node and back. What stands otherwise in the text overrides
`read_head` and `head`; what means something else than a node of its name has an importer of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Self

from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, traits_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

from meshgen.ir.graph import Graph, Node
from meshgen.mlir.constants import known_array
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, ImportOp
from meshgen.mlir.exporter import Exporter
from meshgen.mlir.late import LateOperation
from meshgen.mlir.parser import TextParser
from meshgen.mlir.stablehlo.fields import Field
from meshgen.mlir.stablehlo.types import FUNCTION, OPERANDS, TypesForm
from meshgen.records import replace

Properties = dict[str, Attribute]


class HloOperation(IRDLOperation):
    """An operation with the common pretty form."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()
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

    def head(self, printer: Printer) -> None:
        """Print the operands and the properties after keywords."""
        print_values(printer, self.operands)
        separator = ", " if self.operands else " "
        for field in self.FIELDS:
            if field.keyword and (attribute := self.properties.get(field.prop)) is not None:
                printer.print_string(f"{separator}{field.keyword} = {field.text(attribute)}")
                separator = ", "

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        before = parser.parse_optional_attr_dict()  # where some operations print it
        operands, properties = cls.read_head(parser)
        attributes = before | parser.parse_optional_attr_dict()
        names = cls.get_irdl_definition().properties
        properties |= {name: attributes.pop(name) for name in names if name in attributes}
        values, results = cls.TYPES.read(parser, operands)
        return cls.create(operands=values, result_types=results, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        self.head(printer)
        clauses = {field.prop for field in self.FIELDS if field.keyword}
        others = {name: value for name, value in self.properties.items() if name not in clauses}
        printer.print_op_attributes({**others, **self.attributes})
        self.TYPES.write(printer, self.operand_types, self.result_types)


class GenericOperation(IRDLOperation):
    """An operation that has the generic form only."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()


def print_values(printer: Printer, values: Sequence[SSAValue]) -> None:
    """` %a, %b`"""
    printer.print_string(" " if values else "")
    printer.print_list(values, printer.print_operand)


def define(base: type[IRDLOperation], name: str) -> LateOperation:
    """The operation `name` ("dialect.mnemonic") with the syntax and checks of `base`."""
    return LateOperation(name, partial(_defined, base, name))


def _defined(base: type[IRDLOperation], name: str) -> type[IRDLOperation]:
    title = "".join(part.capitalize() for part in name.partition(".")[2].split("_")) + "Op"
    shared = _with_properties(base)
    definition = replace(shared.get_irdl_definition(), name=name)
    members = {"name": name, "__module__": base.__module__, "get_irdl_definition": staticmethod(lambda: definition)}
    return type(title, (shared,), members)


@cache
def _with_properties(base: type[IRDLOperation]) -> type[IRDLOperation]:
    """What all operations of this base are, but for their names."""
    members: dict[str, Any] = {"name": base.__name__, "__module__": base.__module__}
    for field in fields_of(base):
        members[field.prop] = prop_def(field.kind) if field.is_required else opt_prop_def(field.kind)
    return irdl_op_definition(type(base.__name__, (base,), members))


def as_nodes(*operations: LateOperation, importers: Mapping[str, ImportOp] | None = None) -> Dialect:
    """Operations that are one node each, whose `op` is the mnemonic; `importers` has those that are read otherwise."""
    others = importers or {}
    return Dialect(
        operations=operations,
        importers={**{each.name: _import_as_node for each in operations if each.name not in others}, **others},
        self_contained=tuple(each.name for each in operations if each.name not in others),
        exporters={each.name.partition(".")[2]: partial(build, late=each) for each in operations},
    )


def _import_as_node(importer: Importer, operation: Operation) -> None:
    mnemonic = operation.name.partition(".")[2]
    importer.convert(operation, mnemonic, values_of(operation), regions=closed_regions(importer, operation))


def fields_of(operation: type[Operation]) -> tuple[Field, ...]:
    return getattr(operation, "FIELDS", ())


def values_of(operation: Operation) -> dict[str, Any]:
    """The attributes of a node that the properties of an operation say."""
    found: dict[str, Any] = {}
    for field in fields_of(type(operation)):
        found |= field.values(operation.properties.get(field.prop))
    return found


def build(exporter: Exporter, node: Node, late: LateOperation, **properties: Attribute) -> Operation:
    """The operation of a node: its properties say the node's attributes, and its regions are the node's."""
    kind = late.kind
    found = {field.prop: field.attribute(node.attrs) for field in fields_of(kind)}
    given: Properties = {name: value for name, value in found.items() if value is not None} | properties
    regions = [Region(exporter.block(region, RETURN)) for region in node.regions]
    types = exporter.types(node.results)
    return kind.create(operands=exporter.operands(node), result_types=types, properties=given, regions=regions)


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

    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    TYPES: ClassVar[TypesForm] = OPERANDS


RETURN = define(Return, "stablehlo.return")
PART = Dialect(operations=(RETURN,))
