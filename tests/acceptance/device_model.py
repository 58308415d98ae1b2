"""Collectives by their text alone, in NumPy: dictionaries from a device's coordinates to its tensor.

Nothing here uses meshgen: groups are made of coordinates as the documents describe them.
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
    """All devices of a grid, the last coordinate fastest."""
    return list(itertools.product(*map(range, shape)))


def groups(shape: Sequence[int], axes: Sequence[int]) -> Iterator[list[Device]]:
    """Devices with equal coordinates outside the axes, in the order that the axes induce, outer to inner."""
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    for fixed in itertools.product(*(range(shape[axis]) for axis in rest)):
        group: list[Device] = []
        for moving in itertools.product(*(range(shape[axis]) for axis in axes)):
            place = dict(zip([*rest, *axes], [*fixed, *moving], strict=True))
            group.append(tuple(place[axis] for axis in range(len(shape))))
        yield group


def member(group: Sequence[Device], axes: Sequence[int], place: Sequence[int]) -> Device:
    """The in-group device whose coordinates along the axes are `place`."""
    return next(device for device in group if [device[axis] for axis in axes] == list(place))


def per_group(x: Tensors, shape: Sequence[int], axes: Sequence[int],
              run: Callable[[list[Device]], list[Array | None]]) -> dict[Device, Array | None]:  # fmt: skip
    found: dict[Device, Array | None] = {}
    for group in groups(shape, axes):
        found.update(zip(group, run(group), strict=True))
    return {device: found[device] for device in x}


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
        pieces = [parts(x[d], len(group), split) for d in group]
        return [np.concatenate([piece[i] for piece in pieces], concat) for i in range(len(group))]

    return per_group(x, shape, axes, run)


def broadcast(x: Tensors, shape: Sequence[int], axes: Sequence[int], root: Sequence[int]) -> dict[Device, Array | None]:
    return per_group(x, shape, axes, lambda group: [x[member(group, axes, root)]] * len(group))


def scatter(
    x: Tensors, shape: Sequence[int], axes: Sequence[int], root: Sequence[int], dim: int
) -> dict[Device, Array | None]:
    return per_group(x, shape, axes, lambda group: [*parts(x[member(group, axes, root)], len(group), dim)])


def at_root(x: Tensors, shape: Sequence[int], axes: Sequence[int], root: Sequence[int],
            whole: dict[Device, Array | None]) -> dict[Device, Array | None]:  # fmt: skip
    """What `whole` says on the roots, nothing elsewhere: gather and reduce."""
    return {d: whole[d] if [d[axis] for axis in axes] == list(root) else UNDEFINED for d in x}


def send_recv(x: Tensors, shape: Sequence[int], axes: Sequence[int], source: Sequence[int], destination: Sequence[int]
              ) -> dict[Device, Array | None]:  # fmt: skip
    def run(group: list[Device]) -> list[Array | None]:
        return [
            x[member(group, axes, source)] if [d[a] for a in axes] == list(destination) else UNDEFINED for d in group
        ]

    return per_group(x, shape, axes, run)


def shift(x: Tensors, shape: Sequence[int], axis: int, offset: int, rotate: bool) -> dict[Device, Array | None]:
    """The device at coordinate c + offset gets what the one at c has: meshgen's reading of the documents."""
    found: dict[Device, Array | None] = {}
    for device in x:
        place = device[axis] - offset
        source = place % shape[axis] if rotate else place
        there = (*device[:axis], source, *device[axis + 1 :])
        found[device] = x[there] if 0 <= source < shape[axis] else UNDEFINED
    return found


def update_halo(
    x: Tensors, shape: Sequence[int], split: Sequence[Sequence[int]], halo: Sequence[tuple[int, int]]
) -> Tensors:
    """Cores side by side are the whole tensor, of which every device takes its box; what lies outside stays as it was."""
    count = [int(np.prod([shape[axis] for axis in axes], dtype=int)) for axes in split]
    core = [rows - sum(pair) for rows, pair in zip(next(iter(x.values())).shape, halo, strict=True)]
    whole = np.zeros([n * rows for n, rows in zip(count, core, strict=True)], np.float32)
    found = {device: array.copy() for device, array in x.items()}

    def origin(device: Device, dim: int) -> int:
        place = 0
        for axis in split[dim]:
            place = place * shape[axis] + device[axis]
        return place * core[dim]

    for device, array in x.items():
        here = tuple(slice(before, before + rows) for (before, _), rows in zip(halo, core, strict=True))
        there = tuple(slice(origin(device, dim), origin(device, dim) + rows) for dim, rows in enumerate(core))
        whole[there] = array[here]
    for device, array in found.items():
        for place in np.ndindex(array.shape):
            at = tuple(origin(device, dim) + i - halo[dim][0] for dim, i in enumerate(place))
            if all(0 <= i < size for i, size in zip(at, whole.shape, strict=True)):
                array[place] = whole[at]
    return found
