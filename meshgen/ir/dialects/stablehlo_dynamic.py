"""Operations of StableHLO that ask for sizes or take them as operands: `dynamic_reshape`, `get_dimension_size`, ...

Where the result's type says all sizes the static form is made at once; else the node stays until sizes are given.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, prop_def, result_def, var_operand_def
from xdsl.parser import UnresolvedOperand
from xdsl.printer import Printer

from meshgen.ir.bridge import Exporter, Importer, exports, imports
from meshgen.ir.bridge_payload import Builder, finish
from meshgen.ir.dialects.stablehlo_attributes import (
    GatherDimensions,
    array,
    boolean_of,
    integer,
    integer_of,
    integers,
    struct_fields,
)
from meshgen.ir.dialects.stablehlo_base import HloOperation, Properties, define
from meshgen.ir.dialects.stablehlo_contraction import GATHER_LISTS
from meshgen.ir.evaluate import evaluate_node
from meshgen.ir.evaluate_common import Array
from meshgen.ir.graph import Node, Value
from meshgen.ir.known_sizes import FOLDED, STATIC
from meshgen.ir.parser import TextParser


class Plain(HloOperation):
    arguments = var_operand_def()
    result = result_def()


class Dimensioned(HloOperation):
    """`stablehlo.get_dimension_size %x, dim = 1`, `stablehlo.dynamic_iota %n, dim = 0`, `..._broadcast_in_dim %x, %n, dims = [1]`"""

    arguments = var_operand_def()
    dimension = opt_prop_def()
    iota_dimension = opt_prop_def()
    broadcast_dimensions = opt_prop_def()
    known_expanding_dimensions = opt_prop_def()
    known_nonexpanding_dimensions = opt_prop_def()
    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operands = parser.parse_values()
        parser.parse_punctuation(",")
        word = parser.parse_identifier()
        parser.parse_punctuation("=")
        if word == "dims":
            return operands, {"broadcast_dimensions": array(parser.parse_integers())}
        number = integer(parser.parse_integer())
        return operands, {"dimension": number, "iota_dimension": number}

    def head(self, printer: Printer) -> None:
        super().head(printer)
        if self.broadcast_dimensions is not None:
            printer.print_string(f", dims = {list(integers(self.broadcast_dimensions))}")
        else:
            printer.print_string(f", dim = {integer_of(self.dimension or self.iota_dimension)}")


class DynamicGather(IRDLOperation):
    operand = operand_def()
    start_indices = operand_def()
    slice_sizes = operand_def()
    dimension_numbers = prop_def(GatherDimensions)
    indices_are_sorted = opt_prop_def()
    result = result_def()


PLAIN = {name: define(Plain, f"stablehlo.{name}") for name in ("dynamic_reshape", "dynamic_pad", "real_dynamic_slice")}
# By mnemonic: the class, and the attribute and property that hold a dim or dims.
DIMENSIONED = {
    name: (define(Dimensioned, f"stablehlo.{name}"), attr, prop)
    for name, attr, prop in (
        ("get_dimension_size", "dim", "dimension"),
        ("dynamic_iota", "dim", "iota_dimension"),
        ("dynamic_broadcast_in_dim", "dims", "broadcast_dimensions"),
    )
}
DYNAMIC_GATHER = define(DynamicGather, "stablehlo.dynamic_gather")


def _constant_of(importer: Importer, value: Value) -> Array | None:
    """What a value is where the program computes it of constants alone."""
    makers = {result: node for node in importer.graph.nodes for result in node.results}

    def known(value: Value) -> Array | None:
        node = makers.get(value)
        if node is None or node.regions or node.op not in FOLDED:
            return None
        args = [known(v) for v in node.operands]
        if any(arg is None for arg in args):
            return None
        return evaluate_node(node, [arg for arg in args if arg is not None])[0]

    return known(value)


@imports("stablehlo.dynamic_pad", "stablehlo.real_dynamic_slice")
def _import_plain(importer: Importer, operation: Operation) -> None:
    name = operation.name.partition(".")[2]
    op, names = STATIC[name]
    found = [_constant_of(importer, importer.value(ssa)) for ssa in operation.operands[-len(names) :]]
    lists = [tuple(int(n) for n in each.reshape(-1)) for each in found if each is not None]
    if len(lists) == len(names):
        attrs = dict(zip(names, lists, strict=True))
        importer.convert(operation, op, attrs, operands=operation.operands[: -len(names)])
    else:
        importer.convert(operation, name)


@imports("stablehlo.dynamic_reshape", "stablehlo.dynamic_iota", "stablehlo.dynamic_broadcast_in_dim")
def _import_of_shape(importer: Importer, operation: Operation) -> None:
    """Where the type of the result has all sizes, the operand that says them is not looked at."""
    name, attrs = operation.name.partition(".")[2], dict[str, Any]()
    if name == "dynamic_iota":
        attrs["dim"] = integer_of(operation.properties.get("iota_dimension"))
    elif name == "dynamic_broadcast_in_dim":
        attrs["dims"] = integers(operation.properties.get("broadcast_dimensions"))
    if None in importer.type(operation.results[0]).shape:
        importer.convert(operation, name, attrs)
    else:
        importer.convert(operation, name.removeprefix("dynamic_"), attrs, operands=operation.operands[:-1])


@imports("stablehlo.get_dimension_size")
def _import_size(importer: Importer, operation: Operation) -> None:
    """A number where the size is known."""
    kind, dim = importer.type(operation.operands[0]), integer_of(operation.properties.get("dimension"))
    size = kind.shape[dim] if 0 <= dim < kind.rank else None
    if size is None:
        importer.convert(operation, "get_dimension_size", {"dim": dim})
    else:
        value = Builder(importer, operation).constant(size, importer.type(operation.results[0]))
        finish(importer, operation, value)


@imports("stablehlo.dynamic_gather")
def _import_gather(importer: Importer, operation: Operation) -> None:
    assert isinstance(operation, DynamicGather)
    numbering = operation.dimension_numbers
    attrs: dict[str, object] = {attr: numbering.integers(name) for attr, name in GATHER_LISTS.items()}
    attrs["index_vector_dim"] = numbering.integer("index_vector_dim")
    attrs["indices_are_sorted"] = boolean_of(operation.indices_are_sorted)
    importer.convert(operation, "dynamic_gather", attrs)


@exports(*PLAIN)
def _export_plain(exporter: Exporter, node: Node) -> Operation:
    return PLAIN[node.op].create(operands=exporter.operands(node), result_types=exporter.types(node.results))


@exports(*DIMENSIONED)
def _export_dimensioned(exporter: Exporter, node: Node) -> Operation:
    operation, attr, prop = DIMENSIONED[node.op]
    value = node.attrs[attr]
    properties = {prop: array(value) if attr == "dims" else integer(value)}
    types = exporter.types(node.results)
    return operation.create(operands=exporter.operands(node), result_types=types, properties=properties)


@exports("dynamic_gather")
def _export_gather(exporter: Exporter, node: Node) -> Operation:
    values = {name: node.attrs[attr] for attr, name in GATHER_LISTS.items()}
    fields = struct_fields({**values, "index_vector_dim": node.attrs["index_vector_dim"]}, ["index_vector_dim"])
    properties: Properties = {
        "dimension_numbers": GatherDimensions(fields),
        "indices_are_sorted": builtin.IntegerAttr(int(node.attrs["indices_are_sorted"]), builtin.i1),
    }
    types = exporter.types(node.results)
    return DYNAMIC_GATHER.create(operands=exporter.operands(node), result_types=types, properties=properties)
