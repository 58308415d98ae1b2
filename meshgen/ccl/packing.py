"""Bytes of scratch and of local memory traffic that a lowered collective needs, computed without lowering it.

All values are the maximum over the devices of the mesh, because all devices run the same plan. If several devices share
the messages of a transfer, the values are upper bounds. The time to compute them does not depend on mesh axes that take
no part in the collective.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from meshgen.ccl.collective import Collective, leading
from meshgen.ccl.cost import transfer_ends
from meshgen.ccl.exchange import with_summand_dim
from meshgen.ccl.halo import most_kept, most_rows, parts_of
from meshgen.ccl.lower_groups import is_plain_gather, native_of
from meshgen.ccl.lower_moves import Blocks
from meshgen.ccl.mesh_transfers import Ends, between
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.predicates import is_transfer_send
from meshgen.mesh import Mesh, split_ref
from meshgen.ops.classes import RETILING
from meshgen.spec import Sharding


class Packing(NamedTuple):
    """Bytes of scratch, and bytes that local copies, fills and reductions access, both on the busiest device."""

    scratch_bytes: int
    local_bytes: int


_NOTHING = Packing(0, 0)
# Largest group, in devices, whose rows are counted exactly; larger groups get an upper bound. Measured: `most_rows` of
# one fetch takes 20 ms at this size.
COUNTED_DEVICES = 1 << 16
# Bytes; alignment of each operand's scratch in a variadic collective (chosen: a multiple of all element sizes).
SCRATCH_ALIGNMENT = 16


def aligned(nbytes: int) -> int:
    """Round `nbytes` up to a multiple of `SCRATCH_ALIGNMENT`."""
    return -(-nbytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


def packing(collective: Collective) -> Packing:
    """Return the scratch and traffic of a collective. For a variadic collective, they are sums over its operands."""
    calls = collective.calls
    if len(calls) == 1:
        return _PACKINGS[collective.op](collective)
    packings = [packing(call) for call in calls]
    return Packing(
        sum(aligned(call_packing.scratch_bytes) for call_packing in packings),
        sum(call_packing.local_bytes for call_packing in packings),
    )


def _copied(collective: Collective) -> Packing:
    """Return the scratch and traffic of copying the operand to the result."""
    return Packing(0, collective.operands[0].nbytes + collective.results[0].nbytes)


def _all_reduce(collective: Collective) -> Packing:
    """Return the scratch and traffic of an all_reduce.

    If NCCL lacks the reduction, each device reduces one part of all operands.
    """
    count, (source,), (target,) = collective.group_size, collective.operands, collective.results
    if count == 1:
        return _copied(collective)
    if native_of(collective):
        return _NOTHING
    part = -(-source.size // count)
    summand, total = (part * kind.numpy_dtype.itemsize for kind in (source, target))
    return Packing((count - 1) * summand, count * summand + total)


def _reduce_to(collective: Collective) -> Packing:
    """Return the scratch and traffic of a reduce_to. If NCCL lacks the reduction, the root receives all operands."""
    count, (source,), (target,) = collective.group_size, collective.operands, collective.results
    if count == 1:
        return _copied(collective)
    if native_of(collective):
        return _NOTHING
    return Packing((count - 1) * source.nbytes, count * source.nbytes + target.nbytes)


def _all_gather(collective: Collective) -> Packing:
    count, (source,), (target,) = collective.group_size, collective.operands, collective.results
    if count == 1:
        return _copied(collective)
    if is_plain_gather(collective, collective.operand, collective.result):
        return _NOTHING
    if leading(target.sizes, collective.attrs.dim) == 1:
        return Packing(0, 2 * source.nbytes)
    return Packing(count * source.nbytes, 2 * target.nbytes)


def _reduce_scatter(collective: Collective) -> Packing:
    count, (source,), (target,) = collective.group_size, collective.operands, collective.results
    if count == 1:
        return _copied(collective)
    if native_of(collective):
        is_plain = is_plain_gather(collective, collective.result, collective.operand)
        return _NOTHING if is_plain else Packing(count * target.nbytes, 2 * source.nbytes)
    tile = target.size * source.numpy_dtype.itemsize
    packed = (count - 1) * tile if leading(source.sizes, collective.attrs.dim) > 1 else 0
    return Packing(packed + (count - 1) * tile, 2 * packed + count * tile + target.nbytes)


def _broadcast_packing(collective: Collective) -> Packing:
    return _copied(collective) if collective.group_size == 1 else _NOTHING


def _all_to_all(collective: Collective) -> Packing:
    """Return the scratch and traffic of an all_to_all. Non-contiguous blocks of operand and result are copied."""
    blocks, count = Blocks.of(collective), collective.group_size
    if count > 1 and blocks.are_plain:
        return _NOTHING
    tiles = _representative_tiles(blocks.operand.shape[blocks.split], blocks.rows, count)
    tiles |= _representative_tiles(blocks.result.shape[blocks.concat], blocks.width, count)
    pairs = [(sender, receiver) for sender in tiles for receiver in tiles]
    block = max(blocks.sent(*pair).nbytes for pair in pairs)
    packed_sides = sum(any(not box(*pair).is_contiguous for pair in pairs) for box in (blocks.sent, blocks.received))
    return Packing((count - 1) * packed_sides * block, 2 * block * (1 + (count - 1) * packed_sides))


def _representative_tiles(size: int, rows: int, count: int) -> set[int]:
    """Return indices of tiles of `rows` rows in a dim of `size` that include a full, a short and an empty tile, if any."""
    full = size // rows if rows else 0
    return {index for index in (0, full - 1, full, full + 1, count - 1) if 0 <= index < count}


def _fetch_rows(collective: Collective) -> Packing:
    source, target, dim = collective.operands[0], collective.results[0], collective.attrs.dim
    tile, rows = source.sizes[dim], target.sizes[dim]
    row = math.prod(target.sizes[:dim] + target.sizes[dim + 1 :]) * source.numpy_dtype.itemsize
    fetches = [part.fetch for part in parts_of(collective.attrs, tile, rows, collective.group_size)]
    is_small = collective.group_size <= COUNTED_DEVICES
    if leading(source.sizes, dim) == 1:
        return Packing(0, 2 * (most_kept(fetches) if is_small else rows) * row)
    received, sent = most_rows(fetches) if is_small else (rows, sum(fetch.most_sent() for fetch in fetches))
    return Packing((received + sent) * row, 2 * (rows + sent) * row)


def _rooted(collective: Collective) -> Packing:
    """Return the scratch and traffic of a gather_to or scatter_from, on the root, which packs or unpacks the most."""
    tile = min(collective.operands[0], collective.results[0], key=lambda kind: kind.size).nbytes
    peers = collective.group_size - 1 if leading(collective.operands[0].sizes, collective.attrs.dim) > 1 else 0
    return Packing(peers * tile, 2 * (1 + peers) * tile)


def _shift_packing(collective: Collective) -> Packing:
    count, offset = collective.group_size, collective.attrs.offset
    is_copy = offset % count == 0 if collective.attrs.rotate else offset == 0
    return _copied(collective) if is_copy else _NOTHING


def _permute_pairs(collective: Collective) -> Packing:
    pairs = collective.attrs.pairs
    if any(source == target for source, target in pairs):
        return _copied(collective)
    return Packing(0, collective.results[0].nbytes if len(pairs) < collective.mesh.size else 0)


def _send(collective: Collective) -> Packing:
    return _copied(collective) if collective.results else _NOTHING


def _recv(collective: Collective) -> Packing:
    source, destination = collective.member_index("source", 0), collective.member_index("destination")
    return _copied(collective) if source == destination else _NOTHING


def _transfer(collective: Collective) -> Packing:
    """Return the scratch and traffic of a permute, retile or halo exchange."""
    (operand,), (result,) = collective.operands, collective.results
    mesh, shape = collective.mesh, tuple(collective.attrs.shape)
    source, target = transfer_ends(collective.op, collective.attrs)
    moved = _Moved.of(*with_summand_dim(source, target, shape, mesh), mesh)
    sent = _most_sent(moved.sent, min(moved.received, operand.size), moved.holders)
    sender, receiver = _Side(source, mesh, operand.sizes), _Side(target, mesh, result.sizes)
    packed = 0 if moved.holders == 1 and sender.is_contiguous(receiver, shape) else sent
    unpacked = 0 if moved.holders == 1 and receiver.is_contiguous(sender, shape) else moved.received
    is_in_place = collective.op not in RETILING and operand == result
    overlap_elements = math.prod(
        map(min, zip(operand.sizes, result.sizes, strict=True))
    )  # elements in the overlap of the source and the target tile
    copied = packed + (result.size if unpacked else overlap_elements) + (unpacked if is_in_place else 0)
    return Packing((packed + unpacked) * result.numpy_dtype.itemsize, 2 * copied * result.numpy_dtype.itemsize)


class _Moved(NamedTuple):
    """Upper bounds on the elements that a device sends and receives in a transfer between shardings.

    `holders` devices hold each source tile and share its work. If the tiles change, elements that a device already
    holds count as received. The bound then needs no loop over devices.
    """

    sent: int
    received: int
    holders: int

    @staticmethod
    def of(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> _Moved:
        keeps_tiles = (
            source.dims == target.dims and source.partial == target.partial and not any(source.offsets + target.offsets)
        )
        requested = received = kept = 1  # products over the dims, in elements
        for dim, size in enumerate(shape):
            source_tile, target_tile = (side.tile(dim, size, mesh) for side in (source, target))
            before, after = target.halo[dim] if target.halo else (0, 0)
            rows, empty_tiles = target_tile + before + after, target.parts(dim, mesh) - -(-size // max(target_tile, 1))
            # Empty tiles are at the end of the dim, and their halo is the rows before the end.
            requested *= (
                rows + before * empty_tiles
                if keeps_tiles
                else source_tile * (-(-rows // max(target_tile, 1)) + (empty_tiles if before else 0))
            )
            received *= rows
            kept *= source_tile if keeps_tiles else 0
        parts = [mesh.group_size(side.split_axes) for side in (source, target)]
        axes = {split_ref(ref)[0] for ref in (*source.split_axes, *target.split_axes)}
        summands = mesh.group_size(ref for ref in source.partial_axes if split_ref(ref)[0] in axes)
        holders = mesh.group_size(axes) // (parts[0] * summands)
        return _Moved(-(-requested * parts[0] // parts[1]) - kept, received - kept, holders)


def _most_sent(shared: int, request: int, holders: int) -> int:
    """Return an upper bound on the elements that a device sends.

    Holders of the same tile each send an equal share, and at most one request more than that (`routes.dealt`).
    """
    return shared if holders == 1 else shared + request


class _Side(NamedTuple):
    """A side of a transfer: sharding of the tensor, mesh, and sizes of a device's buffer."""

    sharding: Sharding
    mesh: Mesh
    sizes: tuple[int, ...]

    def is_contiguous(self, other_side: _Side, shape: Sequence[int]) -> bool:
        """Whether the overlap of any tile with any tile of `other_side` is contiguous in this side's buffer."""
        first = next((dim for dim, size in enumerate(self.sizes) if size > 1), len(self.sizes))
        return all(self._is_within(other_side, dim, shape[dim]) for dim in range(first + 1, len(self.sizes)))

    def _is_within(self, other_side: _Side, dim: int, size: int) -> bool:
        """Whether no tile of dim `dim` on this side has padding or crosses a tile boundary of `other_side`."""
        if any(
            side.sharding.halo or (side.sharding.offsets and side.sharding.offsets[dim]) for side in (self, other_side)
        ):
            return self.sizes[dim] == 1
        tiles = [side.sharding.tile(dim, size, side.mesh) for side in (self, other_side)]
        return size % self.sharding.parts(dim, self.mesh) == 0 and tiles[1] % max(tiles[0], 1) == 0


