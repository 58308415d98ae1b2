"""Operations of StableHLO that look through windows: convolution, reduce_window, select_and_scatter, scatter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import UnresolvedOperand
from xdsl.printer import Printer

from meshgen.ir.bridge import Exporter, Importer, exports, imports
from meshgen.ir.dense import DenseElements
from meshgen.ir.dialects.stablehlo_attributes import (
    ConvolutionDimensions,
    ScatterDimensions,
    array,
    boolean_of,
    flags,
    integer,
    integer_of,
    integers,
    precision,
    precision_of,
    struct_fields,
)
from meshgen.ir.dialects.stablehlo_base import HloOperation, Properties, define
from meshgen.ir.dialects.stablehlo_reduce import RETURN
from meshgen.ir.graph import Node, TensorType
from meshgen.ir.parser import TextParser

_WINDOW = re.compile(r"\{([^{}]*)\}")
_WINDOW_PART = re.compile(r"(\w+)\s*=\s*(\[[^=]*\])")
_WINDOW_LISTS = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}
_COUNTS = ("feature_group_count", "batch_group_count")
_CONVOLUTION_LISTS = {"window_strides": 1, "lhs_dilation": 1, "rhs_dilation": 1, "window_reversal": 0}
_WINDOW_OPTIONS = {"window_strides": 1, "base_dilations": 1, "window_dilations": 1}
_SCATTER_LISTS = (
    "update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims",
)  # fmt: skip


class Convolution(HloOperation):
    """`stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {...} {...}`"""

    lhs = operand_def()
    rhs = operand_def()
    window_strides = opt_prop_def()
    padding = opt_prop_def()
    lhs_dilation = opt_prop_def()
    rhs_dilation = opt_prop_def()
    window_reversal = opt_prop_def()
    dimension_numbers = prop_def(ConvolutionDimensions)
    feature_group_count = prop_def()
    batch_group_count = prop_def()
    precision_config = opt_prop_def()
    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        parser.parse_punctuation("(")
        operands = parser.parse_values()
        parser.parse_punctuation(")")
        parser.parse_keyword("dim_numbers")
        parser.parse_punctuation("=")
        properties: Properties = {
            "dimension_numbers": ConvolutionDimensions(ConvolutionDimensions.parse_parameter(parser))
        }
        parser.parse_clause("window")
        for name, words in _WINDOW_PART.findall(parser.scan(_WINDOW, "window in braces expected")[1]):
            if name not in _WINDOW_LISTS:
                parser.fail(f"a window has no '{name}'")
            properties[_WINDOW_LISTS[name]] = _window_list(name, re.findall(r"-?\d+|true|false", words))
        attributes = parser.parse_optional_attr_dict()
        properties |= {name: value for name, value in attributes.items() if name in (*_COUNTS, "precision_config")}
        return operands, properties

    def head(self, printer: Printer) -> None:
        printer.print_operands(self.operands)
        printer.print_string(f" dim_numbers = {self.dimension_numbers.text()}, window = {{")
        parts = [(word, self.properties.get(name)) for word, name in _WINDOW_LISTS.items()]
        printer.print_string(", ".join(f"{word} = {_window_text(word, part)}" for word, part in parts if part))
        printer.print_string("}")
        names = (*_COUNTS, "precision_config")
        printer.print_op_attributes({name: self.properties[name] for name in names if name in self.properties})


def _window_list(name: str, words: Sequence[str]) -> Attribute:
    if name == "reverse":
        return flags([word == "true" for word in words])
    numbers = [int(word) for word in words]
    return padding(numbers[::2], numbers[1::2]) if name == "pad" else array(numbers)


def _window_text(name: str, attribute: Attribute) -> str:
    values = list(integers(attribute))
    if name == "reverse":
        return f"[{', '.join('true' if value else 'false' for value in values)}]"
    return str([list(pair) for pair in zip(values[::2], values[1::2], strict=True)] if name == "pad" else values)


def padding(low: Sequence[int], high: Sequence[int]) -> Attribute:
    """`dense<[[low, high], ...]> : tensor<nx2xi64>`"""
    pairs = np.array([low, high], np.int64).T
    type = builtin.TensorType(builtin.i64, pairs.shape)
    return DenseElements.of(pairs, TensorType(pairs.shape, "i64"), type)


def padding_of(attribute: Attribute | None, rank: int) -> dict[str, tuple[int, ...]]:
    """The attributes `low` and `high` of a node; zeros where nothing is written."""
    values = integers(attribute) or (0,) * (2 * rank)
    return {"low": values[::2], "high": values[1::2]}


class ReduceWindow(IRDLOperation):
    arguments = var_operand_def()
    window_dimensions = prop_def()
    window_strides = opt_prop_def()
    base_dilations = opt_prop_def()
    window_dilations = opt_prop_def()
    padding = opt_prop_def()
    body = region_def()
    outputs = var_result_def()


class SelectAndScatter(IRDLOperation):
    operand = operand_def()
    source = operand_def()
    init_value = operand_def()
    window_dimensions = opt_prop_def()
    window_strides = opt_prop_def()
    padding = opt_prop_def()
    select = region_def()
    scatter = region_def()
    result = result_def()


class Scatter(IRDLOperation):
    arguments = var_operand_def()
    scatter_dimension_numbers = prop_def(ScatterDimensions)
    indices_are_sorted = opt_prop_def()
    unique_indices = opt_prop_def()
    body = region_def()
    outputs = var_result_def()


CONVOLUTION = define(Convolution, "stablehlo.convolution")
REDUCE_WINDOW = define(ReduceWindow, "stablehlo.reduce_window")
SELECT_AND_SCATTER = define(SelectAndScatter, "stablehlo.select_and_scatter")
SCATTER = define(Scatter, "stablehlo.scatter")


@imports("stablehlo.convolution")
def _import_convolution(importer: Importer, operation: Operation) -> None:
    assert isinstance(operation, Convolution)
    rank = importer.type(operation.lhs).rank - 2
    attrs: dict[str, Any] = {}
    for name, default in _CONVOLUTION_LISTS.items():
        attrs[name] = integers(operation.properties.get(name)) or (default,) * rank
    attrs["window_reversal"] = tuple(int(bool(flag)) for flag in attrs["window_reversal"])
    attrs |= padding_of(operation.padding, rank)
    attrs |= {name: integer_of(operation.properties[name], 1) for name in _COUNTS}
    attrs["precision"] = precision_of(operation.precision_config)
    letters = (("input", "b", "batch", "f", "feature"), ("kernel", "o", "output_feature", "i", "input_feature"),
               ("output", "b", "batch", "f", "feature"))  # fmt: skip
    for (side, first, first_name, second, second_name), words in zip(
        letters, operation.dimension_numbers.data, strict=True
    ):
        if sorted(words) != sorted([first, second, *map(str, range(len(words) - 2))]):
            importer.fault("MG0104", f"{operation.dimension_numbers.text()} does not number the dims", operation)
            return
        attrs[f"{side}_{first_name}"], attrs[f"{side}_{second_name}"] = words.index(first), words.index(second)
        attrs[f"{side}_spatial"] = tuple(words.index(str(number)) for number in range(len(words) - 2))
    importer.convert(operation, "convolution", attrs)


@exports("convolution")
def _export_convolution(exporter: Exporter, node: Node) -> Operation:
    attrs = node.attrs
    numbering = ConvolutionDimensions(
        (
            _letters(attrs["input_batch"], attrs["input_feature"], attrs["input_spatial"], "bf"),
            _letters(attrs["kernel_output_feature"], attrs["kernel_input_feature"], attrs["kernel_spatial"], "oi"),
            _letters(attrs["output_batch"], attrs["output_feature"], attrs["output_spatial"], "bf"),
        )
    )
    properties: Properties = {name: array(attrs[name]) for name in _CONVOLUTION_LISTS}
    properties["window_reversal"] = flags([bool(flag) for flag in attrs["window_reversal"]])
    properties["padding"] = padding(attrs["low"], attrs["high"])
    properties["dimension_numbers"] = numbering
    properties |= {name: integer(attrs[name]) for name in _COUNTS}
    if attrs.get("precision"):
        properties["precision_config"] = precision(attrs["precision"])
    types = exporter.types(node.results)
    return CONVOLUTION.create(operands=exporter.operands(node), result_types=types, properties=properties)


def _letters(first: int, second: int, spatial: Sequence[int], letters: str) -> tuple[str, ...]:
    """What each dim is: two letters and the numbers of the spatial dims."""
    found = {first: letters[0], second: letters[1]} | {dim: str(number) for number, dim in enumerate(spatial)}
    return tuple(found[dim] for dim in range(len(found)))


@imports("stablehlo.reduce_window", "stablehlo.select_and_scatter")
def _import_window(importer: Importer, operation: Operation) -> None:
    rank = importer.type(operation.operands[0]).rank
    properties = operation.properties
    names = _WINDOW_OPTIONS if isinstance(operation, ReduceWindow) else {"window_strides": 1}
    attrs = {name: integers(properties.get(name)) or (default,) * rank for name, default in names.items()}
    attrs["window_dimensions"] = integers(properties.get("window_dimensions")) or (1,) * rank
    attrs |= padding_of(properties.get("padding"), rank)
    importer.convert(operation, operation.name.partition(".")[2], attrs, regions=closed_regions(importer, operation))


def closed_regions(importer: Importer, operation: Operation) -> tuple[Any, ...]:
    """The graphs of regions that use nothing from outside."""
    found = [importer.region(region) for region in operation.regions]
    if any(captures for _, captures in found):
        importer.fault("MG0103", f"the region of {operation.name} uses values from outside", operation)
    return tuple(graph for graph, _ in found)


@exports("reduce_window", "select_and_scatter")
def _export_window(exporter: Exporter, node: Node) -> Operation:
    kind, names = (SELECT_AND_SCATTER, ["window_strides"])
    if node.op == "reduce_window":
        kind, names = REDUCE_WINDOW, list(_WINDOW_OPTIONS)
    properties: Properties = {name: array(node.attrs[name]) for name in ("window_dimensions", *names)}
    properties["padding"] = padding(node.attrs["low"], node.attrs["high"])
    regions = [Region(exporter.block(region, RETURN)) for region in node.regions]
    types = exporter.types(node.results)
    return kind.create(operands=exporter.operands(node), result_types=types, properties=properties, regions=regions)


@imports("stablehlo.scatter")
def _import_scatter(importer: Importer, operation: Operation) -> None:
    assert isinstance(operation, Scatter)
    numbering = operation.scatter_dimension_numbers
    attrs: dict[str, Any] = {name: numbering.integers(name) for name in _SCATTER_LISTS}
    attrs["index_vector_dim"] = numbering.integer("index_vector_dim")
    for name in ("indices_are_sorted", "unique_indices"):
        attrs[name] = boolean_of(operation.properties.get(name))
    importer.convert(operation, "scatter", attrs, regions=closed_regions(importer, operation))


@exports("scatter")
def _export_scatter(exporter: Exporter, node: Node) -> Operation:
    values = {name: node.attrs[name] for name in (*_SCATTER_LISTS, "index_vector_dim")}
    properties: Properties = {"scatter_dimension_numbers": ScatterDimensions(struct_fields(values))}
    for name in ("indices_are_sorted", "unique_indices"):
        properties[name] = builtin.IntegerAttr(int(node.attrs.get(name, False)), builtin.i1)
    regions = [Region(exporter.block(node.regions[0], RETURN))]
    types = exporter.types(node.results)
    return SCATTER.create(operands=exporter.operands(node), result_types=types, properties=properties, regions=regions)
