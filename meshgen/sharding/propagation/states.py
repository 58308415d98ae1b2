"""The state of a value along one mesh axis, and the cost of resharding it from one state to another.

Propagation decides mesh axes one after the other. Along one axis a value is replicated (None), split on a
dim (the dim's index), or partial (the kind's name).

Example, f32[64,96] (24 kB) on x=4, in bytes that a device sends:

    0 -> None        all-gather        24 kB * 3/4 = 18 kB
    0 -> 1           all-to-all        6 kB * 3/4 = 4.6 kB
    "sum" -> None    all-reduce        2 * 18 kB
    "sum" -> 0       reduce-scatter    18 kB
    None -> 0        slice             none
"""

from __future__ import annotations

from typing import NamedTuple

from meshgen.ccl.links import rate_along
from meshgen.cost_model.model import DEFAULT
from meshgen.mesh import Mesh, split_ref
from meshgen.spec import Sharding

State = int | str | None


def state_of(sharding: Sharding, axis: str) -> State:
    """Return the state of a value with this sharding along an axis."""
    for dim, axes in enumerate(sharding.dims):
        if axis in axes:
            return dim
    return dict(sharding.partial).get(axis)


class Link(NamedTuple):
    """The mesh axis that is being decided: its size, bandwidth (bytes/s), and the latency of a collective along it (s).

    nests: the axis is a part that the compiler cut off a mesh axis; it only splits dims evenly. pins: moving an
    annotated argument costs more than its bytes. sharded_by_groups: the sums that `optimizations/group_row_uses.py` removes cost
    nothing.
    """

    axis: str
    size: int
    bandwidth: float
    latency: float
    nests: bool = False
    pins: bool = True
    sharded_by_groups: bool = False

    @staticmethod
    def of(mesh: Mesh, axis: str, *, is_resizing_bitcast: bool = False, pins: bool = True, counts_latency: bool = False, sharded_by_groups: bool = False) -> Link:  # fmt: skip
        nests = is_resizing_bitcast and split_ref(axis)[2] is not None
        rate = rate_along(mesh, (axis,))
        latency = rate.latency if counts_latency else DEFAULT.propagation.latency_seconds
        return Link(axis, mesh.axis_size(axis), rate.bandwidth, latency, nests, pins, sharded_by_groups)

    def seconds(self, source: State, target: State, nbytes: float, *, is_argument: bool = False) -> float:
        """Estimate the seconds to reshard from one state to another (ring model).

        Args:
            nbytes: bytes per device if the value were replicated along this axis.
            is_argument: the value is an annotated input.
        """
        if source == target:
            return 0.0
        if source is None:
            return DEFAULT.propagation.slice_seconds
        weights, share = DEFAULT.propagation, (self.size - 1) / self.size
        # Among equal plans, prefer to leave arguments in place.
        argument_weight = weights.behind if is_argument else 1.0
        is_pinned = is_argument and self.pins
        # A reduce_scatter or an all_reduce. If the target is partial of another kind, a mask follows.
        if isinstance(source, str):
            moved_bytes = nbytes * share * (1 if isinstance(target, int) else 2)
        elif isinstance(target, int):  # all_to_all
            moved_bytes = nbytes / self.size * share * (weights.relayout_argument if is_pinned else argument_weight)
        else:  # all_gather
            moved_bytes = nbytes * share * (weights.gather_argument if is_pinned else argument_weight)
        return moved_bytes / self.bandwidth + self.latency
