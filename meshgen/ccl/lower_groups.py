"""Lowering of collectives that NCCL has: reductions, all_gather, reduce_scatter and broadcast.

Reductions that NCCL lacks (`native_reduction`) are done by the devices themselves: each gets all summands of its part, in
one exchange of messages, which moves the bytes that a ring would.
"""

from __future__ import annotations

from typing import NamedTuple

from meshgen.ccl.collective import Collective, leading
from meshgen.ccl.point_to_point import PointToPoint, Scratch, copies
from meshgen.ccl.steps import Box, Copy, Group, GroupKind, Reduce, Step, dense
from meshgen.ir.graph import COMPLEX_PARTS, is_complex, is_float

# ncclDataType_t without the 8-bit floats: a ring rounds them after every device, and they need NCCL 2.24 and sm_90.
NCCL_TYPES = ("i8", "ui8", "i32", "ui32", "i64", "ui64", "f16", "f32", "f64", "bf16")
NCCL_REDUCTIONS = ("sum", "product", "max", "min")
_OF_BOOLEANS = {"sum": "max", "or": "max", "max": "max", "product": "min", "and": "min", "min": "min"}
MOST_CALLS = (
    8  # of NCCL in one launch rather than a copy: our choice, each costs its ring's latency but none its own launch
)
BYTES = "ui8"  # the type of elements that are moved only


class Native(NamedTuple):
    """A reduction of NCCL: its operation, and of each element `parts` numbers of type `dtype`."""

    reduction: str
    dtype: str
    parts: int = 1


def native_reduction(kind: str, source: str, target: str) -> Native | None:
    """NCCL's reduction of elements of type `source` to `target`; None if it has none with the same semantics."""
    if source != target:
        return None
    if source == "i1" and kind in _OF_BOOLEANS:  # a byte that is 0 or 1
        return Native(_OF_BOOLEANS[kind], "ui8")
    if is_complex(source) and kind == "sum":
        return Native("sum", COMPLEX_PARTS[source], 2)
    if kind in ("max", "min") and is_float(source):  # NCCL gives the other number where one is NaN
        return None
    return Native(kind, source) if source in NCCL_TYPES and kind in NCCL_REDUCTIONS else None


def native_of(collective: Collective) -> Native | None:
    """NCCL's reduction of the operand of a reduction to its result."""
    return native_reduction(collective.attrs.kind, collective.operands[0].dtype, collective.results[0].dtype)


def all_reduce(collective: Collective, rank: int) -> list[Step]:
    if collective.group_size == 1:
        return converted(collective, collective.operand, collective.result)
    if native := native_of(collective):
        return [_call(collective, native, "all_reduce", 0)]
    return _reduced_in_parts(collective, rank)


def reduce_to(collective: Collective, rank: int) -> list[Step]:
    """Only the root's result is written. Reductions that NCCL lacks are done by the root."""
    root = collective.place("root")
    if collective.group_size == 1:
        return converted(collective, collective.operand, collective.result)
    if native := native_of(collective):
        return [_call(collective, native, "reduce", root)]
    members, own, source = collective.members(rank), collective.index(rank), collective.operand
    if own != root:
        return PointToPoint(collective.axes, [(members[root], source)]).steps()
    scratch = Scratch()
    summands = [source if i == root else scratch.take(source.dtype, source.shape) for i in range(len(members))]
    others = [(peer, summands[i]) for i, peer in enumerate(members) if i != root]
    reduce = Reduce(tuple(summands), collective.result, collective.attrs.kind)
    return [*PointToPoint(collective.axes, [], others).steps(), reduce]


def _call(collective: Collective, native: Native, kind: GroupKind, root: int) -> Group:
    """A reduction of NCCL of the whole operand."""
    source, target = collective.operand, collective.result
    count = source.size * native.parts
    return Group(kind, native.reduction, native.dtype, count, source, target, collective.axes, root)


def converted(collective: Collective, source: Box, target: Box) -> list[Step]:
    """The operand of the only device of a group, in the result's element type."""
    if source.dtype == target.dtype:
        return [Copy(source, target)]
    return [Reduce((source,), target, collective.attrs.kind)]


