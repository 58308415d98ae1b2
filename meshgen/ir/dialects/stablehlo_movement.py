"""Constants and operations of StableHLO that move data: broadcasts, slices, pads, ..."""

from __future__ import annotations

import re
from typing import ClassVar

from xdsl.dialects.builtin import TensorType as IrTensorType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from meshgen.ir.bridge import Exporter, Importer, exports, imports
from meshgen.ir.dense import DenseElements
from meshgen.ir.dialects.stablehlo_attributes import array, integer, integer_of, integers
from meshgen.ir.dialects.stablehlo_base import HloOperation, Properties, define
from meshgen.ir.graph import Node
from meshgen.ir.parser import TextParser

_RANGES = re.compile(r"\[([-\d,:\s]*)\]")


class Constant(IRDLOperation):
    """`stablehlo.constant dense<1.0> : tensor<4xf32>`"""

    value = prop_def()
    output = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> IRDLOperation:
        attributes = parser.parse_optional_attr_dict()
        value = parser.parse_attribute()
        if not isinstance(value, DenseElements):
            parser.raise_error("a constant is written dense<...> : tensor<...>; its data must be in this text")
        type = value.data.type
        return cls.create(result_types=[type], properties={"value": value}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_attribute(self.value)


class Iota(HloOperation):
    """`stablehlo.iota dim = 0 : tensor<4xi32>`"""

    iota_dimension = prop_def()
    output = result_def()
    ONE_TYPE: ClassVar[bool] = True

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        parser.parse_keyword("dim")
        parser.parse_punctuation("=")
        return [], {"iota_dimension": integer(parser.parse_integer())}

    def head(self, printer: Printer) -> None:
        printer.print_string(f" dim = {integer_of(self.iota_dimension)}")


class Listed(HloOperation):
    """Operands and one list: `stablehlo.transpose %x, dims = [1, 0] : (...) -> ...`"""

    arguments = var_operand_def()
    result = result_def()
    KEYWORD: ClassVar[str] = "dims"
    LIST_PROPERTY: ClassVar[str] = "permutation"

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operands = parser.parse_values()
        parser.parse_clause(cls.KEYWORD)
        return operands, {cls.LIST_PROPERTY: array(parser.parse_integers())}

    def head(self, printer: Printer) -> None:
        super().head(printer)
        printer.print_string(f", {self.KEYWORD} = {list(integers(self.properties[self.LIST_PROPERTY]))}")


class Transpose(Listed):
    permutation = prop_def()


class BroadcastInDim(Listed):
    broadcast_dimensions = prop_def()
    LIST_PROPERTY: ClassVar[str] = "broadcast_dimensions"


class Reverse(Listed):
    dimensions = prop_def()
    LIST_PROPERTY: ClassVar[str] = "dimensions"
    ONE_TYPE: ClassVar[bool] = True


class DynamicSlice(Listed):
    slice_sizes = prop_def()
    KEYWORD: ClassVar[str] = "sizes"
    LIST_PROPERTY: ClassVar[str] = "slice_sizes"


class Plain(HloOperation):
    arguments = var_operand_def()
    result = result_def()


class Slice(HloOperation):
    """`stablehlo.slice %x [0:4, 1:8:2] : (...) -> ...`"""

    operand = operand_def()
    start_indices = prop_def()
    limit_indices = prop_def()
    strides = prop_def()
    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operand = parser.parse_unresolved_operand()
        body = parser.scan(_RANGES, "ranges [start:limit:stride] expected")[1]
        ranges = [[int(word) for word in part.split(":")] for part in body.split(",") if part.strip()]
        if any(len(each) not in (2, 3) for each in ranges):
            parser.fail("a range is start:limit or start:limit:stride")
        start, limit, stride = ([(*each, 1)[i] for each in ranges] for i in range(3))
        properties = {"start_indices": array(start), "limit_indices": array(limit), "strides": array(stride)}
        return [operand], properties

    def head(self, printer: Printer) -> None:
        super().head(printer)
        bounds = zip(integers(self.start_indices), integers(self.limit_indices), integers(self.strides), strict=True)
        parts = (f"{start}:{limit}" + (f":{stride}" if stride != 1 else "") for start, limit, stride in bounds)
        printer.print_string(f" [{', '.join(parts)}]")


class Concatenate(HloOperation):
    """`stablehlo.concatenate %a, %b, dim = 0 : (...) -> ...`"""

    arguments = var_operand_def()
    dimension = prop_def()
    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operands = parser.parse_values()
        parser.parse_clause("dim")
        return operands, {"dimension": integer(parser.parse_integer())}

    def head(self, printer: Printer) -> None:
        super().head(printer)
        printer.print_string(f", dim = {integer_of(self.dimension)}")


class Pad(HloOperation):
    """`stablehlo.pad %x, %v, low = [0], high = [1], interior = [0] : (...) -> ...`"""

    operand = operand_def()
    padding_value = operand_def()
    edge_padding_low = prop_def()
    edge_padding_high = prop_def()
    interior_padding = prop_def()
    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operands = parser.parse_values()
        properties: Properties = {}
        for keyword, name in _PADDING.items():
            parser.parse_clause(keyword)
            properties[name] = array(parser.parse_integers())
        return operands, properties

    def head(self, printer: Printer) -> None:
        super().head(printer)
        parts = (f", {keyword} = {list(integers(self.properties[name]))}" for keyword, name in _PADDING.items())
        printer.print_string("".join(parts))


_PADDING = {"low": "edge_padding_low", "high": "edge_padding_high", "interior": "interior_padding"}
_SLICE = {"start": "start_indices", "limit": "limit_indices", "stride": "strides"}
CONSTANT = define(Constant, "stablehlo.constant")
# By mnemonic: the class, and the properties that hold lists by the name of the node's attribute.
LISTS: dict[str, tuple[type[IRDLOperation], dict[str, str]]] = {
    "broadcast_in_dim": (define(BroadcastInDim, "stablehlo.broadcast_in_dim"), {"dims": "broadcast_dimensions"}),
    "transpose": (define(Transpose, "stablehlo.transpose"), {"perm": "permutation"}),
    "reverse": (define(Reverse, "stablehlo.reverse"), {"dims": "dimensions"}),
    "slice": (define(Slice, "stablehlo.slice"), _SLICE),
    "pad": (define(Pad, "stablehlo.pad"), _PADDING),
    "dynamic_slice": (define(DynamicSlice, "stablehlo.dynamic_slice"), {"slice_sizes": "slice_sizes"}),
    "reshape": (define(Plain, "stablehlo.reshape"), {}),
    "dynamic_update_slice": (define(Plain, "stablehlo.dynamic_update_slice"), {}),
}
# By mnemonic: the class, and the property that holds a dim.
DIMS: dict[str, tuple[type[IRDLOperation], str]] = {
    "iota": (define(Iota, "stablehlo.iota"), "iota_dimension"),
    "concatenate": (define(Concatenate, "stablehlo.concatenate"), "dimension"),
}


@imports("stablehlo.constant")
def _import_constant(importer: Importer, operation: Operation) -> None:
    value = operation.properties["value"]
    if not isinstance(value, DenseElements):
        importer.fault("MG0103", "only dense constants are supported", operation, "write the data into the text")
        return
    importer.convert(operation, "constant", {"value": value.data.array})


@imports(*(f"stablehlo.{name}" for name in LISTS))
def _import_lists(importer: Importer, operation: Operation) -> None:
    name = operation.name.partition(".")[2]
    attrs = {attr: integers(operation.properties[prop]) for attr, prop in LISTS[name][1].items()}
    importer.convert(operation, name, attrs)


@imports(*(f"stablehlo.{name}" for name in DIMS))
def _import_dims(importer: Importer, operation: Operation) -> None:
    name = operation.name.partition(".")[2]
    importer.convert(operation, name, {"dim": integer_of(operation.properties[DIMS[name][1]])})


@exports("constant")
def _export_constant(exporter: Exporter, node: Node) -> Operation:
    type: IrTensorType[Attribute] = exporter.type(node.result)
    value = DenseElements.of(node.attrs["value"], node.result.type, type)
    return CONSTANT.create(result_types=exporter.types(node.results), properties={"value": value})


@exports(*LISTS)
def _export_lists(exporter: Exporter, node: Node) -> Operation:
    operation, names = LISTS[node.op]
    properties = {prop: array(node.attrs[attr]) for attr, prop in names.items()}
    types = exporter.types(node.results)
    return operation.create(operands=exporter.operands(node), result_types=types, properties=properties)


@exports(*DIMS)
def _export_dims(exporter: Exporter, node: Node) -> Operation:
    operation, name = DIMS[node.op]
    properties = {name: integer(node.attrs["dim"])}
    types = exporter.types(node.results)
    return operation.create(operands=exporter.operands(node), result_types=types, properties=properties)
