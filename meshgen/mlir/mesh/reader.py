"""Importers of the RFC's `mesh` dialect, whose operations become the same nodes as those of `shard`.

A `mesh.all_gather` or `mesh.local_split` over several tensor dims becomes one node per dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from meshgen.errors import Diagnostic, Location, ShardingError
from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.mesh import Mesh
from meshgen.mlir.attributes import integer_of, string_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.mesh.clusters import DEFAULT
from meshgen.mlir.mesh.operations import MeshShardAttr
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.shard.annotations import annotate, flag, lists_of
from meshgen.mlir.shard.attributes import Partial, named
from meshgen.mlir.shard.collectives import emit, emit_on
from meshgen.mlir.shard.grid import find_mesh
from meshgen.ops.collective_checks import collective_faults
from meshgen.spec import Sharding, from_indices

Lists = tuple[tuple[str, ...], ...]


def _mesh(importer: Importer) -> Mesh:
    """Return the mesh of the function's default cluster, or the only mesh."""
    return importer.reading.meshes.get(DEFAULT, importer.reading.module.mesh)


def decode_shard(reading: Reading, attribute: Attribute, kind: TensorType) -> Sharding:
    """Decode `#mesh.shard`, the encoding of a tensor type, into a sharding of the type. Reports a fault if it is
    invalid.
    """
    assert isinstance(attribute, MeshShardAttr)
    symbol, lists, partial = attribute.data
    mesh = reading.meshes.get(symbol, reading.module.mesh)
    sharding = read_lists(reading, lists, mesh, kind, None, partial)
    return reading.on(symbol or mesh.name, sharding) if sharding else Sharding.replicated(kind.rank)


def read_lists(reading: Reading, lists: Lists, mesh: Mesh, kind: TensorType, op: Operation | None,
               partial: Partial = ()) -> Sharding | None:  # fmt: skip
    """Convert `lists`, the axis lists of each dim and then of a partial sum, into a sharding.

    If they are invalid, reports the faults at `op` and returns None.
    """
    try:
        sharding = from_indices([[int(axis) for axis in axes] for axes in lists], mesh, kind.rank)
        if partial:
            sharding = replace(sharding, partial=named(Sharding((), partial), mesh).partial)
    except ShardingError as error:
        reading.refuse(error.diagnostics, op)
        return None
    return sharding


def import_annotate(importer: Importer, op: Operation) -> None:
    kind, attribute = importer.type(op.operands[0]), op.attributes.get("sharding")
    is_whole = isinstance(attribute, MeshShardAttr)
    symbol, lists, partial = attribute.data if is_whole else (DEFAULT, lists_of(attribute), ())
    reading = importer.reading
    mesh = _mesh(importer) if symbol == DEFAULT else find_mesh(importer, symbol, op)
    sharding = None
    if mesh is None:
        pass
    elif attribute is None:
        importer.fault("MG0104", f"{op.name} has no sharding", op, "add sharding = [[0], []] or #mesh.shard<...>")
    else:
        sharding = read_lists(reading, lists, mesh, kind, op, partial)
    if sharding is None:
        importer.bind(op.results[0], importer.value(op.operands[0]))
        return
    sharding = reading.on(symbol or (mesh.name if mesh else DEFAULT), sharding)
    annotate(importer, op, op.operands[0], sharding, flag(op, "required", True), flag(op, "as_result", True))


def _lists(op: Operation, name: str) -> Lists:
    """Return the axis lists in the attribute `name`. A flat list of axes is treated as the list of dim 0."""
    return lists_of(op.attributes.get(name))


def _mesh_axis_names(importer: Importer, op: Operation) -> tuple[str, ...]:
    """Return the names of the axes in `mesh_axis = [0, 1]`."""
    attribute = op.attributes.get("mesh_axis")
    items = attribute.data if isinstance(attribute, ArrayAttr) else (attribute,)
    names = _mesh(importer).names
    numbers = [item.value.data for item in items if isinstance(item, IntegerAttr)]
    return tuple(names[index] if 0 <= index < len(names) else str(index) for index in numbers)


def _axes_by_name(importer: Importer, lists: Lists) -> Lists:
    names = _mesh(importer).names
    return tuple(tuple(names[int(a)] if a.isdecimal() and int(a) < len(names) else a for a in axes) for axes in lists)


def import_all_reduce(importer: Importer, op: Operation) -> None:
    emit(
        importer,
        op,
        "all_reduce",
        {"axes": _mesh_axis_names(importer, op), "kind": string_of(op.attributes.get("reduction"), "sum")},
    )