def _reduced_in_parts(collective: Collective, rank: int) -> list[Step]:
    """Device i of the group reduces the i-th part of all operands, which are then gathered."""
    members, own = collective.members(rank), collective.index(rank)
    source, target = _flat_box(collective.operand), _flat_box(collective.result)
    length = -(-source.size // len(members))
    ends = [(min(i * length, source.size), min((i + 1) * length, source.size)) for i in range(len(members))]
    others = [(i, peer) for i, peer in enumerate(members) if i != own]
    parts = [(peer, source.flat(*ends[i])) for i, peer in others]
    scratch = Scratch()
    summands = {i: scratch.take(source.dtype, (ends[own][1] - ends[own][0],)) for i, _ in others}
    first = PointToPoint(collective.axes, parts, [(peer, summands[i]) for i, peer in others])
    summands[own] = source.flat(*ends[own])
    done = target.flat(*ends[own])
    reduce = Reduce(tuple(summands[i] for i in range(len(members))), done, collective.attrs.kind)
    second = PointToPoint(
        collective.axes,
        [(peer, done) for _, peer in others],
        [(peer, target.flat(*ends[i])) for i, peer in others],
    )
    return [*first.steps(), *([reduce] if done.size else []), *second.steps()]


def _flat_box(box: Box) -> Box:
    return dense(box.buffer, box.dtype, (box.size,))


def is_plain_gather(collective: Collective, tiles: Box, joined: Box) -> bool:
    """Whether the concatenated bytes of the tiles are the gathered tensor, or each of a few parts of it."""
    dim = collective.attrs.dim
    is_whole = joined.shape[dim] == collective.group_size * tiles.shape[dim]
    return is_whole and leading(joined.shape, dim) <= MOST_CALLS


def runs(box: Box, dim: int) -> list[Box]:
    """The parts of a contiguous box in which the rows of a dim are contiguous."""
    count = leading(box.shape, dim)
    length = box.size // count if count else 0
    return [box.flat(i * length, (i + 1) * length) for i in range(count)]


def blocks(box: Box, dim: int, rows: int) -> list[tuple[int, Box]]:
    """The box split into blocks of so many rows of a dim, as boxes with the block number as a new leading dim.

    At most two boxes, each with the number of its first block: the whole blocks, and the remainder.
    """
    count, rest = divmod(box.shape[dim], rows) if rows else (0, 0)
    found: list[tuple[int, Box]] = []
    for first, number, length in ((0, count, rows), (count, min(rest, 1), rest)):
        part = box.rows(dim, first * rows, first * rows + length)
        strides = (rows * box.strides[dim], *part.strides)
        found.append((first, Box(box.buffer, box.dtype, part.offset, (number, *part.shape), strides)))
    return [(first, block) for first, block in found if block.size]


def block_copies(box: Box, dim: int, dense_blocks: Box) -> list[tuple[Box, Box]]:
    """Each block of the box, and its place in a dense array `[block, ...]`, which has room for whole blocks."""
    rows = dense_blocks.shape[dim + 1]
    return [(block, dense_blocks.part([(first, first + block.shape[0]), *((0, n) for n in block.shape[1:])]))
            for first, block in blocks(box, dim, rows)]  # fmt: skip


def all_gather(collective: Collective, rank: int) -> list[Step]:
    """Directly into the result where that is the concatenation of the tiles, possibly cut off at the end; else by scratch."""
    source, target, dim = collective.operand, collective.result, collective.attrs.dim
    count, rows = collective.group_size, source.shape[dim]
    if count == 1:
        return copies([(source.rows(dim, 0, target.shape[dim]), target)])
    if is_plain_gather(collective, source, target):
        return [_gather(collective, *run) for run in zip(runs(source, dim), runs(target, dim), strict=True)]
    if leading(target.shape, dim) == 1:
        return _gathered_by_messages(collective, rank)
    staged = Scratch().take(source.dtype, (count, *source.shape))
    pairs = block_copies(target, dim, staged)
    return [_gather(collective, source, staged), *copies((there, here) for here, there in pairs)] if rows else []


def _gather(collective: Collective, source: Box, target: Box) -> Group:
    return Group("all_gather", "", BYTES, source.nbytes, source, target, collective.axes)


def _gathered_by_messages(collective: Collective, rank: int) -> list[Step]:
    """Every device sends the rows of its tile that are in the result to all others."""
    source, target, dim = collective.operand, collective.result, collective.attrs.dim
    members, own = collective.members(rank), collective.index(rank)
    places = [rows_of(i, source.shape[dim], target, dim) for i in range(len(members))]
    mine = source.rows(dim, 0, places[own].shape[dim])
    others = [(i, peer) for i, peer in enumerate(members) if i != own]
    exchange = PointToPoint(collective.axes, own=[(mine, places[own])])
    exchange.sends = [(peer, mine) for _, peer in others]
    exchange.receives = [(peer, places[i]) for i, peer in others]
    return exchange.steps()


def rows_of(index: int, tile: int, joined: Box, dim: int) -> Box:
    """The rows of tile `index` in the gathered tensor, without those past its end."""
    return joined.rows(dim, *tile_rows(index, tile, joined.shape[dim]))


def tile_rows(index: int, tile: int, size: int) -> tuple[int, int]:
    """Rows [start, stop) of a tile of a dim of this size; the last tiles may be short or empty."""
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
    """Every device sends each other one its tile, and reduces what it gets."""
    source, target, dim = collective.operand, collective.result, collective.attrs.dim
    members, own = collective.members(rank), collective.index(rank)
    tiles = [rows_of(i, target.shape[dim], source, dim) for i in range(len(members))]
    others = [(i, peer) for i, peer in enumerate(members) if i != own]
    scratch = Scratch()
    summands = {i: scratch.take(source.dtype, tiles[own].shape) for i, _ in others}
    exchange = PointToPoint(collective.axes, [(peer, tiles[i]) for i, peer in others],
                        [(peer, summands[i]) for i, peer in others])  # fmt: skip
    summands[own] = tiles[own]
    steps = exchange.steps(scratch)
    if not tiles[own].size:
        return steps
    done = target.rows(dim, 0, tiles[own].shape[dim])
    return [*steps, Reduce(_in_rank_order(summands), done, collective.attrs.kind)]


def _in_rank_order(boxes: dict[int, Box]) -> tuple[Box, ...]:
    return tuple(boxes[number] for number in sorted(boxes))


def broadcast(collective: Collective, rank: int) -> list[Step]:
    source, target = collective.operand, collective.result
    if collective.group_size == 1:
        return [Copy(source, target)]
    root = collective.place("root")
    return [Group("broadcast", "", BYTES, source.nbytes, source, target, collective.axes, root)]
