"""How long a collective takes in each of its groups on a machine: as the plan predicts it (`meshgen/ccl/links.py`), group by group."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.ccl.cost import axes_and_peers, group_axes, link_axes
from meshgen.ccl.links import span_seconds, spans_of
from meshgen.machine.profiles import Machine
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Item, Schedule

Array = np.ndarray[Any, Any]


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
    spans, number = spans_of(mesh, axes_of(item, mesh), machine)
    moved = moved_bytes(item, plan, mesh)
    _, peers = axes_and_peers(item.op, item.attrs, mesh)
    return np.array([span_seconds(item.op, moved, span, machine.links[0], peers) for span in spans])[number]


def between_seconds(item: Item, plan: Schedule, mesh: Mesh, machine: Machine) -> float:
    """Seconds of what a device of one side of a transfer moves over the outermost links: other meshes are other hosts."""
    moved, link = moved_bytes(item, plan, mesh), machine.links[-1]
    return link.latency_seconds + moved / link.bytes_per_second if moved else 0.0
