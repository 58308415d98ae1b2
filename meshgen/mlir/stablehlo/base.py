"""Shared base of the operations of StableHLO and CHLO: text, properties, and nodes.

A class says once what an operation is: its operands, results and regions, its properties (`FIELDS`), and how
its types are written (`TYPES`). From that follow the pretty form,

    name OPERANDS, keyword = value, ... {other properties} : TYPES

the checks of the generic form, and the way to a node and back: operations are read as xDSL's, and written from
nodes (`write`). What stands otherwise in the text overrides `read_head` and `head`; what means something else than a node of its name has an importer of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, ClassVar, Self

from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, traits_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.traits import IsTerminator

from meshgen.ir.graph import Graph, Node, Value
from meshgen.mlir.constants import known_array
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, ImportOp
from meshgen.mlir.late import LateOperation
from meshgen.mlir.literals import dictionary, function_type
from meshgen.mlir.parser import TextParser
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.stablehlo.fields import Field, Values
from meshgen.mlir.stablehlo.types import FUNCTION, OPERANDS, TypesForm

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

    @classmethod
    def head(cls, operands: Sequence[str], attrs: Values) -> str:
        """The inverse of `read_head`."""
        clauses = [f"{each.keyword} = {text}" for each in cls.FIELDS if each.keyword and (text := each.text(attrs))]
        return f" {', '.join([*operands, *clauses])}" if operands or clauses else ""

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

    @classmethod
    def write(cls, printer: TextPrinter, node: Node, name: str) -> str:
        """The text of a node that is the operation `name`."""
        results, head = printer.results(node), cls.head(printer.names(node.operands), node.attrs)
        types = cls.TYPES.write(printer.types(node.operands), printer.types(node.results))
        return f"{results}{name}{head}{printer.attributes(node, entries_of(cls, node))}{types}"


class GenericOperation(IRDLOperation):
    """An operation that has the generic form only."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()

    @classmethod
    def write(cls, printer: TextPrinter, node: Node, name: str) -> str:
        """The text of a node that is the operation `name`."""
        return generic_text(printer, node, name, entries_of(cls, node))


def entries_of(operation: type[HloOperation | GenericOperation], node: Node) -> dict[str, str]:
    """The properties of a node's operation that are in braces."""
    fields = [field for field in operation.FIELDS if not field.keyword or not issubclass(operation, HloOperation)]
    return {field.prop: text for field in fields if (text := field.entry(node.attrs))}


def define(base: type[IRDLOperation], name: str) -> LateOperation:
    """The operation `name` ("dialect.mnemonic") with the syntax and checks of `base`."""
    return LateOperation(name, base, partial(_defined, base, name))


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
        writers={each.name.partition(".")[2]: partial(each.base.write, name=each.name) for each in operations},
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

    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    TYPES: ClassVar[TypesForm] = OPERANDS


RETURN = define(Return, "stablehlo.return")
PART = Dialect(operations=(RETURN,))
