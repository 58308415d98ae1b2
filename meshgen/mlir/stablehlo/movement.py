"""Operations of StableHLO for constants and data movement, such as broadcasts, slices and pads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.ir import Operation
from xdsl.parser import UnresolvedOperand

from meshgen.ir.graph import Node
from meshgen.mlir import literals
from meshgen.mlir.attributes import array
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dense import DenseElements, dense_text
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.fields import listed, number
from meshgen.mlir.parser import TextParser
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.stablehlo.base import GenericOperation, HloOperation, as_nodes, writers_of
from meshgen.mlir.stablehlo.types import FUNCTION, ONE, TypesForm
from meshgen.mlir.text_operation import Field, Properties, TextOperation, Values, define

_RANGES = re.compile(r"\[([-\d,:\s]*)\]")


class Constant(GenericOperation):
    """A constant: `stablehlo.constant dense<1.0> : tensor<4xf32>`."""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        value = parser.parse_attribute()
        if not isinstance(value, DenseElements):
            parser.raise_error("write a constant as dense<...> : tensor<...>; its data must be in this text")
        return cls.of([], [value.data.type], attributes, {"value": value})

    @classmethod
    def write(cls, printer: TextPrinter, node: Node) -> str:
        """Return the text of a `constant` node."""
        content = dense_text(node.attrs.value, node.result.type, printer.resources)
        return f"{printer.results(node)}{cls.name}{printer.attributes(node)} {content} : {printer.type(node.result)}"


class Slice(HloOperation):
    """A strided slice: `stablehlo.slice %x [0:4, 1:8:2] : (...) -> ...`."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        listed("start_indices", "start", ":"), listed("limit_indices", "limit", ":"), listed("strides", "stride", ":"),
    )  # fmt: skip

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operand = parser.parse_unresolved_operand()
        body = parser.scan(_RANGES, "ranges [start:limit:stride] expected")[1]
        ranges = [[int(word) for word in part.split(":")] for part in body.split(",") if part.strip()]
        if any(len(bounds) not in (2, 3) for bounds in ranges):
            parser.fail("expected a range start:limit or start:limit:stride")
        return [operand], {
            field.prop: array([(*bounds, 1)[i] for bounds in ranges]) for i, field in enumerate(cls.FIELDS)
        }

    @classmethod
    def head(cls, operands: Sequence[str], attrs: Values) -> str:
        bounds = zip(attrs["start"], attrs["limit"], attrs["stride"], strict=True)
        parts = (f"{start}:{limit}" + (f":{stride}" if stride != 1 else "") for start, limit, stride in bounds)
        return f" {operands[0]} {literals.listed(parts)}"


def _movement(
    row: str, *fields: Field, types: TypesForm = FUNCTION, signature: str = "1 -> 1"
) -> Sequence[type[TextOperation]]:
    """Define an operation whose properties are integers or lists after keywords.

    stablehlo.transpose %x, dims = [1, 0] : (...) -> ...
    """
    return define(HloOperation, "stablehlo", {signature: row}, FIELDS=fields, TYPES=types)


(_CONSTANT,) = define(Constant, "stablehlo", {"0 -> 1 <value: any>": "constant"})
_OPERATIONS = (
    *_movement("reshape"),
    *_movement("transpose", listed("permutation", "perm", "dims")),
    *_movement("broadcast_in_dim", listed("broadcast_dimensions", "dims", "dims")),
    *_movement("reverse", listed("dimensions", "dims", "dims"), types=ONE),
    *_movement("iota", number("iota_dimension", "dim", "dim"), types=ONE, signature="0 -> 1"),
    *_movement("concatenate", number("dimension", "dim", "dim"), signature="1.. -> 1"),
    *_movement("dynamic_slice", listed("slice_sizes", "slice_sizes", "sizes"), signature="1.. -> 1"),
    *_movement("dynamic_update_slice", signature="2.. -> 1"),
    *_movement(
        "pad",
        listed("edge_padding_low", "low", "low"),
        listed("edge_padding_high", "high", "high"),
        listed("interior_padding", "interior", "interior"),
        signature="2 -> 1",
    ),
    *define(Slice, "stablehlo", {"1 -> 1": "slice"}),
)


def _import_constant(importer: Importer, operation: Operation) -> None:
    value = operation.properties["value"]
    if not isinstance(value, DenseElements):
        importer.fault("MG0103", "only dense constants are supported", operation, "write the data into the text")
        return
    importer.convert(operation, "constant", {"value": value.data.array})


PART = merged(
    as_nodes(*_OPERATIONS),
    Dialect(
        operations=(_CONSTANT, *define(Constant, "chlo", {"0 -> 1 <value: any>": "constant"})),
        importers={"stablehlo.constant": _import_constant, "chlo.constant": _import_constant},
        self_contained=("stablehlo.constant", "chlo.constant"),
        writers=writers_of([_CONSTANT]),
    ),
)
