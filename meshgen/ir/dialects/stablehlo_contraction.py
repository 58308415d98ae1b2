"""Dot products, reductions and gather / scatter of StableHLO."""

from __future__ import annotations

import re
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Data, Operation
from xdsl.irdl import IRDLOperation, irdl_attr_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.parser import AttrParser, UnresolvedOperand
from xdsl.printer import Printer

from meshgen.ir.bridge import Exporter, Importer, exports, imports
from meshgen.ir.bridge_payload import Builder, finish
from meshgen.ir.dialects.stablehlo_attributes import (
    ATTRIBUTES,
    DotDimensions,
    GatherDimensions,
    array,
    boolean_of,
    integers,
    numbers,
    precision,
    precision_of,
    struct_fields,
)
from meshgen.ir.dialects.stablehlo_base import HloOperation, Properties, define
from meshgen.ir.evaluate_common import bits
from meshgen.ir.graph import DTYPES, Node, TensorType, Value
from meshgen.ir.parser import TextParser

_PAIR = re.compile(r"\[([-\d,\s]*)\]\s*x\s*\[([-\d,\s]*)\]")
_ALGORITHM = re.compile(r"<([^<>]*)>")
_WORDS = re.compile(r"\[([\w,\s]*)\]")
_DOT = {
    "lhs_batch": "lhs_batching_dimensions",
    "rhs_batch": "rhs_batching_dimensions",
    "lhs_contract": "lhs_contracting_dimensions",
    "rhs_contract": "rhs_contracting_dimensions",
}
GATHER_LISTS = {
    name: name
    for name in ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", "start_index_map")
}  # fmt: skip


@irdl_attr_definition
class DotAlgorithm(Data[str]):
    """`<lhs_precision_type = bf16, ..., accumulation_type = f32, num_primitive_operations = 1, ...>`"""

    name = "stablehlo.dot_algorithm"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        assert isinstance(parser, TextParser)
        return parser.scan(_ALGORITHM, "'<...>' expected")[1]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")

    def fields(self) -> dict[str, str]:
        parts = (part.partition("=") for part in self.data.split(","))
        return {name.strip(): value.strip() for name, _, value in parts}


ATTRIBUTES.append(DotAlgorithm)


class DotGeneral(HloOperation):
    """`%a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT]`"""

    lhs = operand_def()
    rhs = operand_def()
    dot_dimension_numbers = prop_def(DotDimensions)
    precision_config = opt_prop_def()
    algorithm = opt_prop_def()
    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operands = parser.parse_values()
        lists: dict[str, tuple[int, ...]] = {}
        properties: Properties = {}
        while parser.parse_optional_punctuation(",") is not None:
            clause = parser.parse_identifier()
            parser.parse_punctuation("=")
            if clause in ("batching_dims", "contracting_dims"):
                left, right = parser.scan(_PAIR, "[dims] x [dims] expected").groups()
                name = f"{clause.removesuffix('_dims')}_dimensions"
                lists |= {f"lhs_{name}": numbers(left), f"rhs_{name}": numbers(right)}
            elif clause == "precision":
                properties["precision_config"] = read_precision(parser)
            elif clause == "algorithm":
                properties["algorithm"] = DotAlgorithm(DotAlgorithm.parse_parameter(parser))
            else:
                parser.fail(f"'{clause}' of dot_general is not supported; leave it out to use the default")
        properties["dot_dimension_numbers"] = DotDimensions(
            struct_fields({name: lists.get(name, ()) for name in _DOT.values()})
        )
        return operands, properties

    def head(self, printer: Printer) -> None:
        super().head(printer)
        numbering = self.dot_dimension_numbers
        for clause in ("batching", "contracting"):
            left, right = (list(numbering.integers(f"{side}_{clause}_dimensions")) for side in ("lhs", "rhs"))
            if left or clause == "contracting":
                printer.print_string(f", {clause}_dims = {left} x {right}")
        print_precision(printer, self.precision_config)


class Dot(HloOperation):
    """`stablehlo.dot %a, %b, precision = [DEFAULT, DEFAULT]`: contracts the last dim of a with the first of b."""

    lhs = operand_def()
    rhs = operand_def()
    precision_config = opt_prop_def()
    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operands = parser.parse_values()
        if parser.parse_optional_punctuation(",") is None:
            return operands, {}
        parser.parse_keyword("precision")
        parser.parse_punctuation("=")
        return operands, {"precision_config": read_precision(parser)}

    def head(self, printer: Printer) -> None:
        super().head(printer)
        print_precision(printer, self.precision_config)


class Gather(IRDLOperation):
    operand = operand_def()
    start_indices = operand_def()
    dimension_numbers = prop_def(GatherDimensions)
    slice_sizes = prop_def()
    indices_are_sorted = opt_prop_def()
    result = result_def()


