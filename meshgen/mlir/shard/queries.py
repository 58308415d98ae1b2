"""Importers of the operations of the `shard` dialect that query grids and devices. The results are 0-d i64 tensors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, I64, DenseArrayBase
from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import TensorType, Value
from meshgen.mesh import Mesh, split_ref
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.integer_folding import entries
from meshgen.mlir.shard.grid import find_mesh, mesh_of
from meshgen.mlir.shard.sharding import fitted, sharding_of
from meshgen.mlir.shard.sharding_ops import (
    GridShapeOp,
    NeighborsLinearIndicesOp,
    ProcessLinearIndexOp,
    ProcessMultiIndexOp,
    ShardShapeOp,
)
from meshgen.spec import Sharding

INDEX = TensorType((), "i64")
Number = int | Value  # an integer that is known during import, or a value that the program computes


class Indices:
    """Arithmetic on integers and 0-d values, which is constant-folded if both operands are integers."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def value(self, number: Number) -> Value:
        return self.builder.constant(number, INDEX) if isinstance(number, int) else number

    def apply(self, op: str, left: Number, right: Number) -> Number:
        """Return `left OP right`.

        `op` is add, subtract, multiply, divide, remainder, maximum or minimum. For divide and remainder, the operands
        must be nonnegative.
        """
        if isinstance(left, int) and isinstance(right, int):
            return _ARITHMETIC[op](left, right)
        return self.builder.apply(op, self.value(left), self.value(right))

    def product(self, numbers: Sequence[Number]) -> Number:
        product: Number = 1
        for number in numbers:
            product = number if product == 1 else self.apply("multiply", product, number)
        return product

    def joined(self, coordinates: Sequence[Number], sizes: Sequence[Number]) -> Number:
        """Return the row-major linear index of `coordinates` in an array of `sizes`."""
        linear_index: Number = 0
        for coordinate, size in zip(coordinates, sizes, strict=True):
            linear_index = (
                self.apply("add", self.apply("multiply", linear_index, size), coordinate)
                if linear_index != 0
                else coordinate
            )
        return linear_index

    def split(self, linear_index: Number, sizes: Sequence[Number]) -> list[Number]:
        """Return the coordinates of the row-major linear index `linear_index` in an array of `sizes`."""
        coordinates: list[Number] = []
        for size in reversed(sizes):
            coordinates.append(self.apply("remainder", linear_index, size))
            linear_index = self.apply("divide", linear_index, size)
        return coordinates[::-1]

    def entry(self, table: Sequence[int], index: Number) -> Number:
        """Return element `index` of `table`, a list of constants."""
        if isinstance(index, int):
            return table[index]
        return self.builder.entry(np.asarray(table, np.int64), "i64", index)


_ARITHMETIC = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "maximum": max,
    "minimum": min,
}


