"""Lowering of the collectives for which NCCL has a call: reductions, all_gather, reduce_scatter and broadcast.

If NCCL lacks the reduction (`native_reduction`), the devices compute it themselves. Each device reduces one part of
the tensor and receives this part of all operands in one exchange of messages. Each device moves as many bytes as in a
ring.
"""

from __future__ import annotations

from typing import NamedTuple

from meshgen.ccl.collective import Collective, leading
from meshgen.ccl.point_to_point import PointToPoint, Scratch, copies
from meshgen.ccl.steps import Box, Copy, Group, GroupKind, Reduce, Step, dense
from meshgen.ir.graph import COMPLEX_PARTS, is_complex, is_float

# ncclDataType_t without the 8-bit floats: a ring rounds 8-bit sums on every device, and they need NCCL 2.24 and sm_90.
NCCL_TYPES = ("i8", "ui8", "i32", "ui32", "i64", "ui64", "f16", "f32", "f64", "bf16")
NCCL_REDUCTIONS = ("sum", "product", "max", "min")
_OF_BOOLEANS = {"sum": "max", "or": "max", "max": "max", "product": "min", "and": "min", "min": "min"}
# Most NCCL calls in one launch; beyond that, data is copied so that one call suffices. Chosen: each call costs the
# latency of its ring, but no launch of its own.
MOST_CALLS = 8
BYTES = "ui8"  # element type of NCCL calls that only move data


class Native(NamedTuple):
    """A reduction that NCCL supports.

    Attributes:
        reduction: NCCL's operation.
        dtype: NCCL's element type.
        parts: NCCL elements per element of the tensor, for example 2 for complex numbers.
    """

    reduction: str
    dtype: str
    parts: int = 1


def native_reduction(kind: str, source: str, target: str) -> Native | None:
    """Return the NCCL reduction that maps `source` elements to `target` elements.

    Returns None if NCCL has no reduction with the semantics of `kind` on these types.
    """
    if source != target:
        return None
    if source == "i1" and kind in _OF_BOOLEANS:  # An i1 element is a byte with value 0 or 1.
        return Native(_OF_BOOLEANS[kind], "ui8")
    if is_complex(source) and kind == "sum":
        return Native("sum", COMPLEX_PARTS[source], 2)
    # If one operand of max or min is NaN, NCCL returns the other operand, but the IR returns NaN.
    if kind in ("max", "min") and is_float(source):
        return None
    return Native(kind, source) if source in NCCL_TYPES and kind in NCCL_REDUCTIONS else None


def native_of(collective: Collective) -> Native | None:
    """Return the NCCL reduction of a reducing collective, or None if NCCL lacks it."""
    return native_reduction(collective.attrs.kind, collective.operands[0].dtype, collective.results[0].dtype)


def all_reduce(collective: Collective, rank: int) -> list[Step]:
    if collective.group_size == 1:
        return converted(collective, collective.operand, collective.result)
    if native := native_of(collective):
        return [_call(collective, native, "all_reduce", 0)]
    return _reduced_in_parts(collective, rank)


def reduce_to(collective: Collective, rank: int) -> list[Step]:
    """Lower a reduce_to, in which only the root gets a result. If NCCL lacks the reduction, the root computes it."""
    root = collective.member_index("root")
    if collective.group_size == 1:
        return converted(collective, collective.operand, collective.result)
    if native := native_of(collective):
        return [_call(collective, native, "reduce", root)]
    members, index, source = collective.members(rank), collective.index(rank), collective.operand
    if index != root:
        return PointToPoint(collective.axes, [(members[root], source)]).steps()
    scratch = Scratch()
    summands = [source if i == root else scratch.take(source.dtype, source.shape) for i in range(len(members))]
    receives = [(peer, summands[i]) for i, peer in enumerate(members) if i != root]
    reduce = Reduce(tuple(summands), collective.result, collective.attrs.kind)
    return [*PointToPoint(collective.axes, [], receives).steps(), reduce]


def _call(collective: Collective, native: Native, kind: GroupKind, root: int) -> Group:
    """Return the NCCL call of type `kind` that reduces the entire operand."""
    source, target = collective.operand, collective.result
    count = source.size * native.parts
    return Group(kind, native.reduction, native.dtype, count, source, target, collective.axes, root)


