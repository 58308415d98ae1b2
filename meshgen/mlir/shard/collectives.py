"""Collectives and other mesh operations of the `shard` dialect, to and from nodes.

`SPECS` says for each operation which node it is and which attributes they share; the exceptions have
functions of their own. Every faulty operation still gets a node, so that all faults are found in one reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr
from xdsl.dialects.shard import ReductionKind, ShardAxesArrayAttr
from xdsl.ir import Operation

from meshgen.errors import Diagnostic
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mesh import Mesh
from meshgen.mlir.arith.payload import scalar_of
from meshgen.mlir.attributes import integer_of, integers, strings
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.shard.annotations import is_declared
from meshgen.mlir.shard.attributes import ReductionKindAttr, SplitAttr, named
from meshgen.mlir.shard.collective_specs import KINDS, OF_SIZE, SPECS, Spec
from meshgen.mlir.shard.grid import axis_numbers, mesh_of
from meshgen.mlir.shard.sharding import constants
from meshgen.mlir.shard.sharding_ops import UpdateHaloOp
from meshgen.ops.collective_checks import collective_faults
from meshgen.spec import Sharding


def axes_of(op: Operation, mesh: Mesh) -> tuple[str, ...]:
    """The group's axes; a number that the mesh does not have stays a number."""
    if isinstance(attribute := op.attributes.get("axes"), ArrayAttr):
        return strings(attribute)
    return named(Sharding((tuple(map(str, integers(op.properties.get("grid_axes")))),)), mesh).dims[0]


def _integer(op: Operation, name: str) -> int:
    return integer_of(op.properties[name])


def _importer_of(spec: Spec) -> Callable[[Importer, Operation], None]:
    """The importer of one kind of collective without a root."""

    def import_collective(importer: Importer, op: Operation) -> None:
        emit(importer, op, spec.op, attrs_of(importer, op, spec, mesh_of(importer, op)))

    return import_collective


def attrs_of(importer: Importer, op: Operation, spec: Spec, mesh: Mesh) -> dict[str, Any]:
    """Axes, tensor dims and kind of reduction."""
    attrs: dict[str, Any] = {"axes": axes_of(op, mesh)}
    attrs |= {attr: _integer(op, name) for name, attr in spec.dims}
    return attrs | ({"kind": _reduction_kind(importer, op)} if spec.reduces else {})


def _reduction_kind(importer: Importer, op: Operation) -> str:
    attribute = op.properties.get("reduction")
    kind = attribute.data if isinstance(attribute, ReductionKindAttr) else ReductionKind.SUM
    if kind not in KINDS and kind not in OF_SIZE:
        importer.fault("MG0103", f"{op.name}: unknown reduction '{kind}'", op, f"use {', '.join(KINDS)}")
    return KINDS.get(kind) or OF_SIZE.get(kind, "sum")


def emit(importer: Importer, op: Operation, name: str, attrs: Mapping[str, object]) -> None:
    """The node of a collective on the operation's first operand, checked and bound to its result."""
    source, result = importer.value(op.operands[0]), op.results[0]
    if isinstance(result.type, MemRefType):
        importer.fault("MG0103", f"{op.name} on memrefs is not supported", op, "use tensors")
        importer.bind(result, source)
        return
    sharding = importer.reading.sharding(result.type, result)
    importer.bind(result, emit_on(importer, op, source, name, attrs, importer.type(result), sharding))


def emit_on(importer: Importer, op: Operation, source: Value, name: str, attrs: Mapping[str, object],
            kind: TensorType, sharding: Sharding | None) -> Value:  # fmt: skip
    """The result of a collective on a value; converts first where it reduces in another element type."""
    if name in ("all_reduce", "reduce_scatter", "reduce_to") and source.type.dtype != kind.dtype:
        wide = importer.emit("convert", [source], [TensorType(source.type.shape, kind.dtype)], {}, op)[0]
        wide.sharding = source.sharding
        source = wide
    (value,) = importer.emit(name, [source], [kind], attrs, op)
    value.sharding = sharding
    node = importer.graph.nodes[-1]
    note_reasons(node, op)
    node.option = None
    mesh = importer.reading.module.mesh
    faults = collective_faults(node, mesh, exact=not is_declared(op))
    importer.reading.faults += faults
    if faults or not _is_average(op) or not has_sizes(importer, op, node.attrs.axes):
        return value
    return _divided(importer, op, node, mesh)


