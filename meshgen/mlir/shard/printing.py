"""Nodes of collectives and other mesh operations as operations of the shard dialect."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    f64,
    i16,
    i64,
)
from xdsl.dialects.shard import ShardAxesArrayAttr
from xdsl.ir import Attribute, Operation

from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.graph import Node
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.exporter import Exporter
from meshgen.mlir.shard.attributes import ReductionKindAttr, encode_split
from meshgen.mlir.shard.collective_ops import PermutePairsOp, ShiftOp
from meshgen.mlir.shard.collective_specs import KIND_NAMES, SPECS, Spec
from meshgen.mlir.shard.grid import (
    axis_number,
    has_parts,
    numbered,
)
from meshgen.mlir.shard.grouped import export_grouped
from meshgen.mlir.shard.moves import (
    AxisSizeOp,
    FetchRowsOp,
    MaskPaddingOp,
    PermuteOp,
    ProcessIndexOp,
    RetileOp,
    UpdateHaloOp,
)


def group(exporter: Exporter, node: Node) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """Properties and attributes that all groups of devices have in text."""
    mesh, axes = exporter.mesh, axes_of(node.attrs)
    numbers = [axis_number(axis, mesh) for axis in axes]
    properties: dict[str, Attribute] = {
        "grid": SymbolRefAttr(mesh.name),
        "grid_axes": DenseArrayBase.from_list(i16, numbers),
    }
    attributes: dict[str, Attribute] = {}
    if has_parts(axes, mesh):
        attributes["axes"] = ArrayAttr(StringAttr(axis) for axis in axes)
    if node.notes.why:
        attributes["why"] = StringAttr(node.notes.why)
    if node.notes.edges:
        attributes["edges"] = DenseArrayBase.from_list(i64, node.notes.edges)
    return properties, attributes


def create(exporter: Exporter, node: Node, cls: type[Operation], properties: dict[str, Attribute],
           attributes: dict[str, Attribute]) -> Operation:  # fmt: skip
    """The operation of a collective node."""
    return cls.create(
        operands=exporter.operands(node),
        result_types=exporter.types(node.results),
        properties=properties,
        attributes=attributes,
    )


def _index(number: int) -> IntegerAttr:
    return IntegerAttr(number, IndexType())


def _exporter_of(spec: Spec) -> Callable[[Exporter, Node], Operation]:
    """The exporter of one kind of collective."""

    def export_collective(exporter: Exporter, node: Node) -> Operation:
        properties, attributes = group(exporter, node)
        if len(node.operands) > 1:
            return export_grouped(exporter, node, properties, attributes)
        properties |= {name: _index(getattr(node.attrs, attr)) for name, attr in spec.dims}
        if spec.reduces:
            properties["reduction"] = ReductionKindAttr(KIND_NAMES[node.attrs.kind])
        if spec.root:  # xDSL prints a `recv` from anywhere only if its source is there, though empty
            properties[spec.root[0]] = DenseArrayBase.from_list(i64, list(getattr(node.attrs, spec.root[1]) or ()))
        return create(exporter, node, spec.cls, properties, attributes)

    return export_collective


def export_shift(exporter: Exporter, node: Node) -> Operation:
    properties, attributes = group(exporter, node)
    properties["shift_axis"] = _index(axis_number(node.attrs.shift_axis, exporter.mesh))
    properties["offset"] = IntegerAttr(node.attrs.offset, i64)
    if node.attrs.rotate:
        properties["rotate"] = UnitAttr()
    return create(exporter, node, ShiftOp, properties, attributes)


def export_permute_pairs(exporter: Exporter, node: Node) -> Operation:
    properties, attributes = group(exporter, node)
    pairs = (DenseArrayBase.from_list(i16, list(pair)) for pair in node.attrs.pairs)
    properties["pairs"] = ShardAxesArrayAttr(ArrayAttr(pairs))
    return create(exporter, node, PermutePairsOp, properties, attributes)


def export_fetch_rows(exporter: Exporter, node: Node) -> Operation:
    properties, attributes = group(exporter, node)
    properties |= {name: IntegerAttr(getattr(node.attrs, name), i64) for name in ("base", "step", "limit")}
    properties["dim"] = _index(node.attrs.dim)
    if node.attrs.divisor != 1:
        properties["divisor"] = IntegerAttr(node.attrs.divisor, i64)
    if node.attrs.wrap:
        properties["wrap"] = UnitAttr()
    if parts := node.attrs.parts:
        properties["parts"] = DenseArrayBase.from_list(i64, list(parts))
    return create(exporter, node, FetchRowsOp, properties, attributes)


def export_move(exporter: Exporter, node: Node) -> Operation:
    """The attributes only where the types do not carry the same."""
    properties, attributes = group(exporter, node)
    del properties["grid_axes"]
    mesh, attrs = exporter.mesh, node.attrs
    here = (node.operands[0].sharding, node.result.sharding, node.result.type.shape)
    if here != (attrs.source, attrs.target, attrs.shape):
        attributes["source"] = encode_split(attrs.source, mesh)
        attributes["target"] = encode_split(attrs.target, mesh)
        attributes["shape"] = DenseArrayBase.from_list(i64, list(attrs.shape))
    return create(exporter, node, PermuteOp if node.op == "permute" else RetileOp, properties, attributes)


def export_update_halo(exporter: Exporter, node: Node) -> Operation:
    properties, attributes = group(exporter, node)
    del properties["grid_axes"]
    mesh, sharding, shape = exporter.mesh, node.attrs.sharding, node.attrs.shape
    halo = [size for dim, pair in enumerate(sharding.halo) if sharding.dims[dim] for size in pair]
    properties["split_axes"] = numbered(sharding.dims, mesh)
    properties["static_halo_sizes"] = DenseArrayBase.from_list(i64, halo)
    if (node.result.sharding, node.result.type.shape) != (sharding, shape):
        attributes["sharding"] = encode_split(sharding, mesh)
        attributes["shape"] = DenseArrayBase.from_list(i64, list(shape))
    return create(exporter, node, UpdateHaloOp, properties, attributes)


def export_process_index(exporter: Exporter, node: Node) -> Operation:
    properties, attributes = group(exporter, node)
    return create(exporter, node, ProcessIndexOp, properties, attributes)


def export_axis_size(exporter: Exporter, node: Node) -> Operation:
    properties, attributes = group(exporter, node)
    return create(exporter, node, AxisSizeOp, properties, attributes)


def export_mask_padding(exporter: Exporter, node: Node) -> Operation:
    properties, attributes = group(exporter, node)
    fill = np.asarray(node.attrs.fill).item()
    properties |= {
        "dim": _index(node.attrs.dim),
        "size": _index(node.attrs.size),
        "fill": FloatAttr(fill, f64) if isinstance(fill, float) else IntegerAttr(int(fill), i64),
    }
    return create(exporter, node, MaskPaddingOp, properties, attributes)


PART = Dialect(
    exporters={
        "shift": export_shift,
        "permute_pairs": export_permute_pairs,
        "fetch_rows": export_fetch_rows,
        "permute": export_move,
        "retile": export_move,
        "update_halo": export_update_halo,
        "process_index": export_process_index,
        "axis_size": export_axis_size,
        "mask_padding": export_mask_padding,
        **{spec.op: _exporter_of(spec) for spec in SPECS},
    }
)
