"""Constants and operations of StableHLO that move data: broadcasts, slices, pads, ..."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand

from meshgen.ir.graph import Node
from meshgen.mlir import literals
from meshgen.mlir.attributes import array
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dense import DenseElements, dense_text
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.parser import TextParser
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.stablehlo.base import HloOperation, Properties, as_nodes, define
from meshgen.mlir.stablehlo.fields import Field, Values, listed, number
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

    @classmethod
    def write(cls, printer: TextPrinter, node: Node, name: str) -> str:
        """The text of a node that is the operation `name`."""
        content = dense_text(node.attrs.value, node.result.type, printer.resources)
        return f"{printer.results(node)}{name}{printer.attributes(node)} {content} : {printer.type(node.result)}"


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

    @classmethod
    def head(cls, operands: Sequence[str], attrs: Values) -> str:
        bounds = zip(attrs["start"], attrs["limit"], attrs["stride"], strict=True)
        parts = (f"{start}:{limit}" + (f":{stride}" if stride != 1 else "") for start, limit, stride in bounds)
        return f" {operands[0]} {literals.listed(parts)}"


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


PART = merged(
    as_nodes(*(define(kind, f"stablehlo.{name}") for name, kind in _KINDS.items())),
    Dialect(
        operations=(define(Constant, "stablehlo.constant"), define(Constant, "chlo.constant")),
        importers={"stablehlo.constant": _import_constant, "chlo.constant": _import_constant},
        self_contained=("stablehlo.constant", "chlo.constant"),
        writers={"constant": partial(Constant.write, name="stablehlo.constant")},
    ),
)
