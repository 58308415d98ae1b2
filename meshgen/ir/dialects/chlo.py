"""CHLO: functions that StableHLO lacks, and its element-wise operations with implicit broadcasts.

What is a function of its own becomes a node; the rest is written out in StableHLO's operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Self

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation
from xdsl.irdl import opt_prop_def, prop_def, result_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from meshgen.ir.bridge import Exporter, Importer, exports, imports
from meshgen.ir.bridge_payload import Builder, finish
from meshgen.ir.dense import DenseElements
from meshgen.ir.dialects.stablehlo_attributes import ComparisonDirection, ComparisonType, integers, word_of
from meshgen.ir.dialects.stablehlo_base import HloOperation, define
from meshgen.ir.graph import Node, TensorType, Value, is_complex, is_float, real_dtype
from meshgen.ir.parser import TextParser

FUNCTIONS = (
    "erf", "erf_inv", "erfc", "lgamma", "digamma", "bessel_i1e", "sinh", "cosh", "asin", "acos", "asinh", "acosh",
    "atanh", "polygamma", "zeta", "next_after",
)  # fmt: skip
SAME = {"tan": "tan"}  # a function that StableHLO has too
BROADCASTS = (
    "add", "subtract", "multiply", "divide", "remainder", "power", "maximum", "minimum", "and", "or", "xor",
    "shift_left", "shift_right_logical", "shift_right_arithmetic", "atan2", "polygamma", "zeta", "next_after",
    "complex", "compare", "select",
)  # fmt: skip


class Function(HloOperation):
    """`chlo.erf %x : tensor<4xf32> -> tensor<4xf32>`, `chlo.zeta %x, %q : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>`"""

    arguments = var_operand_def()
    result = result_def()
    PROPERTIES: ClassVar[tuple[str, ...]] = ()  # what may stand in the attributes of the pretty form

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        assert isinstance(parser, TextParser)
        operands = parser.parse_values()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        types: list[Attribute]
        if (function := parser.parse_optional_function_type()) is not None:
            types, results = list(function.inputs.data), list(function.outputs.data)
        else:
            types = list(parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type))
            parser.parse_punctuation("->")
            results = [parser.parse_type()]
        values = parser.resolve_operands(operands, types, start)
        properties = {name: attributes.pop(name) for name in cls.PROPERTIES if name in attributes}
        return cls.create(operands=values, result_types=results, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        self.head(printer)
        printer.print_op_attributes({**self.properties, **self.attributes})
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


class Broadcast(Function):
    """`chlo.broadcast_add %x, %y {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>, tensor<2x4xf32>) -> ...`"""

    broadcast_dimensions = opt_prop_def()
    comparison_direction = opt_prop_def(ComparisonDirection)
    compare_type = opt_prop_def(ComparisonType)
    PROPERTIES: ClassVar[tuple[str, ...]] = ("broadcast_dimensions", "comparison_direction", "compare_type")


class ConstantLike(Function):
    value = prop_def()
    PROPERTIES: ClassVar[tuple[str, ...]] = ("value",)


CLASSES = {name: define(Function, f"chlo.{name}") for name in FUNCTIONS}


@imports(*(f"chlo.{name}" for name in FUNCTIONS))
def _import_function(importer: Importer, operation: Operation) -> None:
    importer.convert(operation, operation.name.partition(".")[2])


@exports(*FUNCTIONS)
def _export_function(exporter: Exporter, node: Node) -> Operation:
    return CLASSES[node.op].create(operands=exporter.operands(node), result_types=exporter.types(node.results))


# What is written out ---------------------------------------------------------------------------------------------

Write = Callable[[Builder, list[Value]], Value]


def _square(builder: Builder, operands: list[Value]) -> Value:
    return builder.apply("multiply", operands[0], operands[0])


def _atan(builder: Builder, operands: list[Value]) -> Value:
    return builder.apply("atan2", operands[0], builder.constant(1, operands[0].type))


def _conj(builder: Builder, operands: list[Value]) -> Value:
    (x,) = operands
    if not is_complex(x.type.dtype):
        return x
    real, imaginary = (builder.apply(part, x, dtype=real_dtype(x.type.dtype)) for part in ("real", "imag"))
    return builder.apply("complex", real, builder.apply("negate", imaginary), dtype=x.type.dtype)


def _is_infinity(sign: int) -> Write:
    """+1 or -1: that infinity; 0: either."""

    def write(builder: Builder, operands: list[Value]) -> Value:
        (x,) = operands
        value = x if sign else builder.apply("abs", x)
        return builder.compare("EQ", value, builder.constant(np.inf if sign >= 0 else -np.inf, x.type))

    return write


def _mulhi(builder: Builder, operands: list[Value]) -> Value:
    """The upper half of a product of integers of at most 32 bits."""
    kind = operands[0].type
    width = 8 * kind.numpy_dtype.itemsize
    if is_float(kind.dtype) or width > 32:
        builder.importer.fault("MG0103", f"chlo.mulhi of {kind} is not supported", builder.source)
        return operands[0]
    wide = "ui64" if kind.dtype.startswith("u") else "i64"
    product = builder.apply("multiply", *(builder.convert(x, wide) for x in operands))
    shift = "shift_right_logical" if wide == "ui64" else "shift_right_arithmetic"
    return builder.convert(builder.apply(shift, product, builder.constant(width, product.type)), kind.dtype)


def _constant_like(builder: Builder, operands: list[Value]) -> Value:
    attribute = builder.source.properties.get("value") or builder.source.attributes.get("value")
    kind = operands[0].type
    if isinstance(attribute, builtin.FloatAttr | builtin.IntegerAttr):
        return builder.constant(attribute.value.data, kind)
    if isinstance(attribute, DenseElements) and attribute.data.array.ndim == 0:
        return builder.constant(attribute.data.array.item(), kind)
    builder.importer.fault("MG0104", f"{builder.source.name}: its value is no number", builder.source)
    return operands[0]


WRITTEN: dict[str, Write] = {
    "square": _square, "atan": _atan, "conj": _conj, "is_inf": _is_infinity(0), "is_pos_inf": _is_infinity(1),
    "is_neg_inf": _is_infinity(-1), "mulhi": _mulhi, "constant_like": _constant_like,
}  # fmt: skip
for _name in (*WRITTEN, *SAME):
    define(ConstantLike if _name == "constant_like" else Function, f"chlo.{_name}")


@imports(*(f"chlo.{name}" for name in WRITTEN))
def _import_written(importer: Importer, operation: Operation) -> None:
    write = WRITTEN[operation.name.partition(".")[2]]
    finish(importer, operation, write(Builder(importer, operation), importer.values(operation.operands)))


@imports(*(f"chlo.{name}" for name in SAME))
def _import_same(importer: Importer, operation: Operation) -> None:
    importer.convert(operation, SAME[operation.name.partition(".")[2]])


# Broadcasts ------------------------------------------------------------------------------------------------------

for _name in BROADCASTS:
    define(Broadcast, f"chlo.broadcast_{_name}")


@imports(*(f"chlo.broadcast_{name}" for name in BROADCASTS))
def _import_broadcast(importer: Importer, operation: Operation) -> None:
    """Operands are broadcast to the result's shape; the smaller one's dims are its last unless they are listed."""
    name, result = operation.name.removeprefix("chlo.broadcast_"), importer.type(operation.results[0])
    builder, values = Builder(importer, operation), importer.values(operation.operands)
    listed = integers(operation.properties.get("broadcast_dimensions"))
    attrs: dict[str, str] = {}
    if name == "compare":
        properties = operation.properties
        attrs = {"direction": word_of(properties.get("comparison_direction")), "compare_type": word_of(properties.get("compare_type"))}  # fmt: skip
    rank = result.rank
    spread: list[Value] = []
    for value in values:
        smaller = value.type.rank < rank
        dims = listed if listed and smaller else tuple(range(rank - value.type.rank, rank))
        fits = len(dims) == value.type.rank and all(
            0 <= d < rank and (size == 1 or size == result.shape[d])
            for size, d in zip(value.type.shape, dims, strict=False)
        )
        if not fits:
            importer.fault("MG0104", f"{operation.name}: {value.type} cannot be broadcast to {result}", operation)
            return
        whole = value.type.shape == result.shape
        spread.append(value if whole else builder.broadcast(value, result.shape, dims))
    finish(importer, operation, builder.node(name, spread, TensorType(result.shape, result.dtype), **attrs))
