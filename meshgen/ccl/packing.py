"""Device memory and local traffic of lowered collectives, without lowering them: scratch, and bytes copied.

All devices of a mesh have one plan, so these are maxima over devices; of moves between shardings that
several devices share the work of, a bound. Work does not grow with the devices along axes that do not take part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from meshgen.ccl.between import Ends, between
from meshgen.ccl.collective import Collective, leading
from meshgen.ccl.cost import transfer_ends
from meshgen.ccl.exchange import with_summand_dim
from meshgen.ccl.halo import most_kept, most_rows, parts_of
from meshgen.ccl.lower_groups import is_plain_gather, native_of
from meshgen.ccl.lower_moves import Blocks
from meshgen.ir.op_names import BETWEEN_MESHES
from meshgen.ir.predicates import is_transfer_send
from meshgen.mesh import Mesh, split_ref
from meshgen.ops.classes import RETILING
from meshgen.spec import Sharding


class Packing(NamedTuple):
    """Bytes of scratch, and bytes that copies, fills and reductions of the busiest device read and write."""

    scratch_bytes: int
    local_bytes: int


_NOTHING = Packing(0, 0)
COUNTED_DEVICES = (
    1 << 16
)  # in larger groups sends are bounded, not counted, so that plans are checked quickly on any mesh


SCRATCH_ALIGNMENT = (
    16  # bytes: alignment of the scratch of each operand of a group call, a multiple of all element sizes
)


def aligned(nbytes: int) -> int:
    """Aligned bytes of scratch of an operand of a group call."""
    return -(-nbytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


def packing(collective: Collective) -> Packing:
    """The needs of the lowered collective on every device: those of a group call are the sum over its operands."""
    calls = collective.calls
    if len(calls) == 1:
        return _PACKINGS[collective.op](collective)
    found = [packing(call) for call in calls]
    return Packing(sum(aligned(each.scratch_bytes) for each in found), sum(each.local_bytes for each in found))


def _copied(collective: Collective) -> Packing:
    """The operand, or its only tile, becomes the result."""
    return Packing(0, collective.operands[0].nbytes + collective.results[0].nbytes)


def _all_reduce(collective: Collective) -> Packing:
    """In parts where NCCL cannot reduce."""
    count, (source,), (target,) = collective.group_size, collective.operands, collective.results
    if count == 1:
        return _copied(collective)
    if native_of(collective):
        return _NOTHING
    part = -(-source.size // count)
    summand, total = (part * kind.numpy_dtype.itemsize for kind in (source, target))
    return Packing((count - 1) * summand, count * summand + total)


def _reduce_to(collective: Collective) -> Packing:
    """At the root, which has all operands, where NCCL cannot reduce."""
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
    """Whether a block, some of which may be short, is not contiguous in the operand or in the result."""
    blocks, count = Blocks.of(collective), collective.group_size
    if count > 1 and blocks.are_plain:
        return _NOTHING
    ends = _kinds_of_tiles(blocks.operand.shape[blocks.split], blocks.rows, count)
    ends |= _kinds_of_tiles(blocks.result.shape[blocks.concat], blocks.width, count)
    pairs = [(sender, receiver) for sender in ends for receiver in ends]
    block = max(blocks.sent(*pair).nbytes for pair in pairs)
    sides = sum(any(not box(*pair).is_contiguous for pair in pairs) for box in (blocks.sent, blocks.received))
    return Packing((count - 1) * sides * block, 2 * block * (1 + (count - 1) * sides))


def _kinds_of_tiles(size: int, rows: int, count: int) -> set[int]:
    """Numbers of tiles that cover the cases whole, short and empty, as far as they occur."""
    whole = size // rows if rows else 0
    return {number for number in (0, whole - 1, whole, whole + 1, count - 1) if 0 <= number < count}


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
    """A gather_to or scatter_from: the root has the most to pack or unpack."""
    tile = min(collective.operands[0], collective.results[0], key=lambda kind: kind.size).nbytes
    others = collective.group_size - 1 if leading(collective.operands[0].sizes, collective.attrs.dim) > 1 else 0
    return Packing(others * tile, 2 * (1 + others) * tile)


def _shift_packing(collective: Collective) -> Packing:
    count, offset = collective.group_size, collective.attrs.offset
    stays = offset % count == 0 if collective.attrs.rotate else offset == 0
    return _copied(collective) if stays else _NOTHING


def _permute_pairs(collective: Collective) -> Packing:
    pairs = collective.attrs.pairs
    if any(source == target for source, target in pairs):
        return _copied(collective)
    return Packing(0, collective.results[0].nbytes if len(pairs) < collective.mesh.size else 0)


def _send(collective: Collective) -> Packing:
    return _copied(collective) if collective.results else _NOTHING


def _recv(collective: Collective) -> Packing:
    source, destination = collective.place("source", 0), collective.place("destination")
    return _copied(collective) if source == destination else _NOTHING


def _transfer(collective: Collective) -> Packing:
    """A permute, retile or halo exchange."""
    (operand,), (result,) = collective.operands, collective.results
    mesh, shape = collective.mesh, tuple(collective.attrs.shape)
    source, target = transfer_ends(collective.op, collective.attrs)
    moved = _Moved.of(*with_summand_dim(source, target, shape, mesh), mesh)
    sent = _most_sent(moved.sent, min(moved.received, operand.size), moved.holders)
    sender, receiver = _Side(source, mesh, operand.sizes), _Side(target, mesh, result.sizes)
    packed = 0 if moved.holders == 1 and sender.is_contiguous(receiver, shape) else sent
    unpacked = 0 if moved.holders == 1 and receiver.is_contiguous(sender, shape) else moved.received
    stays = collective.op not in RETILING and operand == result
    own = math.prod(map(min, zip(operand.sizes, result.sizes, strict=True)))  # of the overlap of both tiles
    copied = packed + (result.size if unpacked else own) + (unpacked if stays else 0)
    return Packing((packed + unpacked) * result.numpy_dtype.itemsize, 2 * copied * result.numpy_dtype.itemsize)


class _Moved(NamedTuple):
    """At most so many elements a device sends and receives in a move between shardings, where `holders` share the work of a tile.

    Where the tiles change, a device's own part counts as well: then the numbers are found without a look at all devices.
    """

    sent: int
    received: int
    holders: int

    @staticmethod
    def of(source: Sharding, target: Sharding, shape: tuple[int, ...], mesh: Mesh) -> _Moved:
        stays = (
            source.dims == target.dims and source.partial == target.partial and not any(source.offsets + target.offsets)
        )
        asked = received = own = 1  # of the elements of a tile, by all receivers
        for dim, size in enumerate(shape):
            held, wanted = (side.tile(dim, size, mesh) for side in (source, target))
            before, after = target.halo[dim] if target.halo else (0, 0)
            rows, empty = wanted + before + after, target.parts(dim, mesh) - -(-size // max(wanted, 1))
            # Empty tiles are at the end of the dim, and need the rows before it.
            asked *= rows + before * empty if stays else held * (-(-rows // max(wanted, 1)) + (empty if before else 0))
            received *= rows
            own *= held if stays else 0
        parts = [mesh.group_size(side.split_axes) for side in (source, target)]
        axes = {split_ref(ref)[0] for ref in (*source.split_axes, *target.split_axes)}
        summands = mesh.group_size(ref for ref in source.partial_axes if split_ref(ref)[0] in axes)
        holders = mesh.group_size(axes) // (parts[0] * summands)
        return _Moved(-(-asked * parts[0] // parts[1]) - own, received - own, holders)


def _most_sent(shared: int, piece: int, holders: int) -> int:
    """The most that one of the devices sends that share the work of sending a tile: their share, and one piece (`routes.dealt`)."""
    return shared if holders == 1 else shared + piece


class _Side(NamedTuple):
    """The layout of a tensor in the buffers of one side of a move."""

    sharding: Sharding
    mesh: Mesh
    sizes: tuple[int, ...]

    def is_contiguous(self, other: _Side, shape: Sequence[int]) -> bool:
        """Whether the overlap of a tile with one on the other side is contiguous in this side's buffer."""
        first = next((dim for dim, size in enumerate(self.sizes) if size > 1), len(self.sizes))
        return all(self._is_within(other, dim, shape[dim]) for dim in range(first + 1, len(self.sizes)))

    def _is_within(self, other: _Side, dim: int, size: int) -> bool:
        """Whether every tile of a dim on this side has no padding and is within one tile of the other."""
        if any(side.sharding.halo or (side.sharding.offsets and side.sharding.offsets[dim]) for side in (self, other)):
            return self.sizes[dim] == 1
        tiles = [side.sharding.tile(dim, size, side.mesh) for side in (self, other)]
        return size % self.sharding.parts(dim, self.mesh) == 0 and tiles[1] % max(tiles[0], 1) == 0


def _between(collective: Collective) -> Packing:
    """One side of a transfer to another mesh, and its order token, a byte."""
    ends = Ends.of(collective.op, collective.attrs, collective.mesh)
    sides = [
        _Side(sharding, mesh, sharding.local_shape(ends.shape, mesh))
        for sharding, mesh in ((ends.source, ends.sender), (ends.target, ends.receiver))
    ]
    sends = is_transfer_send(collective)
    here, there = sides if sends else sides[::-1]
    kind = collective.operands[0] if sends else collective.results[0]
    holders = ends.sender.size // ends.sender.group_size(ends.source.split_axes)
    sent, received = between(ends)
    moved = _most_sent(sent, min(received, kind.size), holders) if sends else received
    if holders == 1 and here.is_contiguous(there, ends.shape):
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
