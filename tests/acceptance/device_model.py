"""Reference implementations of collectives in NumPy, written only from the dialect documents; nothing here uses
meshgen.

A distributed tensor is a dictionary from device coordinates to local arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Device = tuple[int, ...]
Tensors = dict[Device, Array]
UNDEFINED = None


def devices(shape: Sequence[int]) -> list[Device]:
    """Return the coordinates of all devices of a grid; the last coordinate changes fastest."""
    return list(itertools.product(*map(range, shape)))


def groups(shape: Sequence[int], axes: Sequence[int]) -> Iterator[list[Device]]:
    """Yield the device groups along `axes`. All devices of a group have equal coordinates along the other axes. Their
    order follows `axes` from outer to inner.
    """
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    for fixed in itertools.product(*(range(shape[axis]) for axis in rest)):
        group: list[Device] = []
        for moving in itertools.product(*(range(shape[axis]) for axis in axes)):
            coordinates = dict(zip([*rest, *axes], [*fixed, *moving], strict=True))
            group.append(tuple(coordinates[axis] for axis in range(len(shape))))
        yield group


def member(group: Sequence[Device], axes: Sequence[int], coordinates: Sequence[int]) -> Device:
    """Return the device of the group whose coordinates along `axes` are `coordinates`."""
    return next(device for device in group if [device[axis] for axis in axes] == list(coordinates))


def per_group(x: Tensors, shape: Sequence[int], axes: Sequence[int],
              run: Callable[[list[Device]], list[Array | None]]) -> dict[Device, Array | None]:  # fmt: skip
    results: dict[Device, Array | None] = {}
    for group in groups(shape, axes):
        results.update(zip(group, run(group), strict=True))
    return {device: results[device] for device in x}


def parts(x: Array, count: int, dim: int) -> list[Array]:
    return np.split(x, count, dim)


def all_gather(x: Tensors, shape: Sequence[int], axes: Sequence[int], dim: int) -> dict[Device, Array | None]:
    return per_group(x, shape, axes, lambda group: [np.concatenate([x[d] for d in group], dim)] * len(group))


def all_reduce(
    x: Tensors, shape: Sequence[int], axes: Sequence[int], ufunc: Any, dtype: Any
) -> dict[Device, Array | None]:
    return per_group(x, shape, axes, lambda group: [reduce(ufunc, (x[d].astype(dtype) for d in group))] * len(group))


def all_slice(x: Tensors, shape: Sequence[int], axes: Sequence[int], dim: int) -> dict[Device, Array | None]:
    return per_group(x, shape, axes, lambda group: [parts(x[d], len(group), dim)[i] for i, d in enumerate(group)])


def reduce_scatter(x: Tensors, shape: Sequence[int], axes: Sequence[int], ufunc: Any, dtype: Any, dim: int
                   ) -> dict[Device, Array | None]:  # fmt: skip
    return per_group(x, shape, axes, lambda g: [*parts(reduce(ufunc, (x[d].astype(dtype) for d in g)), len(g), dim)])


def all_to_all(
    x: Tensors, shape: Sequence[int], axes: Sequence[int], split: int, concat: int
) -> dict[Device, Array | None]:
    def run(group: list[Device]) -> list[Array | None]:
        split_operands = [parts(x[d], len(group), split) for d in group]
        return [np.concatenate([slices[i] for slices in split_operands], concat) for i in range(len(group))]

    return per_group(x, shape, axes, run)


def broadcast(x: Tensors, shape: Sequence[int], axes: Sequence[int], root: Sequence[int]) -> dict[Device, Array | None]:
    return per_group(x, shape, axes, lambda group: [x[member(group, axes, root)]] * len(group))


def scatter(
    x: Tensors, shape: Sequence[int], axes: Sequence[int], root: Sequence[int], dim: int
) -> dict[Device, Array | None]:
    return per_group(x, shape, axes, lambda group: [*parts(x[member(group, axes, root)], len(group), dim)])


def at_root(x: Tensors, shape: Sequence[int], axes: Sequence[int], root: Sequence[int],
            results: dict[Device, Array | None]) -> dict[Device, Array | None]:  # fmt: skip
    """Return `results` on the root device of each group, and None on all other devices. `gather` and `reduce` leave
    their results undefined there.
    """
    return {d: results[d] if [d[axis] for axis in axes] == list(root) else UNDEFINED for d in x}


def send_recv(x: Tensors, shape: Sequence[int], axes: Sequence[int], source: Sequence[int], destination: Sequence[int]
              ) -> dict[Device, Array | None]:  # fmt: skip
    def run(group: list[Device]) -> list[Array | None]:
        return [
            x[member(group, axes, source)] if [d[a] for a in axes] == list(destination) else UNDEFINED for d in group
        ]

    return per_group(x, shape, axes, run)


def shift(x: Tensors, shape: Sequence[int], axis: int, offset: int, rotate: bool) -> dict[Device, Array | None]:
    """Move the tensor of the device with coordinate c along `axis` to the device with coordinate c + `offset`. The
    documents are ambiguous; this is how meshgen reads them.
    """
    results: dict[Device, Array | None] = {}
    for device in x:
        unwrapped_source = device[axis] - offset
        source = unwrapped_source % shape[axis] if rotate else unwrapped_source
        source_device = (*device[:axis], source, *device[axis + 1 :])
        results[device] = x[source_device] if 0 <= source < shape[axis] else UNDEFINED
    return results


def update_halo(
    x: Tensors, shape: Sequence[int], split: Sequence[Sequence[int]], halo: Sequence[tuple[int, int]]
) -> Tensors:
    """Refresh all halos from the global tensor, which consists of the cores. Halo elements outside of the global tensor
    keep their values.
    """
    shard_counts = [int(np.prod([shape[axis] for axis in axes], dtype=int)) for axes in split]
    core_shape = [rows - sum(pair) for rows, pair in zip(next(iter(x.values())).shape, halo, strict=True)]
    global_tensor = np.zeros([n * rows for n, rows in zip(shard_counts, core_shape, strict=True)], np.float32)
    updated = {device: array.copy() for device, array in x.items()}

    def origin(device: Device, dim: int) -> int:
        index = 0
        for axis in split[dim]:
            index = index * shape[axis] + device[axis]
        return index * core_shape[dim]

    for device, array in x.items():
        core_slices = tuple(slice(before, before + rows) for (before, _), rows in zip(halo, core_shape, strict=True))
        global_slices = tuple(
            slice(origin(device, dim), origin(device, dim) + rows) for dim, rows in enumerate(core_shape)
        )
        global_tensor[global_slices] = array[core_slices]
    for device, array in updated.items():
        for index in np.ndindex(array.shape):
            global_index = tuple(origin(device, dim) + i - halo[dim][0] for dim, i in enumerate(index))
            if all(0 <= i < size for i, size in zip(global_index, global_tensor.shape, strict=True)):
                array[index] = global_tensor[global_index]
    return updated
