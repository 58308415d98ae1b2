"""Conversion between global arrays and the buffers of all ranks.

Padding is filled with poison (NaN, or a bit pattern for integers), so that a read of padding gives a visibly wrong
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.ccl.simulated import reduce_arrays
from meshgen.errors import Diagnostic, NumbersDiffer
from meshgen.ir.graph import DTYPES, dtype_name
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import Array, neutral, poisoned
from meshgen.spec import Sharding

Shards = list[Array]  # one array per rank


def shard_array(array: Array, sharding: Sharding, mesh: Mesh, rank: int) -> Array:
    """Return the buffer of one rank.

    It contains the rank's range of the global array, including its halo, and poison elsewhere.

    If the tensor is partial, the first device of each reduction group gets the value, and the other devices get the
    neutral element of the reduction.
    """
    source = _held(array, sharding, mesh, rank)
    local = sharding.local_shape(array.shape, mesh)
    box = sharding.ranges(array.shape, mesh, rank)
    if source.shape == local and all(b - a == n for (a, b), n in zip(box, local, strict=True)):
        return source[tuple(slice(*part) for part in box)]
    buffer = poisoned(local, dtype_name(array.dtype))
    halo = sharding.halo or ((0, 0),) * sharding.rank
    slices: list[slice] = []
    for dim, (start, stop) in enumerate(box):
        origin = sharding.core(dim, array.shape[dim], mesh, rank)[0] - halo[dim][0]
        slices.append(slice(start - origin, stop - origin))
    buffer[tuple(slices)] = source[tuple(slice(*part) for part in box)]
    return buffer


def _held(array: Array, sharding: Sharding, mesh: Mesh, rank: int) -> Array:
    """Return the array, or the neutral element for a rank that is not the first along a partial axis.

    If partial axes have different reductions, the innermost axis that applies decides, since it is reduced first.
    """
    for axis, kind in reversed(sharding.partial):
        if mesh.coordinate(rank, axis):
            return np.broadcast_to(neutral(kind, dtype_name(array.dtype)), array.shape)
    return array


def shard_all(array: Array, sharding: Sharding, mesh: Mesh) -> Shards:
    """Return the buffers of all ranks. Ranks with equal shards share one array object."""
    shard_of: dict[tuple[Any, ...], Array] = {}
    shards: Shards = []
    for rank in range(mesh.size):
        is_first = tuple(mesh.coordinate(rank, axis) == 0 for axis in sharding.partial_axes)
        index = tuple(mesh.index(rank, axes) for axes in sharding.dims)
        if (index, is_first) not in shard_of:
            shard_of[index, is_first] = shard_array(array, sharding, mesh, rank)
        shards.append(shard_of[index, is_first])
    return shards


def assemble(shards: Sequence[Array], sharding: Sharding, shape: Sequence[int], mesh: Mesh, *,
             tolerance: float | Array | None = 0.0, name: str = "value") -> Array:  # fmt: skip
    """Return the global array of all ranks' buffers. Partial values are reduced; halos and padding are dropped.

    Args:
        tolerance: allowed difference of replicas, as a number or an array of `shape`. None disables the comparison.
    Raises:
        NumbersDiffer: MG0605, two replicas differ by more than `tolerance`.
    """
    dtype = dtype_name(shards[0].dtype)
    result = np.empty(tuple(shape), DTYPES[dtype])
    writer: dict[tuple[int, ...], int] = {}
    for first in _first_of_partial(sharding, mesh):
        key = tuple(mesh.index(first, axes) for axes in sharding.dims)
        reduced = _reduced_summands(shards, sharding, mesh, first, dtype)
        global_index = tuple(slice(*sharding.core(d, n, mesh, first)) for d, n in enumerate(shape))
        core = reduced[_own_rows(sharding, shape, mesh, first)]
        if key not in writer:
            writer[key] = first
            result[global_index] = core
        elif tolerance is not None and shards[first] is not shards[writer[key]]:
            _compare_replicas(
                result[global_index], core, _tolerance_at(tolerance, global_index), (writer[key], first), name
            )
    return result


def _own_rows(sharding: Sharding, shape: Sequence[int], mesh: Mesh, rank: int) -> tuple[slice, ...]:
    """Return the slices of a rank's buffer that hold the rank's tile without its halo."""
    slices: list[slice] = []
    for dim, size in enumerate(shape):
        start, stop = sharding.core(dim, size, mesh, rank)
        before = sharding.halo[dim][0] if sharding.halo else 0
        slices.append(slice(before, before + stop - start))
    return tuple(slices)


def _first_of_partial(sharding: Sharding, mesh: Mesh) -> list[int]:
    """Return the ranks at coordinate 0 along all partial axes.

    Each of them is the first rank of a reduction group.
    """
    return [r for r in range(mesh.size) if not any(mesh.coordinate(r, axis) for axis in sharding.partial_axes)]


def _reduced_summands(shards: Sequence[Array], sharding: Sharding, mesh: Mesh, first: int, dtype: str) -> Array:
    """Reduce the partial summands of the group whose first rank is `first`, one axis at a time, last axis first."""
    members = [first]
    for axis in sharding.partial_axes:
        members = [r for member in members for r in _line(mesh, axis, member)]
    values = [shards[r] for r in members]
    for axis, kind in reversed(sharding.partial):
        n = mesh.axis_size(axis)
        values = [reduce_arrays(values[i : i + n], kind, dtype) for i in range(0, len(values), n)]
    return values[0]


def _line(mesh: Mesh, axis: str, rank: int) -> tuple[int, ...]:
    return next(group for group in mesh.groups((axis,)) if rank in group)


def _tolerance_at(tolerance: float | Array, where: tuple[slice, ...]) -> float | Array:
    return tolerance[where] if isinstance(tolerance, np.ndarray) and tolerance.ndim else tolerance


def _compare_replicas(left: Array, right: Array, tolerance: float | Array, ranks: tuple[int, int], name: str) -> None:
    """Raise NumbersDiffer MG0605 unless two replicas are equal, both NaN, or within the tolerance."""
    wide = [x.astype(np.complex128 if np.iscomplexobj(x) else np.float64) for x in (left, right)]
    with np.errstate(all="ignore"):
        error = np.where((wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1])), 0.0, np.abs(wide[0] - wide[1]))
    differs = ~(error <= tolerance)
    if differs.any():
        index = tuple(int(i) for i in np.argwhere(differs)[0])
        hint = (
            ""
            if left.ndim
            else "a value without dims must be equal on all devices; give it a dim of size 1 to get the value of each device"
        )
        raise NumbersDiffer(
            Diagnostic(
                "MG0605",
                f"replicas of '{name}' differ: rank {ranks[0]} has {wide[0][index]} and rank {ranks[1]} has "
                f"{wide[1][index]} at local index {list(index)} ({int(differs.sum())} of {differs.size} elements differ)",
                hint=hint,
            )
        )
