"""Conversion of StableHLO's replica groups and source-target pairs to mesh axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.mesh import Mesh

Groups = Sequence[Sequence[int]]
Pairs = Sequence[tuple[int, int]]


def are_uneven(groups: Groups, mesh: Mesh) -> bool:
    """Whether the groups cover each device of the mesh exactly once but differ in size."""
    members = sorted(device for group in groups for device in group)
    return len({len(group) for group in groups}) > 1 and members == list(range(mesh.size))


def group_faults(groups: Groups, mesh: Mesh) -> str:
    """Return why the replica groups are invalid on a mesh, or "" if equally large groups cover each device once."""
    members = [device for group in groups for device in group]
    sizes = sorted({len(group) for group in groups})
    if len(sizes) > 1:
        return f"replica groups have different sizes, {' and '.join(map(str, sizes))}"
    if sorted(members) != list(range(mesh.size)):
        return f"replica groups name {len(members)} devices {members[:16]}, but {mesh} has devices 0 to {mesh.size - 1}, each to be named once"
    return ""


def device_groups(groups: Groups, replicas: int, partitions: int, numbers: str) -> list[tuple[int, ...]]:
    """Convert groups of StableHLO ids to groups of devices. Device r * partitions + p is partition p of replica r.

    Args:
        numbers: the meaning of an id. `replicas`: a replica, once per partition. `partitions`: a partition, once per
            replica. `both`: a replica with all its partitions, ordered by partition first, as StableHLO orders them.
            `devices`: a device.
    """
    if numbers == "replicas":
        return [tuple(r * partitions + p for r in group) for p in range(partitions) for group in groups]
    if numbers == "partitions":
        return [tuple(r * partitions + p for p in group) for r in range(replicas) for group in groups]
    if numbers == "both":
        return [tuple(r * partitions + p for p in range(partitions) for r in group) for group in groups]
    return [tuple(group) for group in groups]


def find_axes(groups: Groups, mesh: Mesh) -> tuple[str, ...] | None:
    """Return the axes, outer to inner, whose device groups are `groups` in any order, or None if there are none.

    Args:
        groups: groups of equal size that cover each device of the mesh once.
    """
    first = next(list(group) for group in groups if 0 in group)
    axes: list[str] = []
    for count, stride in strides_of(first):
        dim_axes = axes_along(count, stride, mesh)
        if dim_axes is None:
            return None
        axes = [*dim_axes, *axes]
    sorted_groups = sorted(tuple(group) for group in groups)
    return tuple(axes) if sorted(mesh.groups(axes)) == sorted_groups else None


def strides_of(group: Sequence[int]) -> list[tuple[int, int]]:
    """Return the grid that the device ids of a group form, as (count, stride) per dim, inner to outer.

    The group starts with device 0: [0, 1, 4, 5] -> [(2, 1), (2, 4)].
    """
    strides: list[tuple[int, int]] = []
    covered = 1
    while covered < len(group):
        stride, count = group[covered], 1
        while covered * count < len(group) and group[covered * count] == stride * count:
            count += 1
        strides.append((count, stride))
        covered *= count
    return strides


def axes_along(count: int, stride: int, mesh: Mesh) -> list[str] | None:
    """Return the axes or sub-axes, outer to inner, along which `count` devices at distance `stride` are adjacent.

    Returns None if no axes of the mesh have such groups.
    """
    axes: list[str] = []
    if stride < 1:
        return None
    minor_devices = 1  # number of devices along all axes that are minor to the current one
    for axis, size in zip(reversed(mesh.names), reversed(mesh.sizes), strict=True):
        inner = stride // minor_devices
        if count > 1 and size > 1 and stride % minor_devices == 0 and inner < size:
            length = min(count, size // inner)
            if size % (inner * length) or count % length:
                return None
            axes.insert(0, axis if length == size else f"{axis}:({size // (inner * length)}){length}")
            stride, count = stride * length, count // length
        minor_devices *= size
    return axes if count == 1 else None


def axes_of_size(count: int, mesh: Mesh) -> tuple[str, ...]:
    """Return axes or sub-axes, preferably minor ones, whose device groups have `count` devices.

    `count` must divide the mesh size.
    """
    axes: list[str] = []
    for axis, size in zip(reversed(mesh.names), reversed(mesh.sizes), strict=True):
        factor = math.gcd(count, size)
        if factor > 1:
            axes.insert(0, axis if factor == size else f"{axis}:({size // factor}){factor}")
        count //= factor
    return tuple(axes)


def find_shift(pairs: Pairs, mesh: Mesh) -> tuple[str, int] | None:
    """Return the axis and offset if `pairs` is a rotation along one axis, or None otherwise.

    In a rotation each device sends to the device `offset` further along the axis, with wrap-around.
    """
    table = dict(pairs)
    if len(table) != mesh.size:
        return None
    for axis in mesh.names:
        groups = mesh.groups((axis,))
        offset = groups[0].index(table[groups[0][0]]) if table[groups[0][0]] in groups[0] else 0
        rotated = {device: group[(i + offset) % len(group)] for group in groups for i, device in enumerate(group)}
        if offset and rotated == table:
            return axis, offset
    return None


def moving_axes(pairs: Pairs, mesh: Mesh) -> tuple[str, ...]:
    """Return the axes along which at least one pair of `pairs` has a source and a target with different coordinates."""
    coordinates = [(mesh.coordinates(source), mesh.coordinates(target)) for source, target in pairs]
    return tuple(axis for i, axis in enumerate(mesh.names) if any(a[i] != b[i] for a, b in coordinates))


def pair_faults(pairs: object, devices: int | None = None) -> str:
    """Return why (source, target) pairs are invalid, or "" if each device sends and receives at most once."""
    if not isinstance(pairs, tuple) or not all(_is_pair(pair) for pair in pairs):
        return f"expected pairs of devices, got {pairs!r}"
    for side, name in ((0, "source"), (1, "target")):
        numbers = [pair[side] for pair in pairs]
        if len(set(numbers)) < len(numbers):
            return f"a device is the {name} of more than one pair: {list(map(list, pairs))}"
        if devices is not None and any(number >= devices for number in numbers):
            return f"pairs name device {max(numbers)}, but the mesh has {devices} devices"
    return ""


def _is_pair(pair: object) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(n, int) and n >= 0 for n in pair)