def import_reduce_scatter(importer: Importer, op: Operation) -> None:
    dim = integer_of(op.attributes.get("tensor_axis"))
    attrs = {
        "axes": _mesh_axis_names(importer, op),
        "dim": dim,
        "kind": string_of(op.attributes.get("reduction"), "sum"),
    }
    emit(importer, op, "reduce_scatter", attrs)


def import_all_gather(importer: Importer, op: Operation) -> None:
    _per_dim(importer, op, "all_gather", _axes_by_name(importer, _lists(op, "mesh_axis")))


def import_local_split(importer: Importer, op: Operation) -> None:
    """Convert `mesh.local_split`.

    The attribute `sharding` has the new axes per dim. If it is missing, they are the axes that the sharding of the
    result has in addition to those of the operand.
    """
    lists = _axes_by_name(importer, _lists(op, "sharding"))
    if "sharding" not in op.attributes:
        source, target = _shardings(importer, op)
        lists = tuple(new[len(old) :] for old, new in zip(source.dims, target.dims, strict=True))
        longer = [new[: len(new) - len(old)] for old, new in zip(source.dims, target.dims, strict=True)]
        if any(new[: len(old)] != old for old, new in zip(source.dims, target.dims, strict=True)):
            lists = tuple(longer)
    _per_dim(importer, op, "all_slice", lists)


def _shardings(importer: Importer, op: Operation) -> tuple[Sharding, Sharding]:
    """Return the shardings of the operand and of the result. A tensor type without an encoding is replicated."""
    source = importer.value(op.operands[0])
    target = importer.reading.sharding(op.results[0].type, op)
    replicated = Sharding.replicated(source.type.rank)
    return source.sharding or replicated, target or replicated


def _per_dim(importer: Importer, op: Operation, name: str, lists: Lists) -> None:
    """Emit one collective `name` for each dim with a nonempty axis list, with the sharding after each step."""
    value, kind = importer.value(op.operands[0]), importer.type(op.results[0])
    sharding, target = _shardings(importer, op)
    steps = [(dim, axes) for dim, axes in enumerate(lists) if axes]
    if len(lists) > kind.rank:
        importer.fault("MG0204", f"{op.name}: {len(lists)} lists of axes for {kind} of rank {kind.rank}", op)
        steps = []
    for index, (dim, axes) in enumerate(steps):
        before, sharding = sharding, target if index == len(steps) - 1 else _after(sharding, name, dim, axes)
        attrs: dict[str, Any] = {"axes": axes, "dim": dim}
        if (
            name == "all_gather"
            and _are_outer_axes(before.dims[dim], axes)
            and sharding == _after(before, name, dim, axes)
        ):
            name, attrs = "retile", {"source": before, "target": sharding, "shape": kind.shape}
        value = emit_on(importer, op, value, name, attrs, kind, sharding)
    importer.bind(op.results[0], value)


def _are_outer_axes(dim_axes: tuple[str, ...], axes: tuple[str, ...]) -> bool:
    """Whether `axes` split the dim but are not the innermost of `dim_axes`. A gather over them joins tiles that are not
    adjacent.
    """
    return set(axes) <= set(dim_axes) and dim_axes[len(dim_axes) - len(axes) :] != axes


def _after(sharding: Sharding, name: str, dim: int, axes: Sequence[str]) -> Sharding:
    """Return `sharding` after the all_slice or all_gather `name` of one dim over `axes`."""
    dim_axes = sharding.dims[dim]
    new_axes = dim_axes + tuple(axes) if name == "all_slice" else tuple(axis for axis in dim_axes if axis not in axes)
    return sharding.with_dims((*sharding.dims[:dim], new_axes, *sharding.dims[dim + 1 :]))


def import_all_to_all(importer: Importer, op: Operation) -> None:
    """Convert `mesh.all_to_all`. The axes that move, and the dims, follow from the shardings of the operand and the
    result.
    """
    source, target = _shardings(importer, op)
    pairs = list(zip(source.dims, target.dims, strict=True))
    lost = [(dim, old[len(new) :]) for dim, (old, new) in enumerate(pairs) if len(old) > len(new)]
    gained = [(dim, new[len(old) :]) for dim, (old, new) in enumerate(pairs) if len(new) > len(old)]
    if len(lost) != 1 or len(gained) != 1 or lost[0][1] != gained[0][1]:
        importer.fault("MG0204", f"mesh.all_to_all moves axes from one dim to another, not {source} to {target}", op)
        importer.bind(op.results[0], importer.value(op.operands[0]))
        return
    emit(importer, op, "all_to_all", {"axes": lost[0][1], "split_dim": gained[0][0], "concat_dim": lost[0][0]})


