"""Reshards without communication, such as removing a halo, or slicing at offsets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from meshgen.ccl.exchange import Split, exchange, grid_of, splits_of
from meshgen.ir.axis_parts import AxisParts
from meshgen.ir.graph import TensorType, Value
from meshgen.mesh import Mesh
from meshgen.sharding.partitioners.builder import INDEX, LocalBuilder
from meshgen.spec import Sharding


def cut_locally(
    builder: LocalBuilder, value: Value, source: Sharding, target: Sharding, shape: Sequence[int]
) -> Value | None:
    """Return a device's buffer under `target` as a slice of its buffer under `source`, or None if it lacks rows.

    As in all buffers, rows after the device's range are padding.

    Args:
        value: the buffer under `source`.
        shape: the global shape.
    """
    mesh, sizes = builder.mesh, tuple(shape)
    if exchange(source, target, sizes, mesh).elements:
        return None
    result_sizes = target.local_shape(sizes, mesh)
    split_pairs = zip(splits_of(source, sizes), splits_of(target, sizes), strict=True)
    starts = [_starts(*dim, mesh) for dim in split_pairs]
    low = [max(0, -int(table.min())) for _, table in starts]
    high = [
        max(0, int(table.max()) + rows - held)
        for (_, table), rows, held in zip(starts, result_sizes, value.type.sizes, strict=True)
    ]
    if any(low) or any(high):
        value = builder.pad(value, builder.splat(0, value.type.with_shape(())), low, high)
    result = value.type.with_shape(result_sizes)
    if all(table.min() == table.max() for _, table in starts):
        first = [int(table[0]) + before for (_, table), before in zip(starts, low, strict=True)]
        return builder.slice(value, first, [a + n for a, n in zip(first, result_sizes, strict=True)])
    offsets = [table_entry(builder, axes, table + before) for (axes, table), before in zip(starts, low, strict=True)]
    return builder.emit("dynamic_slice", [value, *offsets], result, slice_sizes=result_sizes)


def cut(builder: LocalBuilder, value: Value, sharding: Sharding, shape: Sequence[int]) -> Value:
    """Return the device's tile of a value with global `shape`, given the entire value."""
    canonical = sharding.canonical(builder.mesh)
    if canonical.halo or any(canonical.offsets):
        sliced = cut_locally(builder, value, Sharding.replicated(canonical.rank), canonical.without_partial(), shape)
        assert sliced is not None, "a device that holds the whole value has all rows"
        value = sliced
    else:
        for dim, axes in enumerate(canonical.dims):
            if axes:
                sizes = [*value.type.sizes]
                sizes[dim] = canonical.tile(dim, shape[dim], builder.mesh)
                value = builder.emit("all_slice", [value], value.type.with_shape(sizes), axes=axes, dim=dim)
    for kind, run in itertools.groupby(
        canonical.partial, lambda pair: pair[1]
    ):  # Kinds do not commute, so axes of different kinds need separate ops, the outer kinds first.
        axes = tuple(axis for axis, _ in run)
        value = builder.emit("to_partial", [value], value.type, axes=axes, kind=kind)
    return value


def _starts(source: Split, target: Split, mesh: Mesh) -> tuple[tuple[str, ...], np.ndarray]:
    """Return axes, and a table of the row in each device's buffer at which the device's `target` range starts.

    The table is indexed by the device's process index over these axes.
    """
    parts = AxisParts.of(mesh, [*source.axes, *target.axes])
    axes = parts.cover((*source.axes, *target.axes))
    grid = grid_of(mesh, axes)
    first = [grid.tiles(split)[0][grid.index(split.axes)] - split.halo[0] for split in (source, target)]
    table = np.zeros(mesh.group_size(axes), np.int64)
    table[grid.index(axes)] = first[1] - first[0]
    return axes, table


def table_entry(builder: LocalBuilder, axes: tuple[str, ...], table: np.ndarray) -> Value:
    """Return this device's entry of a table with one entry per device."""
    scalar = TensorType((), INDEX)
    if table.min() == table.max():
        return builder.splat(int(table[0]), scalar)
    values = builder.emit("constant", [], TensorType(table.shape, INDEX), value=table.astype(np.int32))
    row = builder.emit(
        "dynamic_slice", [values, builder.process_index(axes)], TensorType((1,), INDEX), slice_sizes=(1,)
    )
    return builder.reshape(row, ())
