"""Print operations of per-device programs whose result depends on the device: its index, padding masks, partial sums."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.graph import Node
from meshgen.mlir.literals import symbol
from meshgen.mlir.shard.grid import axis_number, has_sub_axes
from meshgen.mlir.upstream.element_types import element, signless
from meshgen.mlir.upstream.inexpressible import PARTIAL_SUMS, Inexpressible
from meshgen.mlir.upstream.printer import UpstreamPrinter, Write
from meshgen.mlir.upstream.structured import affine_map, generic_text
from meshgen.ops.evaluate.common import neutral

REDUCED = {"sum": "add", "product": "multiply", "max": "maximum", "min": "minimum", "and": "and", "or": "or", "xor": "xor"}  # fmt: skip


def _group_index(printer: UpstreamPrinter, axes: Sequence[str]) -> str:
    """Return the name of the device's index in its group over `axes`: row-major, with the first axis as the most major
    one.
    """
    mesh = printer.mesh
    if has_sub_axes(axes, mesh):
        raise Inexpressible(f"it is over a part of a mesh axis, {', '.join(axes)}")
    if not axes:
        return printer.temporary("arith.constant 0 : index")
    numbers = [axis_number(axis, mesh) for axis in axes]
    names = [f"%{printer.new_name('')}" for _ in axes]
    types = ", ".join(["index"] * len(axes))
    printer.emit(f"{', '.join(names)} = shard.process_multi_index on {symbol(mesh.name)} axes = {numbers} : {types}")
    total = names[0]
    for name, axis in zip(names[1:], axes[1:], strict=True):
        size = printer.temporary(f"arith.constant {mesh.axis_size(axis)} : index")
        product = printer.temporary(f"arith.muli {total}, {size} : index")
        total = printer.temporary(f"arith.addi {product}, {name} : index")
    return total


def _assign_index(printer: UpstreamPrinter, node: Node, index: str) -> None:
    """Make the result of a node, a 0-d tensor, from the scalar with the name `index`."""
    kind = element(node.result.type.dtype)
    scalar = printer.temporary(f"arith.index_cast {index} : index to {kind}")
    printer.assign(node, f"tensor.from_elements {scalar} : tensor<{kind}>")


def write_process_index(printer: UpstreamPrinter, node: Node) -> None:
    _assign_index(printer, node, _group_index(printer, axes_of(node.attrs)))


def write_axis_size(printer: UpstreamPrinter, node: Node) -> None:
    mesh, axes = printer.mesh, axes_of(node.attrs)
    if has_sub_axes(axes, mesh) or len(axes) != 1:
        raise Inexpressible("shard.grid_shape returns the size of one mesh axis")
    axis = axis_number(axes[0], mesh)
    size = printer.temporary(f"shard.grid_shape {symbol(mesh.name)} axes = [{axis}] : index")
    _assign_index(printer, node, size)


def write_mask_padding(printer: UpstreamPrinter, node: Node) -> None:
    """Print a `mask_padding`, as a select that replaces the rows past the global size by the fill value."""
    attrs, kind = node.attrs, node.result.type
    rows, dtype = kind.sizes[attrs.dim], element(kind.dtype)
    device = _group_index(printer, axes_of(attrs))
    first = printer.temporary(f"arith.muli {device}, {printer.temporary(f'arith.constant {rows} : index')} : index")
    last = printer.temporary(f"arith.constant {attrs.size} : index")
    fill = printer.number(attrs.fill, kind.dtype)

    def body(names: list[str]) -> None:
        row = printer.temporary(f"arith.addi {first}, {printer.temporary(f'linalg.index {attrs.dim} : index')} : index")
        is_inside = printer.temporary(f"arith.cmpi slt, {row}, {last} : index")
        selected = printer.temporary(f"arith.select {is_inside}, {names[0]}, {fill} : {dtype}")
        printer.emit(f"linalg.yield {selected} : {dtype}")

    maps, tile = [affine_map(kind.rank, range(kind.rank))] * 2, signless(kind)
    operands = [(printer.operand(node, 0), tile), (printer.empty(node), tile)]
    printer.assign(node, generic_text(printer, maps, ["parallel"] * kind.rank, operands, body))


def write_to_partial(printer: UpstreamPrinter, node: Node) -> None:
    """Print a `to_partial`, as a select: the first device of each group has the value, the others the neutral element."""
    if printer.is_planned:
        raise Inexpressible(PARTIAL_SUMS)
    kind = node.result.type
    device = _group_index(printer, axes_of(node.attrs))
    zero = printer.temporary("arith.constant 0 : index")
    is_first = printer.temporary(f"arith.cmpi eq, {device}, {zero} : index")
    neutral_element = printer.number(neutral(REDUCED[node.attrs.kind], kind.dtype), kind.dtype)
    dtype, tile = element(kind.dtype), signless(kind)

    def body(names: list[str]) -> None:
        selected = printer.temporary(f"arith.select {is_first}, {names[0]}, {neutral_element} : {dtype}")
        printer.emit(f"linalg.yield {selected} : {dtype}")

    maps = [affine_map(kind.rank, range(kind.rank))] * 2
    operands = [(printer.operand(node, 0), tile), (printer.empty(node), tile)]
    printer.assign(node, generic_text(printer, maps, ["parallel"] * kind.rank, operands, body))


WRITERS: dict[str, Write] = {
    "process_index": write_process_index,
    "axis_size": write_axis_size,
    "mask_padding": write_mask_padding,
    "to_partial": write_to_partial,
}
