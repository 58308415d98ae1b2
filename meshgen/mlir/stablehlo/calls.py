"""Operations of StableHLO for custom calls, composites, tuples and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, Region, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import UnresolvedOperand

from meshgen.ir.graph import TOKEN, Node, TensorType, Value
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.attributes import integer, integer_of, string_of
from meshgen.mlir.conversion import Importer, Refused, import_nothing
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.fields import number
from meshgen.mlir.literals import function_type
from meshgen.mlir.parser import TextParser
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.stablehlo.attributes import struct
from meshgen.mlir.stablehlo.base import HloOperation
from meshgen.mlir.stablehlo.ragged_dot import import_composite_ragged_dot
from meshgen.mlir.stablehlo.types import TUPLE
from meshgen.mlir.text_operation import Field, Properties, define

Alias = struct("stablehlo.output_operand_alias", "output_tuple_indices operand_index operand_tuple_indices")


@irdl_attr_definition
class Token(ParametrizedAttribute, TypeAttribute):
    """The type of a token, which orders side effects. Meshgen supports no side effects, so tokens have no content."""

    name = "stablehlo.token"


class CustomCall(HloOperation):
    """A custom call: `%0 = stablehlo.custom_call @target(%a, %b) {backend_config = ""} : (...) -> ...`."""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("call_target_name", keyword="@", kind="string"),)

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        target = parser.parse_symbol_name()
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        return operands, {"call_target_name": target}


def call_text(printer: TextPrinter, node: Node, target: str, attributes: Mapping[str, str]) -> str:
    """Return the text of a node as a custom call: `%0 = stablehlo.custom_call @target(%a, %b) {...} : (...) -> ...`."""
    head = f"{printer.results(node)}stablehlo.custom_call @{target}({', '.join(printer.names(node.operands))})"
    types = function_type(printer.types(node.operands), printer.types(node.results))
    return f"{head}{printer.attributes(node, attributes)} : {types}"


def target_of(operation: Operation) -> str:
    """Return the target of a custom call."""
    return string_of(operation.properties["call_target_name"])


def called_region(operation: Operation) -> Region | None:
    """Return the body of the function that a custom call names.

    Returns None if the module has no such function, or if the function has several blocks.
    """
    called = operation.properties.get("called_computations")
    name = called.data[0] if isinstance(called, builtin.ArrayAttr) and called.data else None
    top: Operation | None = operation
    while top is not None and top.name != "builtin.module":
        top = top.parent_op()
    if top is None or not isinstance(name, builtin.SymbolRefAttr):
        return None
    for function in top.regions[0].ops:
        symbol = function.properties.get("sym_name")
        if isinstance(symbol, builtin.StringAttr) and symbol.data == name.string_value():
            return function.regions[0] if len(function.regions[0].blocks) == 1 else None
    return None


def options_of(operation: Operation, name: str) -> dict[str, Attribute]:
    """Return the entries of the dictionary in the attribute or property `name` of a custom call, or {} if it is
    missing.
    """
    dictionary = operation.attributes.get(name) or operation.properties.get(name)
    return dict(dictionary.data) if isinstance(dictionary, builtin.DictionaryAttr) else {}


class Composite(HloOperation):
    """A composite operation, which does what the function `decomposition` does.

    stablehlo.composite "my.op" %a {decomposition = @f} : (...) -> ...
    """

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        name = parser.parse_str_literal()
        operands, _ = super().read_head(parser)
        return operands, {"composite_name": builtin.StringAttr(name)}


class GetTupleElement(HloOperation):
    """An element of a tuple: `stablehlo.get_tuple_element %t[1] : (tuple<...>) -> tensor<...>`."""

    FIELDS: ClassVar[tuple[Field, ...]] = (number("index", "index", "[", width=32),)

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operand = parser.parse_unresolved_operand()
        numbers = parser.parse_integers()
        if len(numbers) != 1:
            parser.fail("expected the number of one element")
        return [operand], {"index": integer(numbers[0], 32)}


def _import_token(importer: Importer, operation: Operation) -> None:
    """Import an operation that returns a token. The token becomes a tensor without elements, since programs have no
    side effects to order.
    """
    importer.bind(operation.results[0], Builder(importer, operation).constant(0, TensorType(*TOKEN)))


def _import_element(importer: Importer, operation: Operation) -> None:
    (operand,) = operation.operands
    (result,) = operation.results
    producer, index = operand.owner, integer_of(operation.properties["index"])
    elements = producer.operands if isinstance(producer, Operation) and producer.name == "stablehlo.tuple" else ()
    if 0 <= index < len(elements):
        importer.bind(result, importer.value(elements[index]))
    elif elements:
        raise Refused("MG0104", f"element {index} is out of range for a tuple of {len(elements)}")
    else:
        # If the operand is another tuple, for example an argument, its definition causes the fault.
        importer.value(operand)
        if importer.reading.is_readable(operand.type):
            raise Refused("MG0104", f"{operand.type} is not a tuple")
        importer.bind(result, Value(importer.type(result)))


def _import_composite(importer: Importer, operation: Operation) -> None:
    callee = operation.properties["decomposition"]
    if not isinstance(callee, builtin.SymbolRefAttr):
        raise Refused("MG0104", "needs decomposition = @name")
    if not import_composite_ragged_dot(importer, operation):
        importer.convert(operation, "call", {"callee": importer.reading.callee(callee.string_value())})


PART = Dialect(
    operations=(
        *define(CustomCall, "stablehlo", {
            "_ -> _ <has_side_effect?: flag, backend_config?: any, api_version?: integer, called_computations?: any, "
            "operand_layouts?: array, result_layouts?: array, output_operand_aliases?: array>": "custom_call",
        }),
        *define(Composite, "stablehlo", {
            "_ -> _ <decomposition: symbol, composite_name?: any, composite_attributes?: any, version?: any, has_side_effect?: any, "
            "composite_regions?: any>": "composite",
        }),
        *define(GetTupleElement, "stablehlo", {"1 -> 1": "get_tuple_element"}),
        # Example:
        # `stablehlo.tuple %a, %b : tuple<tensor<4xf32>, tensor<i32>>`, `stablehlo.create_token : !stablehlo.token`
        *define(HloOperation, "stablehlo", {"_ -> 1": "tuple after_all", "0 -> 1": "create_token"}, TYPES=TUPLE),
    ),
    attributes=(Alias, Token),
    importers={
        "stablehlo.tuple": import_nothing,
        "stablehlo.after_all": _import_token,
        "stablehlo.create_token": _import_token,
        "stablehlo.get_tuple_element": _import_element,
        "stablehlo.composite": _import_composite,
    },
)  # fmt: skip
