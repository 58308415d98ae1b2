"""Attributes of annotations, collectives, resharding, device coordinates, and transfers between meshes."""

from __future__ import annotations

from typing import Any

from meshgen.ir.attributes.base import Attributes, Flags, Ints, Names, Number, Place
from meshgen.mesh import Mesh
from meshgen.spec import Sharding


class Annotate(Attributes):
    """A user's sharding annotation.

    Fields:
        required: the annotation must be satisfied; otherwise it is a hint.
        as_result: it applies to the value as produced; otherwise only to the users of the annotated value.
        open_dims: for each dim whether propagation may add axes; empty means that it may not.
    """

    sharding: Sharding
    required: bool = True
    as_result: bool = False
    open_dims: Flags = ()


class ShardingGroup(Attributes):
    """The number of a group whose members have the same sharding."""

    group: int


class Barrier(Attributes):
    """Attributes of a propagation barrier: the permitted direction, which is NONE, FORWARD, BACKWARD or BOTH."""

    direction: str


class OverAxes(Attributes):
    """The mesh axes that the device groups span, outer to inner."""

    axes: Names


class AllReduce(OverAxes):
    """The reduction kind: sum, product, max, min, and, or, xor."""

    kind: str


class AlongDim(OverAxes):
    """The dim along which tiles are concatenated or sliced."""

    dim: int


class ReduceScatter(AlongDim):
    """The scattered dim and the reduction kind, as in `AllReduce`."""

    kind: str


class AllToAll(OverAxes):
    """The dim along which tiles are split and the dim along which they are concatenated."""

    split_dim: int
    concat_dim: int


class Broadcast(OverAxes):
    """Attributes of a broadcast from device `root` of each group."""

    root: Place


class Rooted(AlongDim):
    """Attributes of a gather to, or a scatter from, device `root` of each group."""

    root: Place


class ReduceTo(AllReduce):
    """Attributes of a reduction to device `root` of each group."""

    root: Place


class Send(OverAxes):
    """Attributes of a send to device `destination` of each group."""

    destination: Place


class Recv(OverAxes):
    """Attributes of a receive by device `destination` of each group from device `source`."""

    source: Place | None = None
    destination: Place | None = None


class Shift(OverAxes):
    """A shift by `offset` devices along `shift_axis`; with `rotate` it wraps around."""

    shift_axis: str
    offset: int
    rotate: bool = False


class PermutePairs(OverAxes):
    """The (source, target) pairs of device numbers."""

    pairs: Any


class FetchRows(AlongDim):
    """Attributes of an op by which each device of a group fetches a range of rows from the tiles of the others.

    The range of device i starts at row ceil((i * step + base) / divisor); its length is that of the result
    (`ccl/halo.py`). Rows from `limit` on do not exist.

    Fields:
        parts: replaces the fields above by several fetches, each described by `FETCH_NUMBERS` integers.
        wrap: row indices are taken modulo `limit`.
    """

    base: int
    step: int
    limit: int
    parts: Ints = ()
    wrap: bool = False
    divisor: int = 1


class MaskPadding(AlongDim):
    """The fill value for rows at global index `size` or higher."""

    size: int
    fill: Number


class Reshard(Attributes):
    """A change of sharding of a tensor with global shape `shape`."""

    source: Sharding
    target: Sharding
    shape: Ints


class UpdateHalo(Attributes):
    """The sharding, including the halo, of a tensor with global shape `shape`."""

    sharding: Sharding
    shape: Ints


class Transfer(Attributes):
    """Attributes of the send or the receive of a transfer between two meshes.

    Fields:
        channel: a number that identifies the transfer on both meshes.
        peer: the other mesh.
        shape: the global shape of the value.
        source, target: the shardings on the sending and on the receiving mesh; None until propagation has chosen them.
    """

    channel: int
    peer: Mesh
    shape: Ints
    source: Sharding | None = None
    target: Sharding | None = None


ROLES = ("root", "destination", "source")
"""Fields that name a device of each group."""


def axes_of(attrs: Attributes) -> Names:
    """Return the mesh axes that an operation's device groups span, outer to inner, or () if it has no groups."""
    return attrs.get("axes") or ()


def reduction_of(attrs: Attributes) -> str:
    """Return the kind of a reduction over device groups, or "" if the operation does not reduce."""
    return attrs.get("kind", "")


def places_of(attrs: Attributes) -> dict[str, Place]:
    """Return the devices of each group that an operation names, by role (`ROLES`)."""
    return {role: place for role in ROLES if isinstance(place := attrs.get(role), int | tuple)}