def import_collective_permute(importer: Importer, op: Operation) -> None:
    """Convert `mesh.collective_permute`.

    With the attribute `mesh_axis`, it rotates the tiles along this axis. Otherwise it moves the tiles to the devices
    where the sharding of the result places them.
    """
    source, target = _shardings(importer, op)
    if "mesh_axis" in op.attributes:
        _rotate(importer, op, source, target)
        return
    emit(importer, op, "permute", {"source": source, "target": target, "shape": importer.type(op.results[0]).shape})


def _rotate(importer: Importer, op: Operation, source: Sharding, target: Sharding) -> None:
    """Emit a manual computation in which each device along the axis passes its tile to the next one."""
    kind, axes, mesh = importer.type(op.results[0]), _mesh_axis_names(importer, op), importer.reading.module.mesh
    value, loc = importer.value(op.operands[0]), importer.reading.source.locate(op)
    importer.bind(op.results[0], value)
    if source != target or len(axes) != 1:
        message = f"{op.name} along {len(axes)} axes from {source} to {target}"
        importer.fault("MG0204", message, op, "a rotation must be along one mesh axis and keep the sharding")
        return
    tile = kind.with_shape(source.local_shape(kind.sizes, mesh))
    body = Graph("", [Value(tile, loc=loc)])
    shift = body.add(
        "shift", body.inputs, [tile], {"axes": axes, "shift_axis": axes[0], "offset": 1, "rotate": True}, loc=loc
    )
    body.outputs = shift.results
    if faults := [*collective_faults(shift, mesh), *_uneven(source, kind, mesh, loc)]:
        importer.reading.faults += faults
        return
    used = tuple(dict.fromkeys((*source.used_axes, *axes)))
    attrs = {"in_shardings": (source,), "out_shardings": (target,), "axes": used}
    (result,) = importer.emit("manual", [value], [kind], attrs, op, (body,))
    result.sharding = target
    importer.bind(op.results[0], result)


def _uneven(sharding: Sharding, kind: TensorType, mesh: Mesh, loc: Location | None) -> list[Diagnostic]:
    if sharding.is_even(kind.sizes, mesh):
        return []
    message = f"collective_permute along a mesh axis: the shards of {kind} under {sharding} have unequal shapes"
    return [Diagnostic("MG0204", message, loc, hint="split dims whose size is divisible by the number of devices")]


def import_idx(importer: Importer, op: Operation) -> None:
    axis = _query_axis(importer, op)
    value = importer.emit("process_index", [], [TensorType((), "i32")], {"axes": (axis,) if axis else ()}, op)[0]
    kind = importer.type(op.results[0])
    importer.bind(op.results[0], value if kind.dtype == "i32" else importer.emit("convert", [value], [kind], {}, op)[0])


def import_size(importer: Importer, op: Operation) -> None:
    axis, kind = _query_axis(importer, op), importer.type(op.results[0])
    size = importer.reading.module.mesh.axis(axis).size if axis else 1
    if size is None:
        importer.fault("MG0201", f"the size of mesh axis '{axis}' is unknown", op, "give it with --mesh")
    value = np.asarray(size or 1, kind.numpy_dtype)
    importer.bind(op.results[0], importer.emit("constant", [], [kind], {"value": value}, op)[0])


def _query_axis(importer: Importer, op: Operation) -> str:
    index, names = integer_of(op.properties["axis"], -1), _mesh(importer).names
    if 0 <= index < len(names):
        return names[index]
    importer.fault("MG0202", f"{op.name}: axis {index} is out of range for a mesh of {len(names)} axes", op)
    return ""


PART = Dialect(
    importers={
        "mesh.annotate": import_annotate,
        "mesh.shard": import_annotate,
        "mesh.all_reduce": import_all_reduce,
        "mesh.reduce_scatter": import_reduce_scatter,
        "mesh.all_gather": import_all_gather,
        "mesh.local_split": import_local_split,
        "mesh.all_to_all": import_all_to_all,
        "mesh.collective_permute": import_collective_permute,
        "mesh.idx": import_idx,
        "mesh.size": import_size,
    },
    type_decoders={MeshShardAttr.name: decode_shard},
)
