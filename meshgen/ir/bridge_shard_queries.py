"""Questions of the `shard` dialect about grids and devices. An index is a 0-d i64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import I64, DenseArrayBase
from xdsl.ir import Operation

from meshgen.errors import Diagnostic
from meshgen.ir.bridge import Importer, imports
from meshgen.ir.bridge_payload import Builder
from meshgen.ir.bridge_shard_grid import find_mesh
from meshgen.ir.bridge_shard_sharding import constants, fitted, sharding_of
from meshgen.ir.dialects.shard import (
    GridShapeOp,
    NeighborsLinearIndicesOp,
    ProcessLinearIndexOp,
    ProcessMultiIndexOp,
    ShardShapeOp,
)
from meshgen.ir.graph import TensorType, Value
from meshgen.mesh import Mesh

INDEX = TensorType((), "i64")


def _axes(importer: Importer, op: Operation, mesh: Mesh, listed: Sequence[int]) -> tuple[str, ...]:
    """Names of the listed axes, of all where none is; a fault for numbers that the mesh does not have."""
    if wrong := [number for number in listed if not 0 <= number < len(mesh.axes)]:
        importer.fault("MG0202", f"{op.name}: axis {wrong[0]} is not in {mesh}", op)
        return ()
    return tuple(mesh.names[number] for number in listed) if listed else mesh.names


def _bind(importer: Importer, op: Operation, values: Sequence[Value]) -> None:
    """Bind the results; a fault where there are more or fewer than asked for."""
    if len(values) != len(op.results):
        importer.fault("MG0104", f"{op.name} has {len(op.results)} results, but gives {len(values)}", op)
        values = [Builder(importer, op).constant(0, INDEX)] * len(op.results)
    for result, value in zip(op.results, values, strict=True):
        importer.bind(result, value)


def _size(importer: Importer, op: Operation, mesh: Mesh, axis: str) -> int:
    size = mesh.axis(axis).size
    if size is None:
        importer.fault("MG0201", f"{op.name}: the size of mesh axis '{axis}' is unknown", op, "give it with --mesh")
    return size or 1


def _place(builder: Builder, axes: tuple[str, ...]) -> Value:
    """The device's number over the axes."""
    return builder.convert(builder.node("process_index", [], TensorType((), "i32"), axes=axes), "i64")


@imports("shard.grid_shape")
def import_grid_shape(importer: Importer, op: Operation) -> None:
    assert isinstance(op, GridShapeOp)
    mesh = find_mesh(importer, op.grid.string_value(), op) or importer.reading.module.mesh
    builder, axes = Builder(importer, op), _axes(importer, op, mesh, op.axes.get_values())
    _bind(importer, op, [builder.constant(_size(importer, op, mesh, axis), INDEX) for axis in axes])


@imports("shard.process_multi_index")
def import_process_multi_index(importer: Importer, op: Operation) -> None:
    assert isinstance(op, ProcessMultiIndexOp)
    mesh = find_mesh(importer, op.grid.string_value(), op) or importer.reading.module.mesh
    axes = _axes(importer, op, mesh, op.axes.get_values())
    _bind(importer, op, [_place(Builder(importer, op), (axis,)) for axis in axes])


@imports("shard.process_linear_index")
def import_process_linear_index(importer: Importer, op: Operation) -> None:
    assert isinstance(op, ProcessLinearIndexOp)
    mesh = find_mesh(importer, op.grid.string_value(), op) or importer.reading.module.mesh
    _bind(importer, op, [_place(Builder(importer, op), mesh.names)])


@imports("shard.neighbors_linear_indices")
def import_neighbors(importer: Importer, op: Operation) -> None:
    """The numbers before and after along one axis; -1 at the ends."""
    assert isinstance(op, NeighborsLinearIndicesOp)
    mesh = find_mesh(importer, op.grid.string_value(), op) or importer.reading.module.mesh
    listed, builder, device = op.split_axes.get_values(), Builder(importer, op), importer.values(op.device)
    axes = _axes(importer, op, mesh, listed)
    if len(listed) != 1 or len(device) != len(mesh.axes):
        message = f"neighbours along {len(listed)} axes of a device with {len(device)} coordinates"
        importer.fault("MG0104", f"{message}; one axis and {len(mesh.axes)} coordinates are needed", op)
    if len(axes) != 1 or len(device) != len(mesh.axes):
        _bind(importer, op, [builder.constant(-1, INDEX)] * 2)
        return
    strides = _strides([_size(importer, op, mesh, axis) for axis in mesh.names])
    terms = [builder.apply("multiply", d, builder.constant(s, INDEX)) for d, s in zip(device, strides, strict=True)]
    number = terms[0]
    for term in terms[1:]:
        number = builder.apply("add", number, term)
    axis, nothing = listed[0], builder.constant(-1, INDEX)
    stride = builder.constant(strides[axis], INDEX)
    last = builder.constant(_size(importer, op, mesh, axes[0]) - 1, INDEX)
    has_down = builder.compare("GT", device[axis], builder.constant(0, INDEX))
    has_up = builder.compare("LT", device[axis], last)
    down = builder.select(has_down, builder.apply("subtract", number, stride), nothing)
    _bind(importer, op, [down, builder.select(has_up, builder.apply("add", number, stride), nothing)])


def _strides(sizes: Sequence[int]) -> list[int]:
    """Devices between neighbours along each axis, row-major."""
    return [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]


@imports("shard.shard_shape")
def import_shard_shape(importer: Importer, op: Operation) -> None:
    """Rows that a device owns, halo included; the device must be known where shards are not all alike."""
    assert isinstance(op, ShardShapeOp)
    faults: list[Diagnostic] = []
    dims = constants(op.dims, op.dims_dynamic, "shard_shape: size", faults)
    sharding, mesh = sharding_of(importer, op.sharding), importer.reading.module.mesh
    if faults or sharding is None or sharding.rank > len(dims):
        importer.reading.faults += [replace(fault, loc=importer.reading.source.locate(op)) for fault in faults]
        _bind(importer, op, [Builder(importer, op).constant(0, INDEX)] * len(op.results))
        return
    sharding = fitted(sharding, len(dims))
    importer.reading.faults += [replace(f, loc=importer.reading.source.locate(op)) for f in sharding.faults(dims, mesh)]
    shape = sharding.local_shape(dims, mesh)
    if not sharding.is_even(dims, mesh):
        ranks = _rank(importer, op, mesh, op.device)
        ranges = sharding.ranges(dims, mesh, ranks) if ranks is not None else [(0, size) for size in shape]
        shape = tuple(stop - start for start, stop in ranges)
    _bind(importer, op, [Builder(importer, op).constant(size, INDEX) for size in shape])


def _rank(importer: Importer, op: ShardShapeOp, mesh: Mesh, device: DenseArrayBase[I64]) -> int | None:
    """The device's number; a fault where its coordinates are not constants of the mesh."""
    faults: list[Diagnostic] = []
    place = constants(device, op.device_dynamic, "shard_shape of unequal shards: device", faults)
    for fault in faults:
        importer.fault(fault.code, fault.message, op, fault.hint)
    if faults:
        return None
    if len(place) != len(mesh.axes) or any(not 0 <= c < size for c, size in zip(place, mesh.sizes, strict=False)):
        importer.fault("MG0104", f"shard_shape: device {place} is not in {mesh}", op)
        return None
    return mesh.rank(place)