def note_reasons(node: Node, op: Operation) -> None:
    """Note why a collective is there, and which edges it serves."""
    if isinstance(why := op.attributes.get("why"), StringAttr):
        node.notes = replace(node.notes, why=why.data)
    if edges := integers(op.attributes.get("edges")):
        node.notes = replace(node.notes, edges=edges)


def has_sizes(importer: Importer, op: Operation, axes: Sequence[str]) -> bool:
    """Whether the sizes of the axes are known, which the operation needs when it is read; collects a fault for others."""
    mesh = importer.reading.module.mesh
    unknown = [axis for axis in axes if mesh.axis(axis).size is None]
    for axis in unknown:
        hint = f"give it, for example --mesh {axis}=4"
        importer.fault("MG0201", f"{op.name}: the size of mesh axis '{axis}' is unknown", op, hint)
    return not unknown


def _is_average(op: Operation) -> bool:
    attribute = op.properties.get("reduction")
    return isinstance(attribute, ReductionKindAttr) and attribute.data in OF_SIZE


def _divided(importer: Importer, op: Operation, node: Node, mesh: Mesh) -> Value:
    """A sum over the group divided by the group's size."""
    kind = node.result.type
    size = np.full(kind.sizes, mesh.group_size(node.attrs.axes), kind.numpy_dtype)
    divisor = importer.emit("constant", [], [kind], {"value": size}, op)[0]
    divisor.sharding = node.result.sharding
    (value,) = importer.emit("divide", [node.result, divisor], [kind], {}, op)
    value.sharding = node.result.sharding
    return value


def import_shift(importer: Importer, op: Operation) -> None:
    mesh = mesh_of(importer, op)
    axis = named(Sharding(((str(_integer(op, "shift_axis")),),)), mesh).dims[0][0]
    attrs = {
        "axes": axes_of(op, mesh),
        "shift_axis": axis,
        "offset": _integer(op, "offset"),
        "rotate": "rotate" in op.properties,
    }
    emit(importer, op, "shift", attrs)


def import_permute_pairs(importer: Importer, op: Operation) -> None:
    mesh = mesh_of(importer, op)
    attribute = op.properties["pairs"]
    assert isinstance(attribute, ShardAxesArrayAttr)
    pairs = tuple(tuple(int(number) for number in pair.get_values()) for pair in attribute.axes)
    emit(importer, op, "permute_pairs", {"axes": axes_of(op, mesh), "pairs": pairs})


def import_fetch_rows(importer: Importer, op: Operation) -> None:
    mesh = mesh_of(importer, op)
    attrs: dict[str, object] = {"axes": axes_of(op, mesh)}
    attrs |= {name: _integer(op, name) for name in ("dim", "base", "step", "limit")}
    attrs |= {"wrap": True} if "wrap" in op.properties else {}
    if "divisor" in op.properties:
        attrs["divisor"] = max(1, _integer(op, "divisor"))
    if parts := integers(op.properties.get("parts")):
        attrs["parts"] = parts
    emit(importer, op, "fetch_rows", attrs)


def import_move(importer: Importer, op: Operation) -> None:
    """Shardings and global shape from the attributes, or from the types' encodings."""
    mesh = mesh_of(importer, op)
    value, kind = importer.value(op.operands[0]), importer.type(op.results[0])
    source = _split(op, "source", mesh) or value.sharding
    target = _split(op, "target", mesh) or importer.reading.sharding(op.results[0].type, op)
    if source is None or target is None:
        importer.fault("MG0104", f"{op.name} needs its shardings, by attributes or by encodings", op)
    shape = integers(op.attributes.get("shape")) or kind.shape
    rank = Sharding.replicated(kind.rank)
    attrs = {"source": source or rank, "target": target or rank, "shape": shape}
    emit(importer, op, op.name.partition(".")[2], attrs)