def converted(collective: Collective, source: Box, target: Box) -> list[Step]:
    """Return the step for a group of one device: copy `source` to `target`, and convert the element type."""
    if source.dtype == target.dtype:
        return [Copy(source, target)]
    return [Reduce((source,), target, collective.attrs.kind)]


def _reduced_in_parts(collective: Collective, rank: int) -> list[Step]:
    """Lower an all_reduce that NCCL lacks: device i reduces part i of all operands, then all devices gather all parts."""
    members, index = collective.members(rank), collective.index(rank)
    source, target = _flat_box(collective.operand), _flat_box(collective.result)
    length = -(-source.size // len(members))
    bounds = [(min(i * length, source.size), min((i + 1) * length, source.size)) for i in range(len(members))]
    peers = [(i, peer) for i, peer in enumerate(members) if i != index]
    parts = [(peer, source.flat(*bounds[i])) for i, peer in peers]
    scratch = Scratch()
    summands = {i: scratch.take(source.dtype, (bounds[index][1] - bounds[index][0],)) for i, _ in peers}
    first = PointToPoint(collective.axes, parts, [(peer, summands[i]) for i, peer in peers])
    summands[index] = source.flat(*bounds[index])
    reduced_part = target.flat(*bounds[index])
    reduce = Reduce(tuple(summands[i] for i in range(len(members))), reduced_part, collective.attrs.kind)
    second = PointToPoint(
        collective.axes,
        [(peer, reduced_part) for _, peer in peers],
        [(peer, target.flat(*bounds[i])) for i, peer in peers],
    )
    return [*first.steps(), *([reduce] if reduced_part.size else []), *second.steps()]


def _flat_box(box: Box) -> Box:
    return dense(box.buffer, box.dtype, (box.size,))


def is_plain_gather(collective: Collective, tiles: Box, joined: Box) -> bool:
    """Whether at most `MOST_CALLS` NCCL calls can gather `tiles` directly into `joined`, without packing copies."""
    dim = collective.attrs.dim
    is_whole = joined.shape[dim] == collective.group_size * tiles.shape[dim]
    return is_whole and leading(joined.shape, dim) <= MOST_CALLS


def runs(box: Box, dim: int) -> list[Box]:
    """Split a contiguous view into equal runs, one per combination of indices of the dims before `dim`."""
    count = leading(box.shape, dim)
    length = box.size // count if count else 0
    return [box.flat(i * length, (i + 1) * length) for i in range(count)]


def blocks(box: Box, dim: int, rows: int) -> list[tuple[int, Box]]:
    """Split a view into blocks of `rows` rows along dim `dim`. A new leading dim is the index of the block.

    Returns at most two pairs (index of the first block, view): one for all full blocks, one for the remainder.
    """
    count, rest = divmod(box.shape[dim], rows) if rows else (0, 0)
    views: list[tuple[int, Box]] = []
    for first, block_count, length in ((0, count, rows), (count, min(rest, 1), rest)):
        part = box.rows(dim, first * rows, first * rows + length)
        strides = (rows * box.strides[dim], *part.strides)
        views.append((first, Box(box.buffer, box.dtype, part.offset, (block_count, *part.shape), strides)))
    return [(first, block) for first, block in views if block.size]


def block_copies(box: Box, dim: int, dense_blocks: Box) -> list[tuple[Box, Box]]:
    """Pair the blocks of `box` with the views of `dense_blocks`, of shape [block, ...], that hold the same elements."""
    rows = dense_blocks.shape[dim + 1]
    return [(block, dense_blocks.part([(first, first + block.shape[0]), *((0, n) for n in block.shape[1:])]))
            for first, block in blocks(box, dim, rows)]  # fmt: skip


def all_gather(collective: Collective, rank: int) -> list[Step]:
    """Lower an all_gather.

    NCCL writes directly to the result if the tiles are contiguous in it and have no padding. Otherwise devices receive
    tiles as messages, or unpack them from scratch.
    """
    source, target, dim = collective.operand, collective.result, collective.attrs.dim
    count, rows = collective.group_size, source.shape[dim]
    if count == 1:
        return copies([(source.rows(dim, 0, target.shape[dim]), target)])
    if is_plain_gather(collective, source, target):
        return [_gather(collective, *run) for run in zip(runs(source, dim), runs(target, dim), strict=True)]
    if leading(target.shape, dim) == 1:
        return _gathered_by_messages(collective, rank)
    scratch = Scratch().take(source.dtype, (count, *source.shape))
    pairs = block_copies(target, dim, scratch)
    return [_gather(collective, source, scratch), *copies((there, here) for here, there in pairs)] if rows else []


def _gather(collective: Collective, source: Box, target: Box) -> Group:
    return Group("all_gather", "", BYTES, source.nbytes, source, target, collective.axes)


def _gathered_by_messages(collective: Collective, rank: int) -> list[Step]:
    """Lower an all_gather to messages: every device sends the valid rows of its tile to all other devices."""
    source, target, dim = collective.operand, collective.result, collective.attrs.dim
    members, index = collective.members(rank), collective.index(rank)
    slots = [rows_of(i, source.shape[dim], target, dim) for i in range(len(members))]
    source_rows = source.rows(dim, 0, slots[index].shape[dim])
    peers = [(i, peer) for i, peer in enumerate(members) if i != index]
    exchange = PointToPoint(collective.axes, local_copies=[(source_rows, slots[index])])
    exchange.sends = [(peer, source_rows) for _, peer in peers]
    exchange.receives = [(peer, slots[i]) for i, peer in peers]
    return exchange.steps()


def rows_of(index: int, tile: int, joined: Box, dim: int) -> Box:
    """Return the view of tile `index` in the gathered tensor `joined`, without rows past the end of `joined`."""
    return joined.rows(dim, *tile_rows(index, tile, joined.shape[dim]))


def tile_rows(index: int, tile: int, size: int) -> tuple[int, int]:
    """Return the rows [start, stop) of tile `index` in a dim of size `size`, if tiles have `tile` rows.

    The last tiles may be short or empty.
    """
    return min(index * tile, size), min((index + 1) * tile, size)


def reduce_scatter(collective: Collective, rank: int) -> list[Step]:
    source, target, dim = collective.operand, collective.result, collective.attrs.dim
    count = collective.group_size
    if count == 1:
        return converted(collective, source, target.rows(dim, 0, source.shape[dim]))
    native = native_of(collective)
    if native is None:
        return _scattered_in_parts(collective, rank)
    if is_plain_gather(collective, target, source):
        pairs = zip(runs(source, dim), runs(target, dim), strict=True)
        return [_scatter(collective, native, *pair) for pair in pairs]
    staged = Scratch().take(source.dtype, (count, *target.shape))
    packed = copies(block_copies(source, dim, staged)) if target.size else []
    return [*packed, _scatter(collective, native, staged, target)]


def _scatter(collective: Collective, native: Native, source: Box, target: Box) -> Group:
    count = target.size * native.parts
    return Group("reduce_scatter", native.reduction, native.dtype, count, source, target, collective.axes)


def _scattered_in_parts(collective: Collective, rank: int) -> list[Step]:
    """Lower a reduce_scatter whose reduction NCCL lacks.

    Each device sends to every other device the tile that this device reduces, and then reduces the received tiles.
    """
    source, target, dim = collective.operand, collective.result, collective.attrs.dim
    members, index = collective.members(rank), collective.index(rank)
    tiles = [rows_of(i, target.shape[dim], source, dim) for i in range(len(members))]
    peers = [(i, peer) for i, peer in enumerate(members) if i != index]
    scratch = Scratch()
    summands = {i: scratch.take(source.dtype, tiles[index].shape) for i, _ in peers}
    exchange = PointToPoint(collective.axes, [(peer, tiles[i]) for i, peer in peers],
                        [(peer, summands[i]) for i, peer in peers])  # fmt: skip
    summands[index] = tiles[index]
    steps = exchange.steps(scratch)
    if not tiles[index].size:
        return steps
    result_rows = target.rows(dim, 0, tiles[index].shape[dim])
    return [*steps, Reduce(_in_rank_order(summands), result_rows, collective.attrs.kind)]


def _in_rank_order(boxes: dict[int, Box]) -> tuple[Box, ...]:
    return tuple(boxes[index] for index in sorted(boxes))


def broadcast(collective: Collective, rank: int) -> list[Step]:
    source, target = collective.operand, collective.result
    if collective.group_size == 1:
        return [Copy(source, target)]
    root = collective.member_index("root")
    return [Group("broadcast", "", BYTES, source.nbytes, source, target, collective.axes, root)]
