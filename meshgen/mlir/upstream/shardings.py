"""Print annotations and collectives as operations of the shard dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ir.notes import NO_NOTES
from meshgen.mlir.literals import flags, symbol
from meshgen.mlir.shard import printing
from meshgen.mlir.shard.collective_ops import COLLECTIVES, ROOTED, SHIFT, node_of
from meshgen.mlir.shard.grid import has_sub_axes, numbered
from meshgen.mlir.shard.sharding import typed
from meshgen.mlir.upstream.element_types import signless
from meshgen.mlir.upstream.inexpressible import NO_OPERATION, PARTIAL_SUMS, Inexpressible
from meshgen.mlir.upstream.movement import padded
from meshgen.mlir.upstream.printer import UpstreamPrinter, Write

UPSTREAM = [
    node_of(operation.name) for operation in (*COLLECTIVES, *ROOTED, SHIFT) if operation.name.startswith("shard.")
]
# Collective that splits a dim -> node attribute with the number of this dim
_SPLIT_DIMS = {"all_slice": "dim", "reduce_scatter": "dim", "all_to_all": "split_dim"}
# Collective that concatenates tiles along a dim -> node attribute with the number of this dim
_CONCATENATED_DIMS = {"all_gather": "dim", "all_to_all": "concat_dim"}


def write_annotate(printer: UpstreamPrinter, node: Node) -> None:
    """Print the user's annotation. After propagation, print the change of sharding that the node stands for."""
    attrs = node.attrs
    if attrs.sharding.partial:
        raise Inexpressible(PARTIAL_SUMS)
    if printer.is_planned and node.sharding is not None:
        printer.alias(node, printer.operand(node, 0))
        return
    source = node.operands[0]
    name = printer.shard(
        printer.name(source),
        signless(source.type),
        attrs.sharding,
        node.result.name,
        for_users=not attrs.as_result,
        attributes=attributes_of_annotation(attrs.required, attrs.open_dims),
    )
    printer.share_name(node.result, name)


def attributes_of_annotation(required: bool, open_dims: Sequence[bool]) -> dict[str, str]:
    """Return the attributes of an annotation: `required` if it is a hint, and `open_dims` if it has open dims."""
    attributes: dict[str, str] = {} if required else {"required": "false"}
    return attributes | ({"open_dims": flags(open_dims)} if open_dims else {})


def write_reshard(printer: UpstreamPrinter, node: Node) -> None:
    """Print a collective of a program on global types, which changes a sharding, as an annotation for users."""
    (value,), name = node.operands, printer.name(node.operands[0])
    source, target = typed([value, node.result])
    if target.partial:
        raise Inexpressible(PARTIAL_SUMS)
    if replace(source, partial=()) != target:
        name = printer.shard(name, signless(value.type), target, for_users=True)
    printer.share_name(node.result, name)


def write_collective(printer: UpstreamPrinter, node: Node) -> None:
    """Print a collective of a per-device program. All tiles are made equally large, as upstream requires."""
    if printer.is_planned:
        write_reshard(printer, node)
        return
    if has_sub_axes(axes_of(node.attrs), printer.mesh):
        raise Inexpressible(f"it is over a part of a mesh axis, {', '.join(axes_of(node.attrs))}")
    if node.attrs.get("kind") in ("max", "min") and node.result.type.dtype.startswith("ui"):
        raise Inexpressible("LLVM 22 compares integers as signed")
    if len(node.results) > 1:
        raise Inexpressible("collectives of LLVM 22 have one operand")
    node = replace(node, notes=NO_NOTES, option=None, sharding=None)
    name, before, after = _even_tiles(printer, node)
    operand, result = Value(before), Value(after)
    printer.share_name(operand, name)
    has_result_type = after == signless(node.result.type)
    even = replace(node, operands=[operand, *node.operands[1:]], results=node.results if has_result_type else [result])
    printer.emit(printing.PART.writers[node.op](printer, even))
    if not has_result_type:
        sizes = node.result.type.sizes
        ranges = f"{[0] * len(sizes)} {list(sizes)} {[1] * len(sizes)}"
        types = f"{printer.type(result)} to {printer.type(node.result)}"
        printer.assign(node, f"tensor.extract_slice {printer.name(result)}{ranges} : {types}")


def _even_tiles(printer: UpstreamPrinter, node: Node) -> tuple[str, TensorType, TensorType]:
    """Return the name and type of the operand, and the type of the result, if all tiles are made equally large.

    An operand that is split into tiles is padded if its last tile would be smaller. A result that consists of tiles
    contains their padding.
    """
    name = printer.name(node.operands[0])
    before, after = signless(node.operands[0].type), signless(node.result.type)
    if (
        None in before.shape
        or None in after.shape
        or not printer.mesh.is_static
        or (node.op not in _SPLIT_DIMS and node.op not in _CONCATENATED_DIMS)
    ):
        return name, before, after
    count, source, target = printer.mesh.group_size(axes_of(node.attrs)), [*before.sizes], [*after.sizes]
    cut_dim, joined_dim = (
        node.attrs.get(_SPLIT_DIMS.get(node.op, "")),
        node.attrs.get(_CONCATENATED_DIMS.get(node.op, "")),
    )
    if joined_dim is not None:
        target[joined_dim] = before.sizes[joined_dim] * count if joined_dim != cut_dim else target[joined_dim]
    if cut_dim is not None and cut_dim != joined_dim:
        source[cut_dim] = after.sizes[cut_dim] * count
        high = [padded_size - size for padded_size, size in zip(source, before.sizes, strict=True)]
        if any(high):
            zeros = [0] * len(high)
            name, before = padded(printer, name, before, printer.number(0, before.dtype), zeros, high, zeros)
    return name, before, after.with_shape(target)


def write_update_halo(printer: UpstreamPrinter, node: Node) -> None:
    """Print a halo exchange. The tiles must have the same size, which includes room for the halo."""
    if printer.is_planned:
        write_reshard(printer, node)
        return
    sharding, mesh, text = node.attrs.sharding, printer.mesh, printer.type(node.result)
    if has_sub_axes(sharding.used_axes, mesh):
        raise Inexpressible(f"it is over a part of a mesh axis, {', '.join(sharding.used_axes)}")
    halo = [pair if axes else (0, 0) for pair, axes in zip(sharding.halo, sharding.dims, strict=True)]
    sizes = [
        (size - sum(pair)) * mesh.group_size(axes)
        for size, pair, axes in zip(node.result.type.sizes, halo, sharding.dims, strict=True)
    ]
    if node.operands[0].type != node.result.type or tuple(sizes) != tuple(node.attrs.shape):
        raise Inexpressible("shard.update_halo of LLVM 22 needs tiles of the same size that include the halo")
    rows = [rows for pair, axes in zip(halo, sharding.dims, strict=True) if axes for rows in pair]
    axes = numbered(sharding.dims, mesh)
    name = printer.name(node.operands[0])
    printer.assign(
        node, f"shard.update_halo {name} on {symbol(mesh.name)} split_axes = {axes} halo_sizes = {rows} : {text}"
    )


def _write_move(printer: UpstreamPrinter, node: Node) -> None:
    if not printer.is_planned:
        raise Inexpressible(NO_OPERATION)
    write_reshard(printer, node)


WRITERS: dict[str, Write] = {
    "annotate": write_annotate,
    **dict.fromkeys(UPSTREAM, write_collective),
    "update_halo": write_update_halo,
    "permute": _write_move,
    "retile": _write_move,
}
