"""Annotations, collectives and questions about devices as operations of the shard dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ir.notes import NO_NOTES
from meshgen.mlir.literals import flags, symbol
from meshgen.mlir.shard import printing
from meshgen.mlir.shard.collective_ops import COLLECTIVES, ROOTED, SHIFT, node_of
from meshgen.mlir.shard.grid import axis_number, has_parts, numbered
from meshgen.mlir.shard.sharding import typed
from meshgen.mlir.upstream.movement import padded
from meshgen.mlir.upstream.printer import Inexpressible, UpstreamPrinter, Write, element, signless
from meshgen.mlir.upstream.structured import affine_map
from meshgen.ops.evaluate.common import neutral

PARTIAL = "LLVM 22 has no sharding of partial sums"
UPSTREAM = [node_of(each.name) for each in (*COLLECTIVES, *ROOTED, SHIFT) if each.name.startswith("shard.")]
RESHARDS = ("all_gather", "all_slice", "all_to_all", "all_reduce", "reduce_scatter", "permute", "retile", "update_halo")


_CUT = {
    "all_slice": "dim",
    "reduce_scatter": "dim",
    "all_to_all": "split_dim",
}  # by op: the dim of which devices have parts after it
_JOINED = {"all_gather": "dim", "all_to_all": "concat_dim"}


def write_annotate(printer: UpstreamPrinter, node: Node) -> None:
    """An annotation as the user has it; after propagation a change of sharding."""
    attrs = node.attrs
    if attrs.sharding.partial:
        raise Inexpressible(PARTIAL)
    if printer.is_planned and node.sharding is not None:
        printer.alias(node, printer.operand(node, 0))
        return
    said, source = said_of(attrs.required, attrs.open_dims), node.operands[0]
    name = printer.shard(
        printer.name(source),
        signless(source.type),
        attrs.sharding,
        node.result.name,
        for_users=not attrs.as_result,
        said=said,
    )
    printer.share_name(node.result, name)


def said_of(required: bool, open_dims: Sequence[bool]) -> dict[str, str]:
    """Return the attributes of an annotation that is a hint, or has dims that may be split further."""
    said: dict[str, str] = {} if required else {"required": "false"}
    return said | ({"open_dims": flags(open_dims)} if open_dims else {})


def write_reshard(printer: UpstreamPrinter, node: Node) -> None:
    """A collective between two shardings of a global value: the value is the same, for users with another sharding."""
    (value,), name = node.operands, printer.name(node.operands[0])
    source, target = typed([value, node.result])
    if target.partial:
        raise Inexpressible(PARTIAL)
    if replace(source, partial=()) != target:
        name = printer.shard(name, signless(value.type), target, for_users=True)
    printer.share_name(node.result, name)


def write_collective(printer: UpstreamPrinter, node: Node) -> None:
    """A collective of a program per device; it has no other form than in meshgen's own text, but for the reasons."""
    if printer.is_planned:
        write_reshard(printer, node)
        return
    if has_parts(axes_of(node.attrs), printer.mesh):
        raise Inexpressible(f"it is over a part of a mesh axis, {', '.join(axes_of(node.attrs))}")
    if node.attrs.get("kind") in ("max", "min") and node.result.type.dtype.startswith("ui"):
        raise Inexpressible("LLVM 22 compares integers as signed ones")
    if len(node.results) > 1:
        raise Inexpressible("collectives of LLVM 22 have one operand")
    node = replace(node, notes=NO_NOTES, option=None, sharding=None)
    name, before, after = _even_tiles(printer, node)
    operand, result = Value(before), Value(after)
    printer.share_name(operand, name)
    is_whole = after == signless(node.result.type)
    even = replace(node, operands=[operand, *node.operands[1:]], results=node.results if is_whole else [result])
    printer.emit(printing.PART.writers[node.op](printer, even))
    if not is_whole:
        sizes = node.result.type.sizes
        ranges = f"{[0] * len(sizes)} {list(sizes)} {[1] * len(sizes)}"
        types = f"{printer.type(result)} to {printer.type(node.result)}"
        printer.assign(node, f"tensor.extract_slice {printer.name(result)}{ranges} : {types}")


def _even_tiles(printer: UpstreamPrinter, node: Node) -> tuple[str, TensorType, TensorType]:
    """Return the operand of a collective and both types such that all tiles are equal, as LLVM 22 expects.

    An operand is padded where the last tile that is cut from it is smaller, and a result has the padding of the tiles joined.
    """
    name = printer.name(node.operands[0])
    before, after = signless(node.operands[0].type), signless(node.result.type)
    if (
        None in before.shape
        or None in after.shape
        or not printer.mesh.is_static
        or (node.op not in _CUT and node.op not in _JOINED)
    ):
        return name, before, after
    count, source, target = printer.mesh.group_size(axes_of(node.attrs)), [*before.sizes], [*after.sizes]
    cut, joined = node.attrs.get(_CUT.get(node.op, "")), node.attrs.get(_JOINED.get(node.op, ""))
    if joined is not None:
        target[joined] = before.sizes[joined] * count if joined != cut else target[joined]
    if cut is not None and cut != joined:
        source[cut] = after.sizes[cut] * count
        high = [whole - size for whole, size in zip(source, before.sizes, strict=True)]
        if any(high):
            nothing = [0] * len(high)
            name, before = padded(printer, name, before, printer.number(0, before.dtype), nothing, high, nothing)
    return name, before, after.with_shape(target)


