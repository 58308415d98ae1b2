"""Meshes over the same devices under other axes (`<["x"=8]>` and `<["a"=2, "b"=4]>`): one mesh, whose axes or parts of them all name.

Meshes have the same devices where their `device_ids` are equal, or where they have as many as the program has partitions
(`mhlo.num_partitions`, as JAX writes it). All others have devices of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from meshgen.errors import Diagnostic
from meshgen.mesh import Axis, Mesh, split_ref

Refs = tuple[str, ...]


def axes_over(host: Mesh, guest: Mesh) -> dict[str, Refs] | None:
    """Per axis of `guest` the axes of `host` (or parts of them, major to minor) that number the same devices; None: there are none."""
    left = [(axis.name, host.axis_size(axis.name)) for axis in host.axes if axis.size != 1]
    taken = dict.fromkeys(host.names, 1)
    found: dict[str, Refs] = {}
    for axis in guest.axes:
        refs: list[str] = []
        missing = guest.axis_size(axis.name)
        while missing > 1:
            if not left:
                return None
            name, size = left.pop(0)
            part = min(size, missing)
            if size % part or missing % part:
                return None
            refs.append(name if part == host.axis_size(name) else f"{name}:({taken[name]}){part}")
            taken[name] *= part
            if size > part:
                left.insert(0, (name, size // part))
            missing //= part
        found[axis.name] = tuple(refs)
    return None if left else found


def refs_over(host: Mesh, guest: Mesh, refs: Iterable[str]) -> Refs:
    """Axes of `guest`, or parts of them, as those of `host`; neighbouring parts of an axis as one. The axes are known to go over."""
    found = [each for ref in refs for each in _one_over(host, guest, ref)]
    joined: list[str] = []
    for ref in found:
        if joined and (whole := _joined(joined[-1], ref, host)):
            joined[-1] = whole
        else:
            joined.append(ref)
    return tuple(joined)


def _one_over(host: Mesh, guest: Mesh, ref: str) -> Refs:
    name, pre, size = split_ref(ref)
    if name not in guest.names or size is None:
        return (axes_over(host, guest) or {}).get(name, (ref,))
    rest = guest.axis_size(name) // (pre * size)
    parts = (Axis("#major", pre), Axis("#part", size), Axis("#minor", rest))
    cut = (parts if axis.name == name else (axis,) for axis in guest.axes)
    return (axes_over(host, Mesh(tuple(itertools.chain(*cut)), guest.name)) or {}).get("#part", (ref,))


def _joined(first: str, second: str, mesh: Mesh) -> str:
    """Two parts of an axis that follow each other as one; empty: they do not."""
    (name, pre, size), (other, other_pre, other_size) = split_ref(first), split_ref(second)
    if name != other or size is None or other_size is None or other_pre != pre * size:
        return ""
    both = size * other_size
    return name if both == mesh.axis_size(name) else f"{name}:({pre}){both}"


def shared_devices(
    meshes: Mapping[str, Mesh], devices: Mapping[str, Sequence[int]]
) -> tuple[dict[str, str], dict[str, Diagnostic]]:
    """Which meshes are another one under other axes, and those that share devices in ways that cannot be told so.

    `devices` has the devices of meshes that say them. Of a group that one is kept of which the others name the most whole axes.
    """
    hosts: dict[str, str] = {}
    refused: dict[str, Diagnostic] = {}
    for group in _groups({symbol: meshes[symbol] for symbol in devices if meshes[symbol].axes}, devices, refused):
        ways = {host: {each: axes_over(meshes[host], meshes[each]) for each in group} for host in group}
        host = min(group, key=lambda symbol: (_parts(ways[symbol].values()), group.index(symbol)))
        for each in (each for each in group if each != host):
            if ways[host][each] is None:
                text = f"@{each} {meshes[each]} is over the devices of @{host} {meshes[host]}, whose axes it does not share"
                hint = "name the devices by axes whose sizes divide each other's, outer to inner"
                refused[each] = Diagnostic("MG0209", text, hint=hint)
            else:
                hosts[each] = host
    return hosts, refused


def _parts(ways: Iterable[Mapping[str, Refs] | None]) -> int:
    """How far a mesh is from having the axes of the others: parts of axes cost, and axes that cannot be named more."""
    counts = (1000 if way is None else sum(":" in ref for refs in way.values() for ref in refs) for way in ways)
    return sum(counts)


def _groups(
    meshes: Mapping[str, Mesh], devices: Mapping[str, Sequence[int]], refused: dict[str, Diagnostic]
) -> list[list[str]]:
    """Meshes over the same devices in the same order; those that only share some, or order them otherwise, are refused."""
    groups: list[list[str]] = []
    for symbol in meshes:
        for group in groups:
            other = devices[group[0]]
            if tuple(other) == tuple(devices[symbol]):
                group.append(symbol)
                break
            if {*other} & {*devices[symbol]}:
                what = "in another order" if {*other} == {*devices[symbol]} else "and others"
                text = f"@{symbol} is over devices of @{group[0]} {what}: {list(devices[symbol])} and {list(other)}"
                hint = "meshes are over the same devices in the same order, or over different ones"
                refused[symbol] = Diagnostic("MG0209", text, hint=hint)
                break
        else:
            groups.append([symbol])
    return groups
