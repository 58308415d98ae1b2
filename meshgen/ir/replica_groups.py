"""StableHLO's replica groups and source-target pairs as axes of a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.mesh import Mesh

Groups = Sequence[Sequence[int]]
Pairs = Sequence[tuple[int, int]]


def are_uneven(groups: Groups, mesh: Mesh) -> bool:
    """Whether every device of the mesh is in one group, and these have different sizes."""
    members = sorted(device for group in groups for device in group)
    return len({len(group) for group in groups}) > 1 and members == list(range(mesh.size))


def group_faults(groups: Groups, mesh: Mesh) -> str:
    """Faults of replica groups on this mesh; empty if every device is in one group of equal size."""
    members = [device for group in groups for device in group]
    sizes = sorted({len(group) for group in groups})
    if len(sizes) > 1:
        return f"replica groups have different sizes, {' and '.join(map(str, sizes))}"
    if sorted(members) != list(range(mesh.size)):
        return f"replica groups name {len(members)} devices {members[:16]}, but {mesh} has devices 0 to {mesh.size - 1}, each to be named once"
    return ""


def device_groups(groups: Groups, replicas: int, partitions: int, numbers: str) -> list[tuple[int, ...]]:
    """Groups of devices from groups of StableHLO's ids: `replicas` (of each partition), `partitions` (of each
    replica), replicas with all their partitions (`both`, by partition and then by replica, as StableHLO orders them), or
    `devices`. Device r * partitions + p is partition p of replica r."""
    if numbers == "replicas":
        return [tuple(r * partitions + p for r in group) for p in range(partitions) for group in groups]
    if numbers == "partitions":
        return [tuple(r * partitions + p for p in group) for r in range(replicas) for group in groups]
    if numbers == "both":
        return [tuple(r * partitions + p for p in range(partitions) for r in group) for group in groups]
    return [tuple(group) for group in groups]


def find_axes(groups: Groups, mesh: Mesh) -> tuple[str, ...] | None:
    """The axes, outer to inner, whose groups are these (in any order of groups); None if there are none.

    Args: groups: every device of the mesh is in one of them, and they have one size.
    """
    first = next(list(group) for group in groups if 0 in group)
    axes: list[str] = []
    for count, stride in strides_of(first):
        parts = axes_along(count, stride, mesh)
        if parts is None:
            return None
        axes = [*parts, *axes]
    wanted = sorted(tuple(group) for group in groups)
    return tuple(axes) if sorted(mesh.groups(axes)) == wanted else None


def strides_of(group: Sequence[int]) -> list[tuple[int, int]]:
    """Counts and strides of a group that starts with 0 and is a grid of devices, inner to outer."""
    found: list[tuple[int, int]] = []
    done = 1
    while done < len(group):
        stride, count = group[done], 1
        while done * count < len(group) and group[done * count] == stride * count:
            count += 1
        found.append((count, stride))
        done *= count
    return found


def axes_along(count: int, stride: int, mesh: Mesh) -> list[str] | None:
    """The axes, or parts of axes, that `count` devices at distance `stride` walk, outer to inner."""
    found: list[str] = []
    if stride < 1:
        return None
    below = 1  # devices along the axes that are minor to the one in hand
    for axis, size in zip(reversed(mesh.names), reversed(mesh.sizes), strict=True):
        inner = stride // below
        if count > 1 and size > 1 and stride % below == 0 and inner < size:
            length = min(count, size // inner)
            if size % (inner * length) or count % length:
                return None
            found.insert(0, axis if length == size else f"{axis}:({size // (inner * length)}){length}")
            stride, count = stride * length, count // length
        below *= size
    return found if count == 1 else None


def axes_of_size(count: int, mesh: Mesh) -> tuple[str, ...]:
    """Axes, or parts of axes, with groups of `count` devices, a divisor of the mesh size; the minor-most ones if possible."""
    found: list[str] = []
    for axis, size in zip(reversed(mesh.names), reversed(mesh.sizes), strict=True):
        part = math.gcd(count, size)
        if part > 1:
            found.insert(0, axis if part == size else f"{axis}:({size // part}){part}")
        count //= part
    return tuple(found)


def find_shift(pairs: Pairs, mesh: Mesh) -> tuple[str, int] | None:
    """The axis and offset by which every device sends to the one further along, around the end; None if it is not a shift."""
    table = dict(pairs)
    if len(table) != mesh.size:
        return None
    for axis in mesh.names:
        lines = mesh.groups((axis,))
        offset = lines[0].index(table[lines[0][0]]) if table[lines[0][0]] in lines[0] else 0
        turned = {device: line[(i + offset) % len(line)] for line in lines for i, device in enumerate(line)}
        if offset and turned == table:
            return axis, offset
    return None


def moving_axes(pairs: Pairs, mesh: Mesh) -> tuple[str, ...]:
    """The axes along which some pair moves."""
    places = [(mesh.coordinates(source), mesh.coordinates(target)) for source, target in pairs]
    return tuple(axis for i, axis in enumerate(mesh.names) if any(a[i] != b[i] for a, b in places))


def pair_faults(pairs: object, devices: int | None = None) -> str:
    """Faults of (source, target) pairs: each device may send at most once and receive at most once."""
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
