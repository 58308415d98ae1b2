"""Convert collectives and other mesh operations of the `shard` dialect to nodes.

The fields of most operations (`collective_ops.py`) become the attributes of one node. Other operations have importers
of their own. An invalid operation also becomes a node, so that the faults of all operations are reported together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, MemRefType, StringAttr
from xdsl.ir import Operation

from meshgen.errors import Diagnostic
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mesh import Mesh
from meshgen.mlir.attributes import integers, strings
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.shard.annotations import is_declared
from meshgen.mlir.shard.attributes import ReductionKindAttr, SplitAttr, named
from meshgen.mlir.shard.collective_ops import COLLECTIVES, KINDS, OF_SIZE, QUERIES, node_of
from meshgen.mlir.shard.grid import axis_numbers, mesh_of
from meshgen.mlir.shard.sharding import constants
from meshgen.mlir.shard.sharding_ops import UpdateHaloOp
from meshgen.mlir.text_operation import values_of
from meshgen.ops.collective_checks import collective_faults
from meshgen.spec import Sharding


def axes_of(op: Operation, mesh: Mesh) -> tuple[str, ...]:
    """Return the mesh axes whose devices form the groups of an operation. An axis number that the mesh lacks is
    unchanged.
    """
    if isinstance(attribute := op.attributes.get("axes"), ArrayAttr):
        return strings(attribute)
    return named(Sharding((tuple(map(str, integers(op.properties.get("grid_axes")))),)), mesh).dims[0]


def import_collective(importer: Importer, op: Operation) -> None:
    """Import a collective as one node. Its attributes are the mesh axes and the operation's fields."""
    emit(importer, op, node_of(op.name), attrs_of(importer, op))


def attrs_of(importer: Importer, op: Operation) -> dict[str, Any]:
    """Return the node attributes of a collective, except its root. Reports an unknown reduction kind."""
    kind = op.properties.get("reduction")
    if isinstance(kind, ReductionKindAttr) and kind.data not in (*KINDS, *OF_SIZE):
        importer.fault("MG0103", f"{op.name}: unknown reduction '{kind.data}'", op, f"use {', '.join(KINDS)}")
    return {"axes": axes_of(op, mesh_of(importer, op)), **values_of(op)}


def emit(importer: Importer, op: Operation, name: str, attrs: Mapping[str, object]) -> None:
    """Emit and check the node `name` of a collective on the operand of `op`, and bind the result of `op` to it."""
    source, result = importer.value(op.operands[0]), op.results[0]
    if isinstance(result.type, MemRefType):
        importer.fault("MG0103", f"{op.name} on memrefs is not supported", op, "use tensors")
        importer.bind(result, source)
        return
    sharding = importer.reading.sharding(result.type, result)
    importer.bind(result, emit_on(importer, op, source, name, attrs, importer.type(result), sharding))


def emit_on(importer: Importer, op: Operation, source: Value, name: str, attrs: Mapping[str, object],
            kind: TensorType, sharding: Sharding | None) -> Value:  # fmt: skip
    """Emit and check the node `name` of a collective on `source`, and return its result.

    If a reduction has a result of another element type, its operand is converted first.
    """
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
    """Copy the attributes `why` (the reason for a collective) and `edges` (the reshard edges it implements) to the
    node.
    """
    if isinstance(why := op.attributes.get("why"), StringAttr):
        node.notes = replace(node.notes, why=why.data)
    if edges := integers(op.attributes.get("edges")):
        node.notes = replace(node.notes, edges=edges)


def has_sizes(importer: Importer, op: Operation, axes: Sequence[str]) -> bool:
    """Whether the sizes of the mesh axes `axes` are known, which the conversion of `op` requires. Reports unknown
    sizes.
    """
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
    """Return the result of `node`, a sum over a group, divided by the size of the group."""
    kind = node.result.type
    size = np.full(kind.sizes, mesh.group_size(node.attrs.axes), kind.numpy_dtype)
    divisor = importer.emit("constant", [], [kind], {"value": size}, op)[0]
    divisor.sharding = node.result.sharding
    (value,) = importer.emit("divide", [node.result, divisor], [kind], {}, op)
    value.sharding = node.result.sharding
    return value


def import_shift(importer: Importer, op: Operation) -> None:
    attrs, mesh = attrs_of(importer, op), mesh_of(importer, op)
    axis = named(Sharding(((str(attrs["shift_axis"]),),)), mesh).dims[0][0]
    emit(importer, op, "shift", {"rotate": False, **attrs, "shift_axis": axis})


def import_move(importer: Importer, op: Operation) -> None:
    """Import a `permute` or `retile`.

    The attributes of the operation state its shardings and global shape. If they are missing, its types do.
    """
    mesh = mesh_of(importer, op)
    value, kind = importer.value(op.operands[0]), importer.type(op.results[0])
    source = _split(op, "source", mesh) or value.sharding
    target = _split(op, "target", mesh) or importer.reading.sharding(op.results[0].type, op)
    if source is None or target is None:
        importer.fault("MG0104", f"{op.name} needs its shardings, by attributes or by encodings", op)
    shape = integers(op.attributes.get("shape")) or kind.shape
    replicated = Sharding.replicated(kind.rank)
    attrs = {"source": source or replicated, "target": target or replicated, "shape": shape}
    emit(importer, op, op.name.partition(".")[2], attrs)


def _split(op: Operation, name: str, mesh: Mesh) -> Sharding | None:
    attribute = op.attributes.get(name)
    return named(attribute.data[1], mesh) if isinstance(attribute, SplitAttr) else None


def import_update_halo(importer: Importer, op: Operation) -> None:
    """Import a halo exchange.

    The attributes or the result type state the sharding and the global shape. Upstream's form has neither: there, the
    local shape, which includes the halo, determines the global shape.
    """
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
    for index, dim in enumerate(split):
        halo[dim] = (sizes[2 * index], sizes[2 * index + 1])
        core = kind.sizes[dim] - sum(halo[dim])
        if core < max(halo[dim]):
            message = f"update_halo: dim {dim} has {kind.sizes[dim]} rows, {core} without its halo of {halo[dim]}: a halo comes from direct neighbors, which have no more rows"
            importer.fault(
                "MG0204", message, op, f"make the dim at least {sum(halo[dim]) + max(halo[dim])}, or the halo smaller"
            )
            return Sharding.replicated(kind.rank), kind.shape
    shape = [(size - sum(halo[d])) * mesh.group_size(dims[d]) for d, size in enumerate(kind.sizes)]
    return Sharding(dims, (), tuple(halo)), tuple(shape)


def import_query(importer: Importer, op: Operation) -> None:
    mesh = mesh_of(importer, op)
    node = importer.convert(op, op.name.partition(".")[2], {"axes": axes_of(op, mesh)})
    importer.reading.faults += collective_faults(node, mesh)


PART = Dialect(
    importers={
        "shard.shift": import_shift,
        "meshgen.permute": import_move,
        "meshgen.retile": import_move,
        "shard.update_halo": import_update_halo,
        **{operation.name: import_query for operation in QUERIES},
        **{operation.name: import_collective for operation in COLLECTIVES},
    }
)