def write_update_halo(printer: UpstreamPrinter, node: Node) -> None:
    """The halo of a tile, whose type includes it; upstream has tiles of one size only."""
    if printer.is_planned:
        write_reshard(printer, node)
        return
    sharding, mesh, text = node.attrs.sharding, printer.mesh, printer.type(node.result)
    if has_parts(sharding.used_axes, mesh):
        raise Inexpressible(f"it is over a part of a mesh axis, {', '.join(sharding.used_axes)}")
    halo = [pair if axes else (0, 0) for pair, axes in zip(sharding.halo, sharding.dims, strict=True)]
    sizes = [
        (size - sum(pair)) * mesh.group_size(axes)
        for size, pair, axes in zip(node.result.type.sizes, halo, sharding.dims, strict=True)
    ]
    if node.operands[0].type != node.result.type or tuple(sizes) != tuple(node.attrs.shape):
        raise Inexpressible("shard.update_halo of LLVM 22 is of tiles of one size that have room for the halo")
    rows = [rows for pair, axes in zip(halo, sharding.dims, strict=True) if axes for rows in pair]
    axes = numbered(sharding.dims, mesh)
    name = printer.name(node.operands[0])
    printer.assign(
        node, f"shard.update_halo {name} on {symbol(mesh.name)} split_axes = {axes} halo_sizes = {rows} : {text}"
    )


def _position(printer: UpstreamPrinter, axes: Sequence[str]) -> str:
    """Return the index of the device in its group over mesh axes, mixed radix."""
    mesh = printer.mesh
    if has_parts(axes, mesh):
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
    """Assign an index as a 0-d tensor."""
    kind = element(node.result.type.dtype)
    number = printer.temporary(f"arith.index_cast {index} : index to {kind}")
    printer.assign(node, f"tensor.from_elements {number} : tensor<{kind}>")


def write_process_index(printer: UpstreamPrinter, node: Node) -> None:
    _assign_index(printer, node, _position(printer, axes_of(node.attrs)))


def write_axis_size(printer: UpstreamPrinter, node: Node) -> None:
    mesh, axes = printer.mesh, axes_of(node.attrs)
    if has_parts(axes, mesh) or len(axes) != 1:
        raise Inexpressible("shard.grid_shape is of one mesh axis")
    number = axis_number(axes[0], mesh)
    size = printer.temporary(f"shard.grid_shape {symbol(mesh.name)} axes = [{number}] : index")
    _assign_index(printer, node, size)


def write_mask_padding(printer: UpstreamPrinter, node: Node) -> None:
    """Rows whose global index is too large become the fill."""
    attrs, kind = node.attrs, node.result.type
    rows, dtype = kind.sizes[attrs.dim], element(kind.dtype)
    device = _position(printer, axes_of(attrs))
    first = printer.temporary(f"arith.muli {device}, {printer.temporary(f'arith.constant {rows} : index')} : index")
    last = printer.temporary(f"arith.constant {attrs.size} : index")
    fill = printer.number(attrs.fill, kind.dtype)
    name, other = (f"%{printer.new_name('')}" for _ in range(2))

    def lines() -> None:
        printer.emit(f"^bb0({name}: {dtype}, {other}: {dtype}):")
        row = printer.temporary(f"arith.addi {first}, {printer.temporary(f'linalg.index {attrs.dim} : index')} : index")
        is_inside = printer.temporary(f"arith.cmpi slt, {row}, {last} : index")
        printer.emit(
            f"linalg.yield {printer.temporary(f'arith.select {is_inside}, {name}, {fill} : {dtype}')} : {dtype}"
        )

    text, same = printer.type(node.result), affine_map(kind.rank, range(kind.rank))
    types = ", ".join(['"parallel"'] * kind.rank)
    sides = f"ins({printer.operand(node, 0)} : {text}) outs({printer.empty(node)} : {text})"
    head = f"linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{types}]}}"
    printer.assign(node, f"{head} {sides} {printer.scope(lines)} -> {text}")


def write_to_partial(printer: UpstreamPrinter, node: Node) -> None:
    """The first device of each group keeps the value; the others have what adds nothing."""
    if printer.is_planned:
        raise Inexpressible(PARTIAL)
    kind = node.result.type
    device = _position(printer, axes_of(node.attrs))
    zero = printer.temporary("arith.constant 0 : index")
    is_first = printer.temporary(f"arith.cmpi eq, {device}, {zero} : index")
    rest = printer.number(neutral(REDUCED[node.attrs.kind], kind.dtype), kind.dtype)
    name, other, text = f"%{printer.new_name('')}", f"%{printer.new_name('')}", printer.type(node.result)
    dtype = element(kind.dtype)

    def lines() -> None:
        printer.emit(
            f"linalg.yield {printer.temporary(f'arith.select {is_first}, {name}, {rest} : {dtype}')} : {dtype}"
        )

    sides = f"ins({printer.operand(node, 0)} : {text}) outs({printer.empty(node)} : {text})"
    printer.assign(node, f"linalg.map {sides} ({name}: {dtype}, {other}: {dtype}) {printer.scope(lines)}")


REDUCED = {
    "sum": "add",
    "product": "multiply",
    "max": "maximum",
    "min": "minimum",
    "and": "and",
    "or": "or",
    "xor": "xor",
}


def _write_move(printer: UpstreamPrinter, node: Node) -> None:
    if not printer.is_planned:
        raise Inexpressible("LLVM 22 has no such operation")
    write_reshard(printer, node)


WRITERS: dict[str, Write] = {
    "annotate": write_annotate,
    **dict.fromkeys(UPSTREAM, write_collective),
    "update_halo": write_update_halo,
    "permute": _write_move,
    "retile": _write_move,
    "process_index": write_process_index,
    "axis_size": write_axis_size,
    "mask_padding": write_mask_padding,
    "to_partial": write_to_partial,
}