def read_precision(parser: TextParser) -> Attribute:
    """`[DEFAULT, HIGHEST]`"""
    words = parser.scan(_WORDS, "list of precisions expected")[1]
    return precision([word.strip() for word in words.split(",") if word.strip()])


def print_precision(printer: Printer, attribute: Attribute | None) -> None:
    if words := precision_of(attribute):
        printer.print_string(f", precision = [{', '.join(words)}]")


DOT_GENERAL = define(DotGeneral, "stablehlo.dot_general")
define(Dot, "stablehlo.dot")
GATHER = define(Gather, "stablehlo.gather")


@imports("stablehlo.dot_general")
def _import_dot_general(importer: Importer, operation: Operation) -> None:
    assert isinstance(operation, DotGeneral)
    lists = {attr: operation.dot_dimension_numbers.integers(name) for attr, name in _DOT.items()}
    attrs = {**lists, "precision": precision_of(operation.precision_config)}
    if isinstance(operation.algorithm, DotAlgorithm):
        _rounded_dot(importer, operation, operation.algorithm, attrs)
    else:
        importer.convert(operation, "dot_general", attrs)


def _rounded_dot(importer: Importer, operation: Operation, algorithm: DotAlgorithm, attrs: dict[str, Any]) -> None:
    """A dot whose operands are rounded first, as its algorithm says.

    One that multiplies the parts of an operand separately (several primitive operations) is there to lose less: it is
    computed without rounding the operands.
    """
    builder, result = Builder(importer, operation), importer.type(operation.results[0])
    fields, operands = algorithm.fields(), importer.values(operation.operands)
    if int(fields.get("num_primitive_operations", "1")) == 1:
        kinds = [fields.get(f"{side}_precision_type", "") for side in ("lhs", "rhs")]
        operands = [_rounded_to(builder, value, kind) for value, kind in zip(operands, kinds, strict=True)]
    wide = fields.get("accumulation_type", result.dtype)
    if wide not in DTYPES or bits(wide) < bits(result.dtype):
        wide = result.dtype
    found = builder.node("dot_general", operands, TensorType(result.shape, wide), **attrs)
    finish(importer, operation, builder.convert(found, result.dtype))


def _rounded_to(builder: Builder, value: Value, kind: str) -> Value:
    if kind == "tf32":
        return builder.node("reduce_precision", [value], value.type, exponent_bits=8, mantissa_bits=10)
    if kind in DTYPES and bits(kind) < bits(value.type.dtype):
        return builder.convert(value, kind)
    return value


@imports("stablehlo.dot")
def _import_dot(importer: Importer, operation: Operation) -> None:
    assert isinstance(operation, Dot)
    rank = importer.type(operation.lhs).rank
    lists = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (rank - 1,), "rhs_contract": (0,)}
    importer.convert(operation, "dot_general", {**lists, "precision": precision_of(operation.precision_config)})


@exports("dot_general")
def _export_dot_general(exporter: Exporter, node: Node) -> Operation:
    fields = struct_fields({name: node.attrs[attr] for attr, name in _DOT.items()})
    properties: Properties = {"dot_dimension_numbers": DotDimensions(fields)}
    if node.attrs.get("precision"):
        properties["precision_config"] = precision(node.attrs["precision"])
    types = exporter.types(node.results)
    return DOT_GENERAL.create(operands=exporter.operands(node), result_types=types, properties=properties)


@imports("stablehlo.gather")
def _import_gather(importer: Importer, operation: Operation) -> None:
    assert isinstance(operation, Gather)
    numbering = operation.dimension_numbers
    attrs: dict[str, object] = {attr: numbering.integers(name) for attr, name in GATHER_LISTS.items()}
    attrs["index_vector_dim"] = numbering.integer("index_vector_dim")
    attrs["slice_sizes"] = integers(operation.slice_sizes)
    attrs["indices_are_sorted"] = boolean_of(operation.indices_are_sorted)
    importer.convert(operation, "gather", attrs)


@exports("gather")
def _export_gather(exporter: Exporter, node: Node) -> Operation:
    values = {name: node.attrs[attr] for attr, name in GATHER_LISTS.items()}
    fields = struct_fields({**values, "index_vector_dim": node.attrs["index_vector_dim"]}, ["index_vector_dim"])
    properties: Properties = {
        "dimension_numbers": GatherDimensions(fields),
        "slice_sizes": array(node.attrs["slice_sizes"]),
        "indices_are_sorted": builtin.IntegerAttr(int(node.attrs["indices_are_sorted"]), builtin.i1),
    }
    types = exporter.types(node.results)
    return GATHER.create(operands=exporter.operands(node), result_types=types, properties=properties)
