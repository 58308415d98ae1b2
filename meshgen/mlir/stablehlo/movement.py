"""Constants and operations of StableHLO that move data: broadcasts, slices, pads, ..."""

from __future__ import annotations

import re
from typing import ClassVar

from xdsl.dialects.builtin import TensorType as IrTensorType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from meshgen.ir.graph import Node
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.exporter import Exporter
from meshgen.mlir.parser import TextParser
from meshgen.mlir.stablehlo.attributes import array, integers
from meshgen.mlir.stablehlo.base import HloOperation, Properties, as_nodes, define, print_values
from meshgen.mlir.stablehlo.fields import Field, listed, number
from meshgen.mlir.stablehlo.types import ONE, TypesForm

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
            parser.raise_error("write a constant as dense<...> : tensor<...>; its data must be in this text")
        type = value.data.type
        return cls.create(result_types=[type], properties={"value": value}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_attribute(self.value)


class Movement(HloOperation):
    """Operands, and lists or numbers after keywords: `stablehlo.transpose %x, dims = [1, 0] : (...) -> ...`"""

    arguments = var_operand_def()
    result = result_def()


class Iota(Movement):
    """`stablehlo.iota dim = 0 : tensor<4xi32>`"""

    FIELDS: ClassVar[tuple[Field, ...]] = (number("iota_dimension", "dim", "dim"),)
    TYPES: ClassVar[TypesForm] = ONE


class Transpose(Movement):
    FIELDS: ClassVar[tuple[Field, ...]] = (listed("permutation", "perm", "dims"),)


class BroadcastInDim(Movement):
    FIELDS: ClassVar[tuple[Field, ...]] = (listed("broadcast_dimensions", "dims", "dims"),)


class Reverse(Movement):
    FIELDS: ClassVar[tuple[Field, ...]] = (listed("dimensions", "dims", "dims"),)
    TYPES: ClassVar[TypesForm] = ONE


class DynamicSlice(Movement):
    FIELDS: ClassVar[tuple[Field, ...]] = (listed("slice_sizes", "slice_sizes", "sizes"),)


class Concatenate(Movement):
    FIELDS: ClassVar[tuple[Field, ...]] = (number("dimension", "dim", "dim"),)


class Pad(Movement):
    """`stablehlo.pad %x, %v, low = [0], high = [1], interior = [0] : (...) -> ...`"""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        listed("edge_padding_low", "low", "low"),
        listed("edge_padding_high", "high", "high"),
        listed("interior_padding", "interior", "interior"),
    )


class Slice(HloOperation):
    """`stablehlo.slice %x [0:4, 1:8:2] : (...) -> ...`"""

    operand = operand_def()
    result = result_def()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        listed("start_indices", "start", ":"), listed("limit_indices", "limit", ":"), listed("strides", "stride", ":"),
    )  # fmt: skip

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operand = parser.parse_unresolved_operand()
        body = parser.scan(_RANGES, "ranges [start:limit:stride] expected")[1]
        ranges = [[int(word) for word in part.split(":")] for part in body.split(",") if part.strip()]
        if any(len(each) not in (2, 3) for each in ranges):
            parser.fail("expected a range start:limit or start:limit:stride")
        return [operand], {field.prop: array([(*each, 1)[i] for each in ranges]) for i, field in enumerate(cls.FIELDS)}

    def head(self, printer: Printer) -> None:
        print_values(printer, self.operands)
        bounds = zip(*(integers(self.properties[field.prop]) for field in self.FIELDS), strict=True)
        parts = (f"{start}:{limit}" + (f":{stride}" if stride != 1 else "") for start, limit, stride in bounds)
        printer.print_string(f" [{', '.join(parts)}]")


CONSTANT = define(Constant, "stablehlo.constant")
CHLO_CONSTANT = define(Constant, "chlo.constant")
_KINDS = {
    "broadcast_in_dim": BroadcastInDim, "transpose": Transpose, "reverse": Reverse, "slice": Slice, "pad": Pad,
    "dynamic_slice": DynamicSlice, "iota": Iota, "concatenate": Concatenate, "reshape": Movement,
    "dynamic_update_slice": Movement,
}  # fmt: skip


def _import_constant(importer: Importer, operation: Operation) -> None:
    value = operation.properties["value"]
    if not isinstance(value, DenseElements):
        importer.fault("MG0103", "only dense constants are supported", operation, "write the data into the text")
        return
    importer.convert(operation, "constant", {"value": value.data.array})


def _export_constant(exporter: Exporter, node: Node) -> Operation:
    type: IrTensorType[Attribute] = exporter.type(node.result)
    value = DenseElements.of(node.attrs.value, node.result.type, type)
    return CONSTANT.create(result_types=exporter.types(node.results), properties={"value": value})


PART = merged(
    as_nodes(*(define(kind, f"stablehlo.{name}") for name, kind in _KINDS.items())),
    Dialect(
        operations=(CONSTANT, CHLO_CONSTANT),
        importers={"stablehlo.constant": _import_constant, "chlo.constant": _import_constant},
        self_contained=("stablehlo.constant", "chlo.constant"),
        exporters={"constant": _export_constant},
    ),
)
