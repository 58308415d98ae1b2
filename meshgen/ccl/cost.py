"""The cost of a collective: bytes per device on a ring, and seconds on the links that its groups use
(`meshgen/ccl/links.py`).

A device moves the following bytes in a group of n devices. Tiles include their padding, so "full" is n times a tile.
- all_reduce: 2 (n-1)/n of the operand
- all_gather, reduce_scatter: (n-1)/n of the full value
- all_to_all: (n-1)/n of the local value
- permute, retile, halo exchange: the larger of the bytes sent and received
- transfer between meshes: the bytes that this side sends or receives
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from meshgen.ccl.exchange import Exchange, exchange, with_summand_dim
from meshgen.ccl.halo import parts_of, rows_moved
from meshgen.ccl.links import seconds_along
from meshgen.ccl.mesh_transfers import Ends, between, seconds_of_bytes
from meshgen.ir.graph import TensorType
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.mesh import Mesh, overlaps, split_ref
from meshgen.ops.classes import LOCAL_OPS, RESHARDS
from meshgen.spec import Sharding

MESSAGES = ("send", "recv")  # `send` and `recv` match in FIFO order, so a pass must not reorder them.


class _Call(NamedTuple):
    """A collective with attributes, local types of operand and result, and devices per group (see `_RING`)."""

    attrs: Mapping[str, Any]
    local_in: TensorType
    local_out: TensorType
    group: int


def _block_bytes(call: _Call) -> int:
    """Return the bytes of the block that a device sends to one other device in an all_to_all, including padding."""
    split = call.attrs["split_dim"]
    shape = list(call.local_in.sizes)
    shape[split] = call.local_out.sizes[split]
    if split == call.attrs["concat_dim"]:
        shape[split] = -(-call.local_in.sizes[split] // call.group)
    return call.local_in.with_shape(shape).nbytes


def _one_message(call: _Call) -> int:
    return max(call.local_in.nbytes, call.local_out.nbytes)


def _fetched_rows(call: _Call) -> int:
    dim = call.attrs["dim"]
    parts = parts_of(call.attrs, call.local_in.sizes[dim], call.local_out.sizes[dim], call.group)
    return rows_moved([part.fetch for part in parts])


def _row_bytes(call: _Call) -> int:
    """Return the bytes of one row of the operand along attribute `dim`, on one device."""
    return call.local_in.with_shape(s for d, s in enumerate(call.local_in.sizes) if d != call.attrs["dim"]).nbytes


_RING: dict[str, Callable[[_Call], int]] = {
    "all_reduce": lambda c: -(-2 * (c.group - 1) * c.local_in.nbytes // c.group),
    "all_gather": lambda c: (c.group - 1) * c.local_in.nbytes,
    "reduce_scatter": lambda c: (c.group - 1) * c.local_out.nbytes,
    "all_to_all": lambda c: (c.group - 1) * _block_bytes(c),
    "fetch_rows": lambda c: _fetched_rows(c) * _row_bytes(c),
    "gather_to": lambda c: (c.group - 1) * c.local_in.nbytes,
    "scatter_from": lambda c: (c.group - 1) * c.local_out.nbytes,
    "broadcast": _one_message,
    "reduce_to": _one_message,
    "send": _one_message,
    "recv": _one_message,
    "shift": _one_message,
    "permute_pairs": _one_message,
}


def ring_bytes(op: str, attrs: Mapping[str, Any], local_in: TensorType, local_out: TensorType, mesh: Mesh) -> int:
    """Return the bytes that each device moves in a collective (see the module's docstring).

    Ops without communication and groups of one device move none.

    Args:
        local_in, local_out: types of a device's operand and result.
    """
    if op in LOCAL_OPS:
        return 0
    if op in RESHARDS:
        transferred = transfer_of(op, attrs, mesh)
        return transferred.elements * local_out.numpy_dtype.itemsize
    if op in BETWEEN_MESHES:
        sent, received = between(Ends.of(op, attrs, mesh))
        return (
            sent * local_in.numpy_dtype.itemsize if op == "transfer_send" else received * local_out.numpy_dtype.itemsize
        )
    group = _group_size(mesh, group_axes(op, attrs))
    return _RING[op](_Call(attrs, local_in, local_out, group)) if group > 1 else 0


def collective_seconds(
    op: str, attrs: Mapping[str, Any], local_in: TensorType, local_out: TensorType, mesh: Mesh
) -> float:
    """Return the seconds that a collective takes on idle links."""
    return seconds_of(op, attrs, ring_bytes(op, attrs, local_in, local_out, mesh), mesh)


def seconds_of(op: str, attrs: Mapping[str, Any], moved: int, mesh: Mesh) -> float:
    """Return the seconds that a collective takes on idle links if each device moves `moved` bytes."""
    if not moved:
        return 0.0
    if op in BETWEEN_MESHES:
        sides = between(Ends.of(op, attrs, mesh))  # The transfer takes as long as its slower side.
        return seconds_of_bytes(moved * max(sides) // sides[op == "transfer_recv"], mesh)
    return seconds_along(op, moved, mesh, *axes_and_peers(op, attrs, mesh))


def axes_and_peers(op: str, attrs: Mapping[str, Any], mesh: Mesh) -> tuple[tuple[str, ...], int]:
    """Return the mesh axes along which a collective forms groups, and the number of a device's peers.

    Peers are the devices to which it sends separate messages, including itself; 0 for ring and tree algorithms.
    """
    if op in RESHARDS:
        return _transfer_links(*transfer_ends(op, attrs), tuple(attrs["shape"]), mesh)
    axes = group_axes(op, attrs)
    return axes, _group_size(mesh, axes) if op == "all_to_all" else 0


@lru_cache(maxsize=1024)
def _group_size(mesh: Mesh, axes: tuple[str, ...]) -> int:
    return mesh.group_size(axes)


@lru_cache(maxsize=4096)
def _transfer_links(
    source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh
) -> tuple[tuple[str, ...], int]:
    """Return the mesh axes along which a transfer moves data, and the most source tiles from which a device fetches."""
    return moving_axes(source, target, shape, mesh), exchange(source, target, shape, mesh).peers


def transfer_of(op: str, attrs: Mapping[str, Any], mesh: Mesh) -> Exchange:
    """Return the numbers of elements that a permute, retile or halo exchange moves per device."""
    source, target = transfer_ends(op, attrs)
    return exchange(source, target, tuple(attrs["shape"]), mesh)


def transfer_ends(op: str, attrs: Mapping[str, Any]) -> tuple[Sharding, Sharding]:
    """Return the source and the target sharding of a permute, retile or halo exchange."""
    if op == "update_halo":
        return replace(attrs["sharding"], halo=()), attrs["sharding"]
    return attrs["source"], attrs["target"]


def group_axes(op: str, attrs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the axes along which the devices of a collective form groups."""
    return (attrs["shift_axis"],) if op == "shift" else tuple(attrs["axes"])


def link_axes(op: str, attrs: Mapping[str, Any], mesh: Mesh) -> tuple[str, ...]:
    """Return the mesh axes whose links a collective uses. Axes of size 1 have no links."""
    if op in BETWEEN_MESHES:
        return ()
    axes = (
        moving_axes(*transfer_ends(op, attrs), tuple(attrs["shape"]), mesh) if op in RESHARDS else group_axes(op, attrs)
    )
    return tuple(axis for axis in axes if _group_size(mesh, (axis,)) > 1)


def moving_axes(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> tuple[str, ...]:
    """Return the mesh axes along which a transfer moves data.

    Major-most axes of a dim that split it into the same tiles on both sides move no data and are left out. If the two
    shardings contain overlapping sub-axes of an axis, the result contains the entire axis.
    """
    source, target, shape = with_summand_dim(source, target, shape, mesh)
    moved: list[str] = []
    for dim, size in enumerate(shape):
        left, right = source.dims[dim], target.dims[dim]
        prefix = _kept_prefix(left, right, size, mesh)
        if _is_plain(source, dim) and _is_plain(target, dim):
            left, right = left[prefix:], right[prefix:]
        elif _halo_and_offsets(source, dim) == _halo_and_offsets(target, dim) and left == right:
            continue
        moved += [*left, *right]
    overlapping = {split_ref(a)[0] for a, b in itertools.permutations(dict.fromkeys(moved), 2) if overlaps(a, b)}
    moving = (split_ref(ref)[0] if split_ref(ref)[0] in overlapping else ref for ref in moved)
    return tuple(sorted(dict.fromkeys(moving), key=mesh.order))


def _is_plain(sharding: Sharding, dim: int) -> bool:
    halo, offsets = _halo_and_offsets(sharding, dim)
    return not any(halo) and not offsets


def _halo_and_offsets(sharding: Sharding, dim: int) -> tuple[tuple[int, int], tuple[int, ...]]:
    """Return the halo (rows before, rows after) and the uneven tile offsets of dim `dim`."""
    return (sharding.halo or ((0, 0),) * sharding.rank)[dim], (sharding.offsets or ((),) * sharding.rank)[dim]


def _kept_prefix(left: tuple[str, ...], right: tuple[str, ...], size: int, mesh: Mesh) -> int:
    """Return how many leading axes `left` and `right` share that also split a dim of `size` into equal tiles."""
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    if left == right:
        return count
    parts = [mesh.group_size(axes) for axes in (left, right)]
    while count:
        outer = mesh.group_size(left[:count])
        tile = -(-size // outer)
        if all(tile == math.ceil(size / p) * (p // outer) for p in parts):
            return count
        count -= 1
    return 0
