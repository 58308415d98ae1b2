"""Conversion between global arrays and the buffers of all ranks.

Padding is poison (NaN, or a bit pattern for integers), so that reading it gives a detectably wrong result.
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
    """The buffer of one rank: its range of the global array, halo included, and poison elsewhere.

    A value that is partial over axes is held by the first device of each group; the others hold the kind's
    neutral element.
    """
    held = _held(array, sharding, mesh, rank)
    local = sharding.local_shape(array.shape, mesh)
    box = sharding.ranges(array.shape, mesh, rank)
    if held.shape == local and all(b - a == n for (a, b), n in zip(box, local, strict=True)):
        return held[tuple(slice(*part) for part in box)]
    buffer = poisoned(local, dtype_name(array.dtype))
    halo = sharding.halo or ((0, 0),) * sharding.rank
    place: list[slice] = []
    for dim, (start, stop) in enumerate(box):
        origin = sharding.core(dim, array.shape[dim], mesh, rank)[0] - halo[dim][0]
        place.append(slice(start - origin, stop - origin))
    buffer[tuple(place)] = held[tuple(slice(*part) for part in box)]
    return buffer


def _held(array: Array, sharding: Sharding, mesh: Mesh, rank: int) -> Array:
    """The array, or the neutral element for a rank that is not first along a partial axis.

    Where kinds differ the innermost such axis, the last, decides: the values along it are reduced first, to the one that its
    first rank holds.
    """
    for axis, kind in reversed(sharding.partial):
        if mesh.coordinate(rank, axis):
            return np.broadcast_to(neutral(kind, dtype_name(array.dtype)), array.shape)
    return array


def shard_all(array: Array, sharding: Sharding, mesh: Mesh) -> Shards:
    """The buffers of all ranks; ranks that hold the same part get the same object."""
    made: dict[tuple[Any, ...], Array] = {}
    found: Shards = []
    for rank in range(mesh.size):
        first = tuple(mesh.coordinate(rank, axis) == 0 for axis in sharding.partial_axes)
        index = tuple(mesh.index(rank, axes) for axes in sharding.dims)
        if (index, first) not in made:
            made[index, first] = shard_array(array, sharding, mesh, rank)
        found.append(made[index, first])
    return found


def assemble(shards: Sequence[Array], sharding: Sharding, shape: Sequence[int], mesh: Mesh, *,
             tolerance: float | Array | None = 0.0, name: str = "value") -> Array:  # fmt: skip
    """The global array from all ranks' buffers: partial values are reduced, halos and padding are dropped.

    Args:
        tolerance: how much replicas may differ, a number or an array of `shape`; None: they are not compared.
    Raises:
        NumbersDiffer: MG0605, two replicas differ by more than that.
    """
    dtype = dtype_name(shards[0].dtype)
    result = np.empty(tuple(shape), DTYPES[dtype])
    writer: dict[tuple[int, ...], int] = {}
    for first in _first_of_partial(sharding, mesh):
        key = tuple(mesh.index(first, axes) for axes in sharding.dims)
        piece = _reduced_summands(shards, sharding, mesh, first, dtype)
        where = tuple(slice(*sharding.core(d, n, mesh, first)) for d, n in enumerate(shape))
        own = piece[_own_rows(sharding, shape, mesh, first)]
        if key not in writer:
            writer[key] = first
            result[where] = own
        elif tolerance is not None and shards[first] is not shards[writer[key]]:
            _compare_replicas(result[where], own, _tolerance_at(tolerance, where), (writer[key], first), name)
    return result


def _own_rows(sharding: Sharding, shape: Sequence[int], mesh: Mesh, rank: int) -> tuple[slice, ...]:
    """The range in a rank's buffer of the rows that it owns."""
    found: list[slice] = []
    for dim, size in enumerate(shape):
        start, stop = sharding.core(dim, size, mesh, rank)
        before = sharding.halo[dim][0] if sharding.halo else 0
        found.append(slice(before, before + stop - start))
    return tuple(found)


def _first_of_partial(sharding: Sharding, mesh: Mesh) -> list[int]:
    """Ranks at coordinate 0 along all partial axes: one for each reduction."""
    return [r for r in range(mesh.size) if not any(mesh.coordinate(r, axis) for axis in sharding.partial_axes)]


def _reduced_summands(shards: Sequence[Array], sharding: Sharding, mesh: Mesh, first: int, dtype: str) -> Array:
    """The summands of the group of `first` reduced, axis by axis from the last, each by its kind."""
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
    """Replicas agree: equal, both NaN, or within the tolerance."""
    wide = [x.astype(np.complex128 if np.iscomplexobj(x) else np.float64) for x in (left, right)]
    with np.errstate(all="ignore"):
        error = np.where((wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1])), 0.0, np.abs(wide[0] - wide[1]))
    bad = ~(error <= tolerance)
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        hint = (
            ""
            if left.ndim
            else "a value without dims is the same on all devices; give it one, of size 1, to have each device's"
        )
        raise NumbersDiffer(
            Diagnostic(
                "MG0605",
                f"replicas of '{name}' differ: rank {ranks[0]} has {wide[0][place]} and rank {ranks[1]} has "
                f"{wide[1][place]} at local index {list(place)} ({int(bad.sum())} of {bad.size} elements differ)",
                hint=hint,
            )
        )
