"""Meshes over the same devices under other axes (`<["x"=8]>` and `<["a"=2, "b"=4]>`): one mesh, whose axes or sub-axes all of them use.

Meshes have the same devices where their `device_ids` are, in whichever order; without them, if they have as many devices as the
program has partitions (`mhlo.num_partitions`, as JAX writes it); or where two of Shardy's are equally large, which requires
that all meshes of a program have the same devices. All others have disjoint devices.

Where no axes lead from the order of one mesh to the order of another, shardings over the second mesh keep their global meaning, and its
device order is dropped: each rank computes for one device of either mesh. `in_host_order` chooses which one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from meshgen.errors import Diagnostic
from meshgen.mesh import Axis, Mesh, split_ref

Refs = tuple[str, ...]


def axes_over(host: Mesh, guest: Mesh, places: Sequence[int] = ()) -> dict[str, Refs] | None:
    """Per axis of `guest` the axes of `host` (or parts of them, major to minor) that number the same devices; None: there are none.

    `places` has the place in `host` of each device of `guest`, where these are ordered otherwise.
    """
    if not places or list(places) == list(range(host.size)):
        return _axes_in_order(host, guest)
    for factors in (_factors, lambda size: _factors(size)[::-1]):
        if (parts := _by_stride(guest, places, factors)) is None:
            continue
        if (found := _axes_in_order(host, Mesh(tuple(part for _, part in parts), guest.name))) is not None:
            own = {name: sorted(part.name for axis, part in parts if axis == name) for name in guest.names}
            return {name: _all_joined((ref for part in own[name] for ref in found[part]), host) for name in guest.names}
    return None


def _by_stride(
    guest: Mesh, places: Sequence[int], factors: Callable[[int], list[int]]
) -> list[tuple[str, Axis]] | None:
    """The factors of the axes in the order in which they number the places, with their axes; None if they do not."""
    found: list[tuple[int, str, Axis]] = []
    below = guest.size
    for name in guest.names:
        for number, size in enumerate(factors(guest.axis_size(name))):
            below //= size
            found.append((places[below] if size > 1 else 0, name, Axis(f"{name} {number:03}", size)))
    ordered = [(name, part) for _, name, part in sorted(found, key=lambda entry: -entry[0])]
    strides = dict(
        zip((part.name for _, part in ordered), _strides([part.size or 1 for _, part in ordered]), strict=True)
    )
    numbers = np.zeros((), np.int64)
    for _, _, part in found:
        numbers = np.add.outer(numbers, np.arange(part.size or 1) * strides[part.name])
    return ordered if numbers.ravel().tolist() == list(places) else None


def _strides(sizes: Sequence[int]) -> list[int]:
    return [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]


def _factors(size: int) -> list[int]:
    """The prime factors of a size, in order."""
    found: list[int] = []
    factor = 2
    while size > 1:
        while size % factor == 0:
            found.append(factor)
            size //= factor
        factor += 1
    return found


def _axes_in_order(host: Mesh, guest: Mesh) -> dict[str, Refs] | None:
    """As `axes_over` of meshes whose devices are in the same order."""
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


def refs_over(host: Mesh, guest: Mesh, refs: Iterable[str], places: Sequence[int] = ()) -> Refs:
    """Axes of `guest`, or parts of them, as those of `host`; neighbouring parts of an axis as one. The axes must be expressible."""
    return _all_joined((each for ref in refs for each in _one_over(host, guest, ref, places)), host)


def _all_joined(refs: Iterable[str], host: Mesh) -> Refs:
    joined: list[str] = []
    for ref in refs:
        if joined and (whole := _adjacent_parts(joined[-1], ref, host)):
            joined[-1] = whole
        else:
            joined.append(ref)
    return tuple(joined)


def _one_over(host: Mesh, guest: Mesh, ref: str, places: Sequence[int]) -> Refs:
    name, pre, size = split_ref(ref)
    if name not in guest.names or size is None:
        return (axes_over(host, guest, places) or {}).get(name, (ref,))
    rest = guest.axis_size(name) // (pre * size)
    parts = (Axis("#major", pre), Axis("#part", size), Axis("#minor", rest))
    cut = (parts if axis.name == name else (axis,) for axis in guest.axes)
    return (axes_over(host, Mesh(tuple(itertools.chain(*cut)), guest.name), places) or {}).get("#part", (ref,))


def _adjacent_parts(first: str, second: str, mesh: Mesh) -> str:
    """Two adjacent parts of an axis as one; empty if they are not adjacent."""
    (name, pre, size), (other, other_pre, other_size) = split_ref(first), split_ref(second)
    if name != other or size is None or other_size is None or other_pre != pre * size:
        return ""
    both = size * other_size
    return name if both == mesh.axis_size(name) else f"{name}:({pre}){both}"


def shared_devices(
    meshes: Mapping[str, Mesh], devices: Mapping[str, Sequence[int]], named: Collection[str] = ()
) -> tuple[dict[str, str], dict[str, list[int]], dict[str, Diagnostic]]:
    """Return the host of each mesh that is another one under other axes, the devices of reordered meshes, and faults.

    `devices` has the devices of meshes that say them. Of a group that one is kept of which the others name the most whole axes;
    one that is `named` by shardings, where some are, so that a mesh which is only declared has no effect. A reordered mesh takes
    the devices in an order that axes of its host have. A mesh that shares only some devices with another one has a fault.
    """
    hosts: dict[str, str] = {}
    reordered: dict[str, list[int]] = {}
    refused: dict[str, Diagnostic] = {}
    for group in _groups({symbol: meshes[symbol] for symbol in devices if meshes[symbol].axes}, devices, refused):
        ways = {
            host: {
                each: axes_over(meshes[host], meshes[each], places_in(devices[host], devices[each])) for each in group
            }
            for host in group
        }
        host = min(
            group, key=lambda symbol: (symbol not in named, _axes_distance(ways[symbol].values()), group.index(symbol))
        )
        for each in (each for each in group if each != host):
            hosts[each] = host
            if ways[host][each] is None:
                reordered[each] = [devices[host][place] for place in in_host_order(meshes[host], meshes[each])]
    return hosts, reordered, refused


def in_host_order(host: Mesh, guest: Mesh) -> list[int]:
    """Return a place in `host` for each device of `guest`, such that the axes of `guest` are axes of `host` or parts of them."""
    if _axes_in_order(host, guest) is not None:
        return list(range(host.size))
    primes = [prime for axis in host.names for prime in _factors(host.axis_size(axis))]
    free, order = list(range(len(primes))), list[int]()
    for prime in (prime for axis in guest.names for prime in _factors(guest.axis_size(axis))):
        order.append(next(dim for dim in free if primes[dim] == prime))
        free.remove(order[-1])
    return np.arange(host.size).reshape(primes).transpose(order).ravel().tolist()


def refined(host: Mesh, symbol: str, parts: Iterable[str]) -> Mesh | None:
    """The mesh over the same devices, of this name, of which all the parts of axes of `host` are whole axes; None: they overlap."""
    ends: dict[str, set[int]] = {}
    for name, pre, size in map(split_ref, parts):
        if size is not None:
            ends.setdefault(name, set()).update((pre, pre * size))
    axes: list[Axis] = []
    for axis in host.axes:
        cuts = sorted({1, host.axis_size(axis.name)} | ends.get(axis.name, set()))
        if any(b % a for a, b in itertools.pairwise(cuts)):
            return None
        whole = len(cuts) <= 2
        sizes = enumerate(b // a for a, b in itertools.pairwise(cuts))
        axes += [axis] if whole else [replace(axis, name=f"{axis.name}.{number}", size=size) for number, size in sizes]
    return Mesh(tuple(axes), symbol, host.machine)


def places_in(host: Sequence[int], guest: Sequence[int]) -> Sequence[int]:
    """The place among the devices of one mesh of each of those of another; empty where the order is the same."""
    if tuple(host) == tuple(guest):
        return ()
    places = {device: place for place, device in enumerate(host)}
    return [places[device] for device in guest]


def _axes_distance(ways: Iterable[Mapping[str, Refs] | None]) -> int:
    """How far a mesh is from having the axes of the others: parts of axes cost, and axes that cannot be named more."""
    counts = (1000 if way is None else sum(":" in ref for refs in way.values() for ref in refs) for way in ways)
    return sum(counts)


def _groups(
    meshes: Mapping[str, Mesh], devices: Mapping[str, Sequence[int]], refused: dict[str, Diagnostic]
) -> list[list[str]]:
    """Meshes over the same devices; those that only share some are refused."""
    groups: list[list[str]] = []
    for symbol in meshes:
        for group in groups:
            other = devices[group[0]]
            if {*other} == {*devices[symbol]}:
                group.append(symbol)
                break
            if {*other} & {*devices[symbol]}:
                text = f"@{symbol} is over devices of @{group[0]} and others: {list(devices[symbol])} and {list(other)}"
                hint = "two meshes must have the same devices, or disjoint ones"
                refused[symbol] = Diagnostic("MG0209", text, hint=hint)
                break
        else:
            groups.append([symbol])
    return groups
