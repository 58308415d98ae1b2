"""Meshes over the same devices with different axes (`<["x"=8]>` and `<["a"=2, "b"=4]>`) become one mesh.

The common mesh is the host; axes of the other meshes (guests) are rewritten as its axes or sub-axes. Two meshes have
the same devices in these cases, and are disjoint in all others:
  - Their `device_ids` are the same set, in any order.
  - Neither has `device_ids`, and both have as many devices as the program has partitions (`mhlo.num_partitions`, as
    written by JAX).
  - Both are Shardy meshes of equal size: Shardy requires all meshes of a program to have the same devices.

If no axes can express the device order of a guest in the order of the host, shardings on the guest keep their global
meaning and its device order is dropped: each rank then plays one device of either mesh. `in_host_order` chooses which.
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
    """Express the axes of `guest` by axes of `host`: map each one to host axes or sub-axes that enumerate the same
    devices.

    Args:
        places: the index in `host` of each device of `guest`; empty if both device orders are the same.
    Returns:
        The host axes of each guest axis, major to minor, or None if the host's axes cannot express `guest`.
    """
    if not places or list(places) == list(range(host.size)):
        return _axes_in_order(host, guest)
    for factors in (_factors, lambda size: _factors(size)[::-1]):
        if (parts := _by_stride(guest, places, factors)) is None:
            continue
        if (host_axes := _axes_in_order(host, Mesh(tuple(part for _, part in parts), guest.name))) is not None:
            factors_of_axis = {name: sorted(part.name for axis, part in parts if axis == name) for name in guest.names}
            return {
                name: _all_joined((ref for part in factors_of_axis[name] for ref in host_axes[part]), host)
                for name in guest.names
            }
    return None


def _by_stride(
    guest: Mesh, places: Sequence[int], factors: Callable[[int], list[int]]
) -> list[tuple[str, Axis]] | None:
    """Split the axes of `guest` into `factors`, and sort the factors by their stride in the device order of `host`.

    Returns (guest axis, factor) pairs, major to minor, or None if the devices of `guest` do not form a grid in `host`.
    """
    factors_by_position: list[tuple[int, str, Axis]] = []
    minor_size = guest.size
    for name in guest.names:
        for number, size in enumerate(factors(guest.axis_size(name))):
            minor_size //= size
            factors_by_position.append((places[minor_size] if size > 1 else 0, name, Axis(f"{name} {number:03}", size)))
    ordered = [(name, part) for _, name, part in sorted(factors_by_position, key=lambda entry: -entry[0])]
    strides = dict(
        zip((part.name for _, part in ordered), _strides([part.size or 1 for _, part in ordered]), strict=True)
    )
    positions = np.zeros((), np.int64)
    for _, _, part in factors_by_position:
        positions = np.add.outer(positions, np.arange(part.size or 1) * strides[part.name])
    return ordered if positions.ravel().tolist() == list(places) else None


def _strides(sizes: Sequence[int]) -> list[int]:
    return [math.prod(sizes[dim + 1 :]) for dim in range(len(sizes))]


def _factors(size: int) -> list[int]:
    """Return the prime factors of a size in ascending order."""
    primes: list[int] = []
    factor = 2
    while size > 1:
        while size % factor == 0:
            primes.append(factor)
            size //= factor
        factor += 1
    return primes


def _axes_in_order(host: Mesh, guest: Mesh) -> dict[str, Refs] | None:
    """Implement `axes_over` for two meshes with the same device order."""
    free = [(axis.name, host.axis_size(axis.name)) for axis in host.axes if axis.size != 1]
    used = dict.fromkeys(host.names, 1)
    axes: dict[str, Refs] = {}
    for axis in guest.axes:
        refs: list[str] = []
        remaining = guest.axis_size(axis.name)
        while remaining > 1:
            if not free:
                return None
            name, size = free.pop(0)
            length = min(size, remaining)
            if size % length or remaining % length:
                return None
            refs.append(name if length == host.axis_size(name) else f"{name}:({used[name]}){length}")
            used[name] *= length
            if size > length:
                free.insert(0, (name, size // length))
            remaining //= length
        axes[axis.name] = tuple(refs)
    return None if free else axes


def refs_over(host: Mesh, guest: Mesh, refs: Iterable[str], places: Sequence[int] = ()) -> Refs:
    """Translate references to axes or sub-axes of `guest` to axes of `host`, and merge adjacent sub-axes.

    A reference that the host cannot express is kept.
    """
    return _all_joined((host_ref for ref in refs for host_ref in _one_over(host, guest, ref, places)), host)


def _all_joined(refs: Iterable[str], host: Mesh) -> Refs:
    joined: list[str] = []
    for ref in refs:
        if joined and (merged_ref := _adjacent_parts(joined[-1], ref, host)):
            joined[-1] = merged_ref
        else:
            joined.append(ref)
    return tuple(joined)


def _one_over(host: Mesh, guest: Mesh, ref: str, places: Sequence[int]) -> Refs:
    name, pre, size = split_ref(ref)
    if name not in guest.names or size is None:
        return (axes_over(host, guest, places) or {}).get(name, (ref,))
    minor_size = guest.axis_size(name) // (pre * size)
    parts = (Axis("#major", pre), Axis("#part", size), Axis("#minor", minor_size))
    cut = (parts if axis.name == name else (axis,) for axis in guest.axes)
    return (axes_over(host, Mesh(tuple(itertools.chain(*cut)), guest.name), places) or {}).get("#part", (ref,))


def _adjacent_parts(first: str, second: str, mesh: Mesh) -> str:
    """Return one reference for two sub-axes, or "" if the second does not continue the first."""
    (name, pre, size), (other, other_pre, other_size) = split_ref(first), split_ref(second)
    if name != other or size is None or other_size is None or other_pre != pre * size:
        return ""
    both = size * other_size
    return name if both == mesh.axis_size(name) else f"{name}:({pre}){both}"


def shared_devices(
    meshes: Mapping[str, Mesh], devices: Mapping[str, Sequence[int]], named: Collection[str] = ()
) -> tuple[dict[str, str], dict[str, list[int]], dict[str, Diagnostic]]:
    """Choose a host among the meshes that have the same devices.

    The host is the mesh whose axes express the most axes of the others directly. Meshes that shardings name take
    precedence, so that a mesh that is declared but unused has no effect.

    Args:
        meshes: all meshes by symbol.
        devices: the device ids of the meshes that list them.
        named: the symbols that shardings name.
    Returns:
        The host of each guest, the new device ids of each guest whose device order is dropped, and a diagnostic for
        each mesh that shares only some devices with another one.
    """
    hosts: dict[str, str] = {}
    reordered: dict[str, list[int]] = {}
    refused: dict[str, Diagnostic] = {}
    for group in _groups({symbol: meshes[symbol] for symbol in devices if meshes[symbol].axes}, devices, refused):
        mappings = {
            host: {
                guest: axes_over(meshes[host], meshes[guest], device_indices_in(devices[host], devices[guest]))
                for guest in group
            }
            for host in group
        }
        host = min(
            group,
            key=lambda symbol: (symbol not in named, _axes_distance(mappings[symbol].values()), group.index(symbol)),
        )
        for guest in (guest for guest in group if guest != host):
            hosts[guest] = host
            if mappings[host][guest] is None:
                reordered[guest] = [devices[host][index] for index in in_host_order(meshes[host], meshes[guest])]
    return hosts, reordered, refused


def in_host_order(host: Mesh, guest: Mesh) -> list[int]:
    """Return a new device order for `guest`, as indices in `host`, that axes or sub-axes of `host` can express."""
    if _axes_in_order(host, guest) is not None:
        return list(range(host.size))
    primes = [prime for axis in host.names for prime in _factors(host.axis_size(axis))]
    free, order = list(range(len(primes))), list[int]()
    for prime in (prime for axis in guest.names for prime in _factors(guest.axis_size(axis))):
        order.append(next(dim for dim in free if primes[dim] == prime))
        free.remove(order[-1])
    return np.arange(host.size).reshape(primes).transpose(order).ravel().tolist()


def refined(host: Mesh, symbol: str, parts: Iterable[str]) -> Mesh | None:
    """Split the axes of `host` so that each reference in `parts` consists of entire axes. The new mesh is named
    `symbol`.

        axis x = 4, parts x:(1)2  ->  axes x.0 = 2, x.1 = 2

    Returns None if the references have no common sub-axes.
    """
    ends: dict[str, set[int]] = {}
    for name, pre, size in map(split_ref, parts):
        if size is not None:
            ends.setdefault(name, set()).update((pre, pre * size))
    axes: list[Axis] = []
    for axis in host.axes:
        cuts = sorted({1, host.axis_size(axis.name)} | ends.get(axis.name, set()))
        if any(b % a for a, b in itertools.pairwise(cuts)):
            return None
        is_unsplit = len(cuts) <= 2
        sizes = enumerate(b // a for a, b in itertools.pairwise(cuts))
        axes += (
            [axis] if is_unsplit else [replace(axis, name=f"{axis.name}.{index}", size=size) for index, size in sizes]
        )
    return Mesh(tuple(axes), symbol, host.machine)


def device_indices_in(host: Sequence[int], guest: Sequence[int]) -> Sequence[int]:
    """Return the index in `host` of each device id of `guest`, or () if the orders are the same."""
    if tuple(host) == tuple(guest):
        return ()
    index_of = {device: index for index, device in enumerate(host)}
    return [index_of[device] for device in guest]


def _axes_distance(mappings: Iterable[Mapping[str, Refs] | None]) -> int:
    """Rate a candidate host (lower is better): 1 per sub-axis in `mappings`, 1000 per guest that the host cannot
    express.
    """
    counts = (
        1000 if mapping is None else sum(":" in ref for refs in mapping.values() for ref in refs)
        for mapping in mappings
    )
    return sum(counts)


def _groups(
    meshes: Mapping[str, Mesh], devices: Mapping[str, Sequence[int]], refused: dict[str, Diagnostic]
) -> list[list[str]]:
    """Group the meshes over the same devices.

    A mesh that shares only some devices with another one gets a diagnostic in `refused`.
    """
    groups: list[list[str]] = []
    for symbol in meshes:
        for group in groups:
            other = devices[group[0]]
            if {*other} == {*devices[symbol]}:
                group.append(symbol)
                break
            if {*other} & {*devices[symbol]}:
                text = f"@{symbol} and @{group[0]} share only some of their devices: {list(devices[symbol])} and {list(other)}"
                hint = "two meshes must have the same devices, or disjoint ones"
                refused[symbol] = Diagnostic("MG0209", text, hint=hint)
                break
        else:
            groups.append([symbol])
    return groups
