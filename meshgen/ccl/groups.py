"""The replica groups of all ranks at once, and the domains of a machine that they span."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from meshgen.mesh import Mesh, split_ref

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups along some axes.

    Attributes:
        members: ranks [groups, size].
        group: the group of each rank.
    """

    members: Array
    group: Array

    @property
    def size(self) -> int:
        return self.members.shape[1]

    def latest(self, times: Array) -> Array:
        """Per rank the latest of the times [ranks] of its group."""
        return times[self.members].max(axis=1)[self.group]

    def domains(self, devices: int) -> tuple[Array, Array]:
        """Per group, how many domains of so many devices it spans, and the fewest of its members in one of them."""
        domain = np.sort(self.members // devices, axis=1)
        starts = np.ones(domain.shape, np.bool_)
        starts[:, 1:] = domain[:, 1:] != domain[:, :-1]
        places = np.flatnonzero(starts)
        lengths = np.diff(np.append(places, domain.size))
        first = np.flatnonzero(places % self.size == 0)
        return starts.sum(axis=1), np.minimum.reduceat(lengths, first)


@lru_cache(maxsize=256)
def groups_of(mesh: Mesh, axes: tuple[str, ...]) -> Groups:
    """The groups of devices that differ only along `axes`."""
    ranks = np.arange(mesh.size)
    first = ranks.copy()  # the rank of the group's first device
    for ref in axes:
        stride = stride_of(mesh, ref)
        first -= ranks // stride % mesh.axis_size(ref) * stride
    order = np.argsort(first, kind="stable")
    members = order.reshape(-1, mesh.group_size(axes))
    group = np.empty(mesh.size, np.int64)
    group[members] = np.arange(len(members))[:, None]
    return Groups(members, group)


def stride_of(mesh: Mesh, ref: str) -> int:
    """The distance between the numbers of adjacent devices along an axis or a part of one."""
    axis = mesh.axis(ref)
    below = math.prod(mesh.sizes[mesh.axes.index(axis) + 1 :])
    _, outer, size = split_ref(ref)
    return below if size is None else below * (mesh.axis_size(axis.name) // (outer * size))
