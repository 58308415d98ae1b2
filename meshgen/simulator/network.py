"""The duration of a collective, predicted as in the plan (`meshgen/ccl/links.py`), but separately for each group of
devices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.ccl.cost import axes_and_peers, group_axes, link_axes
from meshgen.ccl.groups import groups_of
from meshgen.ccl.links import group_seconds
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Item, Schedule

Array = np.ndarray[Any, Any]


def axes_of(item: Item, mesh: Mesh) -> tuple[str, ...]:
    """Return the mesh axes along which the devices of one group of the collective differ."""
    return link_axes(item.op, item.attrs, mesh) if "axes" not in item.attrs.given else group_axes(item.op, item.attrs)


def moved_bytes(item: Item, plan: Schedule, mesh: Mesh) -> int:
    """Return the bytes that each device sends in a collective."""
    return plan.collective(item, mesh).ring_bytes


def packing_seconds(item: Item, plan: Schedule, mesh: Mesh) -> float:
    """Return the predicted seconds of the copies that pack and unpack the messages of a collective."""
    return max(0.0, item.seconds - plan.collective(item, mesh).link_seconds)


def linked_seconds(item: Item, plan: Schedule, mesh: Mesh) -> Array:
    """Return the seconds of a collective on otherwise idle links, for each group of `groups_of(mesh, axes_of(...))`."""
    moved, axes = moved_bytes(item, plan, mesh), axes_of(item, mesh)
    if not moved:
        return np.zeros(len(groups_of(mesh, axes).members))
    _, peers = axes_and_peers(item.op, item.attrs, mesh)
    return group_seconds(item.op, moved, mesh, axes, peers)
