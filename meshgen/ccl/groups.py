"""The replica groups of all ranks as arrays, and the domains of the machine (for example hosts) that each group spans."""

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
    """The replica groups along some mesh axes.

    Attributes:
        members: ranks of each group, shape [groups, size].
        group: index of the group of each rank.
    """

    members: Array
    group: Array

    @property
    def size(self) -> int:
        return self.members.shape[1]

    def latest(self, times: Array) -> Array:
        """Return, for each rank, the maximum of `times` over its group. `times` has one entry per rank."""
        return times[self.members].max(axis=1)[self.group]

    def domains(self, devices: int) -> tuple[Array, Array]:
        """Return, for each group, the number of domains that it spans, and its fewest members in a domain.

        Args:
            devices: number of devices in a domain. A domain contains consecutive ranks.
        """
        domain = np.sort(self.members // devices, axis=1)
        starts = np.ones(domain.shape, np.bool_)
        starts[:, 1:] = domain[:, 1:] != domain[:, :-1]
        positions = np.flatnonzero(starts)
        lengths = np.diff(np.append(positions, domain.size))
        first = np.flatnonzero(positions % self.size == 0)
        return starts.sum(axis=1), np.minimum.reduceat(lengths, first)


@lru_cache(maxsize=256)
def groups_of(mesh: Mesh, axes: tuple[str, ...]) -> Groups:
    """Return the groups along `axes`. The devices of a group differ only in their coordinates along `axes`."""
    ranks = np.arange(mesh.size)
    first = ranks.copy()  # first rank of each rank's group
    for ref in axes:
        stride = stride_of(mesh, ref)
        first -= ranks // stride % mesh.axis_size(ref) * stride
    order = np.argsort(first, kind="stable")
    members = order.reshape(-1, mesh.group_size(axes))
    group = np.empty(mesh.size, np.int64)
    group[members] = np.arange(len(members))[:, None]
    return Groups(members, group)


def stride_of(mesh: Mesh, ref: str) -> int:
    """Return the difference in rank between neighbors along an axis or sub-axis."""
    axis = mesh.axis(ref)
    below = math.prod(mesh.sizes[mesh.axes.index(axis) + 1 :])
    _, outer, size = split_ref(ref)
    return below if size is None else below * (mesh.axis_size(axis.name) // (outer * size))
