"""Reshards without communication: dropping a halo, slicing at offsets."""

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
    """A device's buffer under `target` as a slice of the one that it has; None if rows are missing.

    The buffer's rows after the device's range are padding, as everywhere.

    Args:
        value: the buffer under `source`.
        shape: global.
    """
    mesh, sizes = builder.mesh, tuple(shape)
    if exchange(source, target, sizes, mesh).elements:
        return None
    taken = target.local_shape(sizes, mesh)
    ends = zip(splits_of(source, sizes), splits_of(target, sizes), strict=True)
    starts = [_starts(*dim, mesh) for dim in ends]
    low = [max(0, -int(table.min())) for _, table in starts]
    high = [
        max(0, int(table.max()) + rows - held)
        for (_, table), rows, held in zip(starts, taken, value.type.sizes, strict=True)
    ]
    if any(low) or any(high):
        value = builder.pad(value, builder.splat(0, value.type.with_shape(())), low, high)
    result = value.type.with_shape(taken)
    if all(table.min() == table.max() for _, table in starts):
        first = [int(table[0]) + before for (_, table), before in zip(starts, low, strict=True)]
        return builder.slice(value, first, [a + n for a, n in zip(first, taken, strict=True)])
    places = [table_entry(builder, axes, table + before) for (axes, table), before in zip(starts, low, strict=True)]
    return builder.emit("dynamic_slice", [value, *places], result, slice_sizes=taken)


def cut(builder: LocalBuilder, value: Value, sharding: Sharding, shape: Sequence[int]) -> Value:
    """The device's tile of a value of global `shape` that it holds whole."""
    canonical = sharding.canonical(builder.mesh)
    if canonical.halo or any(canonical.offsets):
        found = cut_locally(builder, value, Sharding.replicated(canonical.rank), canonical.without_partial(), shape)
        assert found is not None, "a device that holds the whole value has all rows"
        value = found
    else:
        for dim, axes in enumerate(canonical.dims):
            if axes:
                sizes = [*value.type.sizes]
                sizes[dim] = canonical.tile(dim, shape[dim], builder.mesh)
                value = builder.emit("all_slice", [value], value.type.with_shape(sizes), axes=axes, dim=dim)
    for kind, run in itertools.groupby(
        canonical.partial, lambda pair: pair[1]
    ):  # kinds do not commute: outer ones first
        axes = tuple(axis for axis, _ in run)
        value = builder.emit("to_partial", [value], value.type, axes=axes, kind=kind)
    return value


def _starts(held: Split, wanted: Split, mesh: Mesh) -> tuple[tuple[str, ...], np.ndarray]:
    """The first row of a device's range in its buffer, per device number over the axes."""
    parts = AxisParts.of(mesh, [*held.axes, *wanted.axes])
    axes = parts.cover((*held.axes, *wanted.axes))
    grid = grid_of(mesh, axes)
    first = [grid.tiles(split)[0][grid.index(split.axes)] - split.halo[0] for split in (held, wanted)]
    table = np.zeros(mesh.group_size(axes), np.int64)
    table[grid.index(axes)] = first[1] - first[0]
    return axes, table


def table_entry(builder: LocalBuilder, axes: tuple[str, ...], table: np.ndarray) -> Value:
    """The entry of a table that belongs to this device."""
    scalar = TensorType((), INDEX)
    if table.min() == table.max():
        return builder.splat(int(table[0]), scalar)
    values = builder.emit("constant", [], TensorType(table.shape, INDEX), value=table.astype(np.int32))
    row = builder.emit(
        "dynamic_slice", [values, builder.process_index(axes)], TensorType((1,), INDEX), slice_sizes=(1,)
    )
    return builder.reshape(row, ())
