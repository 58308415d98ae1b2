"""How a value lies along one mesh axis, and what it costs to bring it from one such state to another.

Propagation treats mesh axes one after the other. Along one axis a value is replicated (None), split on a
dim (its number), or partial (the kind's name).
"""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.mesh import Mesh
from meshgen.spec import Sharding

State = int | str | None

# A collective's fixed cost as propagation sees it: small, so that bytes decide before the number of collectives.
LATENCY_SECONDS = 1e-6
SLICE_SECONDS = 1e-9  # local work of slicing or masking: only to prefer having none


def state_of(sharding: Sharding, axis: str) -> State:
    """The state of a value with this sharding along an axis."""
    for dim, axes in enumerate(sharding.dims):
        if axis in axes:
            return dim
    return dict(sharding.partial).get(axis)


@dataclass(frozen=True)
class Link:
    """Size and bandwidth (bytes/s) of the mesh axis that is being propagated."""

    axis: str
    size: int
    bandwidth: float

    @staticmethod
    def of(mesh: Mesh, axis: str) -> Link:
        return Link(axis, mesh.axis_size(axis), mesh.axis(axis).bandwidth)

    def seconds(self, source: State, target: State, nbytes: float) -> float:
        """Estimated time to go from one state to another for a value of which a device would hold `nbytes`
        if it were replicated along this axis (ring model)."""
        if source == target:
            return 0.0
        if source is None:
            return SLICE_SECONDS
        share = (self.size - 1) / self.size
        if isinstance(source, str):  # reduce_scatter, or all_reduce (and perhaps a mask to another kind)
            moved = nbytes * share * (1 if isinstance(target, int) else 2)
        elif isinstance(target, int):  # all_to_all
            moved = nbytes / self.size * share
        else:  # all_gather
            moved = nbytes * share
        return moved / self.bandwidth + LATENCY_SECONDS
