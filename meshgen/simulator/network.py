"""How long a collective takes in each of its groups on a machine.

A group that spans several domains (hosts) uses the links of every level that it crosses. Each level moves its share of the bytes at
the same time, so the slowest level decides; latencies add up.

- Rings (all_reduce, all_gather, reduce_scatter and the rooted ones): each device passes on the bytes of the ring. A ring enters
  and leaves a domain once, and the group's members there share that between their ports, as NCCL's parallel rings do.
- All-to-all: each device sends its blocks for other domains through its own port.
- Point to point: a device's bytes go over the outermost level that its group crosses.

All groups of a collective run at the same time: the rates of `Link` are those of a device while all devices of its domain send.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.ccl.cost import group_axes, link_axes
from meshgen.cost_model.model import DEFAULT
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Item, Schedule
from meshgen.simulator.groups import Groups, groups_of
from meshgen.simulator.machine import Link, Machine

Array = np.ndarray[Any, Any]
_RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce_to", "gather_to", "scatter_from")


def axes_of(item: Item, mesh: Mesh) -> tuple[str, ...]:
    """The axes along which devices take part in a collective together."""
    return link_axes(item.op, item.attrs, mesh) if "axes" not in item.attrs.given else group_axes(item.op, item.attrs)


def moved_bytes(item: Item, plan: Schedule, mesh: Mesh) -> int:
    """Bytes that a device moves in a collective."""
    return plan.collective(item, mesh).ring_bytes


def packing_seconds(item: Item, plan: Schedule, mesh: Mesh) -> float:
    """Predicted seconds of a collective in addition to its links: copies that pack and unpack messages on each device."""
    return max(0.0, item.seconds - plan.collective(item, mesh).link_seconds)


def group_seconds(item: Item, plan: Schedule, mesh: Mesh, machine: Machine) -> Array:
    """Seconds of a collective on idle links, per group [groups]; groups are those of `groups_of(mesh, axes_of(...))`."""
    groups = groups_of(mesh, axes_of(item, mesh))
    moved = moved_bytes(item, plan, mesh)
    if not moved or groups.size == 1:
        return np.zeros(len(groups.members))
    peers = DEFAULT.links.peer_seconds * max(groups.size - 2, 0) if item.op == "all_to_all" else 0.0
    latency = np.full(len(groups.members), machine.links[0].latency_seconds + peers)
    transfer = moved / np.full(len(groups.members), machine.links[0].bytes_per_second)
    for inner, outer in zip(machine.links, machine.links[1:], strict=False):
        assert inner.devices is not None  # only the outermost joins all
        domains, least = groups.domains(inner.devices)
        crosses = domains > 1
        latency += np.where(crosses, outer.latency_seconds * np.ceil(np.log2(domains)), 0.0)
        transfer = np.maximum(transfer, np.where(crosses, _outward(item.op, moved, groups, least, outer), 0.0))
    return latency + transfer


def _outward(op: str, moved: int, groups: Groups, least: Array, link: Link) -> Array:
    """Seconds that what leaves a domain takes on its outward links; `least` members of each group share them."""
    if op in _RINGS:
        return moved / (least * link.bytes_per_second)
    if op == "all_to_all":
        return moved * (groups.size - least) / (groups.size - 1) / link.bytes_per_second
    return moved / np.full(len(least), link.bytes_per_second)


def between_seconds(item: Item, plan: Schedule, mesh: Mesh, machine: Machine) -> float:
    """Seconds of what a device of one side of a transfer moves over the outermost links: other meshes are other hosts."""
    moved, link = moved_bytes(item, plan, mesh), machine.links[-1]
    return link.latency_seconds + moved / link.bytes_per_second if moved else 0.0