def _split(op: Operation, name: str, mesh: Mesh) -> Sharding | None:
    attribute = op.attributes.get(name)
    return named(attribute.data[1], mesh) if isinstance(attribute, SplitAttr) else None


def import_update_halo(importer: Importer, op: Operation) -> None:
    """Sharding and global shape from the attributes; in upstream's form from the local shape, halo included."""
    assert isinstance(op, UpdateHaloOp)
    mesh = mesh_of(importer, op)
    kind = importer.type(op.results[0])
    sharding, shape = _split(op, "sharding", mesh), integers(op.attributes.get("shape"))
    if sharding is None:
        sharding = importer.reading.sharding(op.results[0].type, op)
    if sharding is None:
        sharding, shape = _upstream_halo(importer, op, mesh, kind)
    else:
        shape = shape or kind.shape
    importer.reading.refuse(sharding.faults(shape, mesh), op)
    emit(importer, op, "update_halo", {"sharding": sharding, "shape": shape})


def _upstream_halo(importer: Importer, op: UpdateHaloOp, mesh: Mesh, kind: TensorType
                   ) -> tuple[Sharding, tuple[int | None, ...]]:  # fmt: skip
    faults: list[Diagnostic] = []
    sizes = constants(op.static_halo_sizes, op.halo_sizes, "halo size", faults)
    dims = named(Sharding(axis_numbers(op.split_axes)), mesh).dims
    dims = dims + ((),) * (kind.rank - len(dims))
    split = [dim for dim, axes in enumerate(dims) if axes]
    if not faults and len(sizes) != 2 * len(split):
        message = f"update_halo: {len(split)} split dims need {2 * len(split)} halo sizes, but there are {len(sizes)}"
        faults.append(Diagnostic("MG0204", message))
    if not faults and len(dims) > kind.rank:
        faults.append(Diagnostic("MG0204", f"update_halo: {len(dims)} lists of axes for {kind} of rank {kind.rank}"))
    faults = faults or Sharding(dims).faults([None] * len(dims), mesh)
    importer.reading.refuse(faults, op)
    if faults or not has_sizes(importer, op, [axis for axes in dims for axis in axes]):
        return Sharding.replicated(kind.rank), kind.shape
    halo = [(0, 0)] * kind.rank
    for place, dim in enumerate(split):
        halo[dim] = (sizes[2 * place], sizes[2 * place + 1])
        core = kind.sizes[dim] - sum(halo[dim])
        if core < max(halo[dim]):
            message = f"update_halo: dim {dim} has {kind.sizes[dim]} rows, {core} without its halo of {halo[dim]}: a halo comes from direct neighbours, which have no more rows"
            importer.fault(
                "MG0204", message, op, f"make the dim at least {sum(halo[dim]) + max(halo[dim])}, or the halo smaller"
            )
            return Sharding.replicated(kind.rank), kind.shape
    shape = [(size - sum(halo[d])) * mesh.group_size(dims[d]) for d, size in enumerate(kind.sizes)]
    return Sharding(dims, (), tuple(halo)), tuple(shape)


def import_query(importer: Importer, op: Operation) -> None:
    mesh = mesh_of(importer, op)
    node = importer.convert(op, op.name.removeprefix("shard."), {"axes": axes_of(op, mesh)})
    importer.reading.faults += collective_faults(node, mesh)


def import_mask_padding(importer: Importer, op: Operation) -> None:
    mesh = mesh_of(importer, op)
    fill = scalar_of(op.properties["fill"])
    attrs = {"dim": _integer(op, "dim"), "axes": axes_of(op, mesh), "size": _integer(op, "size"), "fill": fill}
    emit(importer, op, "mask_padding", attrs)


PART = Dialect(
    importers={
        "shard.shift": import_shift,
        "shard.permute_pairs": import_permute_pairs,
        "shard.fetch_rows": import_fetch_rows,
        "shard.permute": import_move,
        "shard.retile": import_move,
        "shard.update_halo": import_update_halo,
        "shard.process_index": import_query,
        "shard.axis_size": import_query,
        "shard.mask_padding": import_mask_padding,
        **{spec.name: _importer_of(spec) for spec in SPECS if not spec.root},
    }
)
