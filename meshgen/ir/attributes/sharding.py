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
    """Attributes of `sharding_group`: the id of the group. All values of a group get the same sharding."""

    group: int


class Barrier(Attributes):
    """Attributes of a propagation barrier: `direction` (NONE, FORWARD, BACKWARD or BOTH) is the only permitted
    direction.
    """

    direction: str


class OverAxes(Attributes):
    """Base class of the attributes of collectives: the mesh axes that each device group spans, outer to inner."""

    axes: Names


class AllReduce(OverAxes):
    """Attributes of `all_reduce`: the reduction kind, which is sum, product, max, min, and, or, xor."""

    kind: str


class AlongDim(OverAxes):
    """Attributes of collectives along one dim: tiles are concatenated or sliced along it."""

    dim: int


class ReduceScatter(AlongDim):
    """Attributes of `reduce_scatter`: the scattered dim, and the reduction kind (see `AllReduce`)."""

    kind: str


class AllToAll(OverAxes):
    """Attributes of `all_to_all`: the dim along which each tile is split, and the dim along which tiles are
    concatenated.
    """

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
    """Attributes of a shift: each device sends its tile to the device `offset` further along `shift_axis`.

    With `rotate`, the shift wraps around at the end of the axis.
    """

    shift_axis: str
    offset: int
    rotate: bool = False


class PermutePairs(OverAxes):
    """Attributes of a permutation: the (source, target) pairs of device ids."""

    pairs: Any


class FetchRows(AlongDim):
    """Attributes of `fetch_rows`, by which each device of a group fetches a range of rows from the tiles of all
    devices.

    The range of device i starts at row ceil((i * step + base) / divisor) and has as many rows as the result
    (`ccl/halo.py`). Rows from `limit` on do not exist.

    Fields:
        parts: several ranges instead of one, each given by `FETCH_NUMBERS` integers. They replace the other fields.
        wrap: row indices are taken modulo `limit`.
    """

    base: int
    step: int
    limit: int
    parts: Ints = ()
    wrap: bool = False
    divisor: int = 1


class MaskPadding(AlongDim):
    """Attributes of `mask_padding`: rows at global index `size` or higher are set to `fill`."""

    size: int
    fill: Number


class Reshard(Attributes):
    """Attributes of `reshard`: a tensor of global shape `shape` changes from sharding `source` to sharding `target`."""

    source: Sharding
    target: Sharding
    shape: Ints


class UpdateHalo(Attributes):
    """Attributes of a halo update: the sharding of the tensor, including the halo sizes, and its global shape."""

    sharding: Sharding
    shape: Ints


class Transfer(Attributes):
    """Attributes of the send or the receive of a transfer between two meshes.

    Fields:
        channel: the id that the send and the receive of one transfer share.
        peer: the mesh at the other end of the transfer.
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
    """Return the mesh axes that the device groups of a collective span, outer to inner, or () for ops without groups."""
    return attrs.get("axes") or ()


def reduction_of(attrs: Attributes) -> str:
    """Return the reduction kind of a collective, or "" if the collective does not reduce."""
    return attrs.get("kind", "")


def devices_by_role(attrs: Attributes) -> dict[str, Place]:
    """Return the devices that a collective names, for example {"root": 0}. The keys are from `ROLES`."""
    return {role: place for role in ROLES if isinstance(place := attrs.get(role), int | tuple)}