def _between(collective: Collective) -> Packing:
    """Return the scratch and traffic of one side of a transfer to another mesh, including its order token of one byte."""
    ends = Ends.of(collective.op, collective.attrs, collective.mesh)
    sides = [
        _Side(sharding, mesh, sharding.local_shape(ends.shape, mesh))
        for sharding, mesh in ((ends.source, ends.sender), (ends.target, ends.receiver))
    ]
    sends = is_transfer_send(collective)
    this_side, other_side = sides if sends else sides[::-1]
    kind = collective.operands[0] if sends else collective.results[0]
    holders = ends.sender.size // ends.sender.group_size(ends.source.split_axes)
    sent, received = between(ends)
    moved = _most_sent(sent, min(received, kind.size), holders) if sends else received
    if holders == 1 and this_side.is_contiguous(other_side, ends.shape):
        moved = 0
    nbytes = moved * kind.numpy_dtype.itemsize
    return Packing(nbytes, 2 * nbytes + 1)


_PACKINGS: dict[str, Callable[[Collective], Packing]] = {
    "all_reduce": _all_reduce,
    "reduce_to": _reduce_to,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast_packing,
    "all_to_all": _all_to_all,
    "fetch_rows": _fetch_rows,
    "gather_to": _rooted,
    "scatter_from": _rooted,
    "shift": _shift_packing,
    "permute_pairs": _permute_pairs,
    "send": _send,
    "recv": _recv,
    **dict.fromkeys(("permute", "retile", "update_halo"), _transfer),
    **dict.fromkeys(BETWEEN_MESHES, _between),
}