def _queried_axes(importer: Importer, op: Operation, mesh: Mesh, listed: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the axes with the numbers `listed`, or of all axes if `listed` is empty. Reports unknown
    numbers.
    """
    for axis in listed:
        if not 0 <= axis < len(mesh.axes):
            hint = f"its axes are numbered 0 to {len(mesh.axes) - 1}"
            importer.fault("MG0202", f"{op.name}: axis {axis} is not in {mesh}", op, hint)
    if len(set(listed)) < len(listed):
        importer.fault("MG0203", f"{op.name}: an axis is listed more than once in {list(listed)}", op)
    names = tuple(mesh.names[axis] for axis in listed if 0 <= axis < len(mesh.axes))
    return names if listed else mesh.names


def _bind(importer: Importer, op: Operation, numbers: Sequence[Number]) -> None:
    """Bind the results of `op` to `numbers`. Reports a fault if there are more or fewer results."""
    if len(numbers) != len(op.results):
        importer.fault("MG0104", f"{op.name} has {len(numbers)} indices, but {len(op.results)} results", op)
        numbers = [0] * len(op.results)
    importer.bind_results(op, map(Indices(Builder(importer, op)).value, numbers))


def _mesh_axis_size(importer: Importer, op: Operation, mesh: Mesh, axis: str) -> Number:
    """Return the size of a mesh axis, or a value that computes it at run time if the grid leaves the size open."""
    size = mesh.axis(axis).size
    if size is not None:
        return size
    if importer.reading.is_on_several or mesh is not importer.reading.module.mesh:
        importer.fault("MG0201", f"{op.name}: the size of mesh axis '{axis}' is unknown", op, "give it with --mesh")
        return 1
    return Builder(importer, op).emit("axis_size", [], INDEX, axes=(axis,))


def _process_index(builder: Builder, axes: tuple[str, ...]) -> Value:
    """Return the index of the device in its group over `axes`, as an i64 value."""
    return builder.convert(builder.process_index(axes), "i64")


def import_grid_shape(importer: Importer, op: Operation) -> None:
    assert isinstance(op, GridShapeOp)
    mesh = find_mesh(importer, op.grid.string_value(), op) or importer.reading.module.mesh
    axes = _queried_axes(importer, op, mesh, op.axes.get_values())
    _bind(importer, op, [_mesh_axis_size(importer, op, mesh, axis) for axis in axes])


def import_process_multi_index(importer: Importer, op: Operation) -> None:
    assert isinstance(op, ProcessMultiIndexOp)
    mesh = mesh_of(importer, op)
    axes = _queried_axes(importer, op, mesh, op.axes.get_values())
    _bind(importer, op, [_process_index(Builder(importer, op), (axis,)) for axis in axes])


def import_process_linear_index(importer: Importer, op: Operation) -> None:
    assert isinstance(op, ProcessLinearIndexOp)
    mesh = mesh_of(importer, op)
    _bind(importer, op, [_process_index(Builder(importer, op), mesh.names)])


def import_neighbors(importer: Importer, op: Operation) -> None:
    """Import the linear indices of the previous and next device in the group over `split_axes`.

    The index is -1 at the ends of the group, which have no neighbor on that side.
    """
    assert isinstance(op, NeighborsLinearIndicesOp)
    mesh = mesh_of(importer, op)
    listed, device = op.split_axes.get_values(), importer.values(op.device)
    axes = _queried_axes(importer, op, mesh, listed)
    if len(device) != len(mesh.axes):
        message = f"{op.name}: the device has {len(device)} coordinates, but {mesh} has {len(mesh.axes)} axes"
        importer.fault("MG0104", message, op)
    if not listed:
        importer.fault("MG0104", f"{op.name}: split_axes must name an axis", op, "name the axes, outer to inner")
    if not axes or not listed or len(device) != len(mesh.axes):
        _bind(importer, op, [-1, -1])
        return
    sizes = [_mesh_axis_size(importer, op, mesh, axis) for axis in mesh.names]
    positions = [mesh.names.index(axis) for axis in axes]
    index, group = Indices(Builder(importer, op)), [sizes[position] for position in positions]
    here = index.joined([device[position] for position in positions], group)
    neighbors: list[Number] = []
    for step, end in (("subtract", 0), ("add", index.apply("subtract", index.product(group), 1))):
        coordinates: list[Number] = list(device)
        for position, coordinate in zip(positions, index.split(index.apply(step, here, 1), group), strict=True):
            coordinates[position] = coordinate
        is_last = index.builder.compare("EQ", index.value(here), index.value(end))
        there = index.value(index.joined(coordinates, sizes))
        neighbors.append(index.builder.select(is_last, index.value(-1), there))
    _bind(importer, op, neighbors)


def import_shard_shape(importer: Importer, op: Operation) -> None:
    """Import `shard.shard_shape`: the size of each dim of a device's tile, including the halo."""
    assert isinstance(op, ShardShapeOp)
    sharding = sharding_of(importer, op.sharding)
    mesh = importer.reading.mesh_of(sharding or Sharding(()))
    dims = _numbers_or_values(importer, op, op.dims, op.dims_dynamic)
    device = _numbers_or_values(importer, op, op.device, op.device_dynamic)
    if sharding is None:
        _bind(importer, op, [0] * len(op.results))
        return
    if _shape_faults(importer, op, sharding, dims, device, mesh):
        _bind(importer, op, [0] * len(op.results))
        return
    sharding = fitted(sharding, len(dims))
    index = Indices(Builder(importer, op))
    sizes = {axis: _mesh_axis_size(importer, op, mesh, axis) for axis in mesh.names}
    _bind(importer, op, [_owned_rows(index, sharding, dim, size, device, sizes) for dim, size in enumerate(dims)])


def _numbers_or_values(
    importer: Importer, op: Operation, static: DenseArrayBase[I64], dynamic: Sequence[SSAValue]
) -> list[Number]:
    """Return the entries of a list of indices: integers for static entries, values for dynamic ones."""
    count = static.get_values().count(DYNAMIC_INDEX)
    if count != len(dynamic):
        message = f"{op.name} has {count} dynamic entries, but {len(dynamic)} operands for them"
        importer.fault("MG0104", message, op)
        return [0] * len(static)
    return [entry if isinstance(entry, int) else importer.value(entry) for entry in entries(static, dynamic) if entry is not None]  # fmt: skip


def _shape_faults(importer: Importer, op: ShardShapeOp, sharding: Sharding, dims: Sequence[Number],
                  device: Sequence[Number], mesh: Mesh) -> bool:  # fmt: skip
    """Report faults if the sharding does not fit the shape `dims`, or if `device` is not a device of the mesh.

    Returns whether there are any.
    """
    before = len(importer.reading.faults)
    if sharding.rank > len(dims):
        message = f"{op.name}: the sharding has {sharding.rank} lists of axes, but there are {len(dims)} dims"
        importer.fault("MG0204", message, op, "give at most one list per dim")
    else:
        shape = [size if isinstance(size, int) else None for size in dims]
        importer.reading.refuse(fitted(sharding, len(dims)).faults(shape, mesh), op)
    if len(device) != len(mesh.axes):
        message = f"{op.name}: the device has {len(device)} coordinates, but {mesh} has {len(mesh.axes)} axes"
        importer.fault("MG0104", message, op)
        return True
    for axis, coordinate in zip(mesh.axes, device, strict=True):
        if isinstance(coordinate, int) and not 0 <= coordinate < (axis.size or coordinate + 1):
            message = (
                f"{op.name}: coordinate {coordinate} of the device is outside axis '{axis.name}' of size {axis.size}"
            )
            importer.fault("MG0104", message, op, f"coordinates along it are 0 to {(axis.size or 1) - 1}")
    return len(importer.reading.faults) > before


def _owned_rows(index: Indices, sharding: Sharding, dim: int, size: Number, device: Sequence[Number],
          sizes: Mapping[str, Number]) -> Number:  # fmt: skip
    """Return the size of dimension `dim` of a device's tile, including the halo.

    If the sharding has offsets, they determine it. Otherwise all tiles have the same size, except that the last ones
    end where the dim ends. `sizes` has the sizes of all mesh axes in order.
    """
    axes = sharding.dims[dim]
    if not axes:
        return size
    parts: list[Number] = [split_ref(axis)[2] or sizes[axis] for axis in axes]
    here = index.joined([_coordinate(index, device, axis, sizes) for axis in axes], parts)
    if sharding.offsets and sharding.offsets[dim]:
        bounds = sharding.offsets[dim]
        return index.entry([stop - start for start, stop in itertools.pairwise(bounds)], here)
    count = index.product(parts)
    tile = index.apply("divide", index.apply("add", size, index.apply("subtract", count, 1)), count)
    left = index.apply("subtract", size, index.apply("multiply", here, tile))
    rows = index.apply("maximum", index.apply("minimum", left, tile), 0)
    return index.apply("add", rows, sum(sharding.halo[dim]) if sharding.halo else 0)


def _coordinate(index: Indices, device: Sequence[Number], ref: str, sizes: Mapping[str, Number]) -> Number:
    """Return the coordinate of `device` along the axis or sub-axis `ref`."""
    name, pre, size = split_ref(ref)
    axis_coordinate = device[list(sizes).index(name)]
    if size is None:
        return axis_coordinate
    return index.split(axis_coordinate, [pre, size, index.apply("divide", sizes[name], pre * size)])[1]


PART = Dialect(
    importers={
        "shard.grid_shape": import_grid_shape,
        "shard.process_multi_index": import_process_multi_index,
        "shard.process_linear_index": import_process_linear_index,
        "shard.neighbors_linear_indices": import_neighbors,
        "shard.shard_shape": import_shard_shape,
    }
)
