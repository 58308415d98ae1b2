"""Attributes of annotations, collectives, resharding, coordinates of devices and transfers between meshes."""

from __future__ import annotations

from typing import Any

from meshgen.ir.attributes.base import Attributes, Flags, Ints, Names, Number, Place
from meshgen.mesh import Mesh
from meshgen.spec import Sharding


class Annotate(Attributes):
    """A user's annotation: required or a hint; for the producer (`as_result`) or only for the uses.

    `open_dims`: per dim whether propagation may add axes; empty: it may not.
    """

    sharding: Sharding
    required: bool = True
    as_result: bool = False
    open_dims: Flags = ()


class ShardingGroup(Attributes):
    """The number of a group whose members are sharded alike."""

    group: int


class Barrier(Attributes):
    """In which direction shardings may pass: NONE, FORWARD, BACKWARD or BOTH."""

    direction: str


class OverAxes(Attributes):
    """The mesh axes of the groups, outer to inner."""

    axes: Names


class AllReduce(OverAxes):
    """`kind`: sum, product, max, min, and, or, xor."""

    kind: str


class AlongDim(OverAxes):
    """The dim along which tiles are put together, or cut."""

    dim: int


class ReduceScatter(AlongDim):
    """`kind` as in `AllReduce`."""

    kind: str


class AllToAll(OverAxes):
    """Tiles are cut along `split_dim` and put together along `concat_dim`."""

    split_dim: int
    concat_dim: int


class Broadcast(OverAxes):
    """From device `root` of each group."""

    root: Place


class Rooted(AlongDim):
    """Gathered to device `root` of each group, or scattered from it."""

    root: Place


class ReduceTo(AllReduce):
    """To device `root` of each group."""

    root: Place


class Send(OverAxes):
    """To device `destination` of each group."""

    destination: Place


class Recv(OverAxes):
    """From device `source` of each group, to `destination`."""

    source: Place | None = None
    destination: Place | None = None


class Shift(OverAxes):
    """By `offset` devices along `shift_axis`; the last ones pass theirs to the first where they `rotate`."""

    shift_axis: str
    offset: int
    rotate: bool = False


class PermutePairs(OverAxes):
    """From each first number of a device to the second."""

    pairs: Any


class FetchRows(AlongDim):
    """Device i of a group needs rows from (i step + base) / divisor on, rounded up; those from `limit` on do not exist (`ccl/halo.py`).

    Fields:
        parts: instead, the numbers (`FETCH_NUMBERS` each) of the parts of its rows.
        wrap: rows are counted modulo `limit`.
    """

    base: int
    step: int
    limit: int
    parts: Ints = ()
    wrap: bool = False
    divisor: int = 1


class MaskPadding(AlongDim):
    """Rows from `size` on of the whole dim become `fill`."""

    size: int
    fill: Number


class Reshard(Attributes):
    """From one sharding of a tensor of a global shape to another."""

    source: Sharding
    target: Sharding
    shape: Ints


class UpdateHalo(Attributes):
    """The sharding with halo of a tensor of a global shape."""

    sharding: Sharding
    shape: Ints


class Transfer(Attributes):
    """One side of a value's way to another mesh.

    Fields:
        channel: the number that both sides have.
        peer: the mesh of the other side.
        shape: of the whole value.
        source, target: its shardings on the sending and on the receiving mesh; None until propagation has chosen them.
    """

    channel: int
    peer: Mesh
    shape: Ints
    source: Sharding | None = None
    target: Sharding | None = None


ROLES = ("root", "destination", "source")
"""Fields that name a device of each group."""


def axes_of(attrs: Attributes) -> Names:
    """The mesh axes along which an operation has groups, outer to inner; none where it has no groups."""
    return attrs.get("axes") or ()


def reduction_of(attrs: Attributes) -> str:
    """The kind of a reduction over groups; empty where nothing is reduced."""
    return attrs.get("kind", "")


def places_of(attrs: Attributes) -> dict[str, Place]:
    """The devices of each group that an operation names, by what they are to it (`ROLES`)."""
    return {role: place for role in ROLES if isinstance(place := attrs.get(role), int | tuple)}
