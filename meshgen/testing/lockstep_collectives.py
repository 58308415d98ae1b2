"""Collectives of all devices written out in lock-step: a value on each device in, a value on each out, plain operations.

Before:  %g = all_gather %t on x          After:   %g = concatenate %t0, %t1      on both devices

The rows of a tile that a device does not own are padding. As in `ccl/simulated.py` it is poison, so that reading it is detected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meshgen.ccl.cost import transfer_ends
from meshgen.ccl.halo import Part, parts_of
from meshgen.ccl.transfer import pieces
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.notes import NO_NOTES, Notes
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import neutral, poisoned
from meshgen.ops.rules.rule import OP_OF_KIND

Row = list[Value]  # a value on each device


@dataclass
class Rows(Builder):
    """Appends to a graph what the devices `ranks` do. The same operation on the same operands is written once."""

    mesh: Mesh = field(kw_only=True)
    ranks: tuple[int, ...] = field(kw_only=True)
    seen: dict[Any, list[Value]] = field(default_factory=dict[Any, "list[Value]"])

    def append(self, op: str, operands: Sequence[Value], types: Sequence[TensorType], attrs: dict[str, Any],
               regions: tuple[Graph, ...] = (), notes: Notes = NO_NOTES) -> list[Value]:  # fmt: skip
        """The results of a node, which are new unless the same one was written before."""
        key = op, tuple(operands), tuple(types), *((name, _attribute_key(attrs[name])) for name in sorted(attrs))
        if key not in self.seen:
            self.seen[key] = super().append(op, operands, types, attrs, regions, notes)
        return self.seen[key]

    def padding(self, kind: TensorType) -> Value:
        return self.splat(poisoned((), kind.dtype), kind)

    def rows(self, value: Value, dim: int, start: int, stop: int) -> Value:
        """Rows [start, stop) of a dim; those before or after the value are padding."""
        sizes = [*value.type.sizes]
        first, last = (min(max(row, 0), sizes[dim]) for row in (start, stop))
        before, behind = max(min(stop, 0) - start, 0), max(stop - max(start, sizes[dim]), 0)
        found = [self._some(value, dim, first, last)] if first < last or start == stop else []
        ends = [self.padding(_with_rows(value.type, dim, count)) if count else None for count in (before, behind)]
        parts = [part for part in (ends[0], *found, ends[1]) if part]
        return parts[0] if len(parts) == 1 else self.concatenate(parts, dim)

    def _some(self, value: Value, dim: int, start: int, stop: int) -> Value:
        return value if (start, stop) == (0, value.type.sizes[dim]) else super().rows(value, dim, start, stop)

    def reduced(self, values: Sequence[Value], kind: str) -> Value:
        """The values combined, in their order."""
        total = values[0]
        for value in values[1:]:
            total = self.elementwise(OP_OF_KIND[kind], total, value)
        return total

    def groups(self, node: Node, row: Row, run: Callable[[list[Value]], list[Value]]) -> Row:
        """Run on the members of each group, in its order."""
        found: dict[int, Value] = {}
        for group in self.mesh.groups(node.attrs.axes):
            found.update(zip(group, run([row[rank] for rank in group]), strict=True))
        return [found[rank] for rank in self.ranks]


def _attribute_key(value: Any) -> Any:
    """An attribute in a form that compares by value."""
    if not isinstance(value, np.ndarray):
        return value
    array: np.ndarray[Any, Any] = value if any(value.strides) else value.reshape(-1)[:1]
    return array.tobytes(), value.shape, value.dtype


def _with_rows(kind: TensorType, dim: int, rows: int) -> TensorType:
    return kind.with_shape(rows if d == dim else size for d, size in enumerate(kind.sizes))


def _all_reduce(to: Rows, node: Node, row: Row) -> Row:
    return to.groups(node, row, lambda group: [to.reduced(group, node.attrs.kind)] * len(group))


def _all_gather(to: Rows, node: Node, row: Row) -> Row:
    dim = node.attrs.dim
    rows = node.result.type.sizes[dim]
    return to.groups(node, row, lambda g: [to.rows(to.concatenate(g, dim), dim, 0, rows)] * len(g))


def _reduce_scatter(to: Rows, node: Node, row: Row) -> Row:
    tile = node.result.type.sizes[node.attrs.dim]

    def run(group: list[Value]) -> list[Value]:
        total = to.reduced(group, node.attrs.kind)
        return [to.rows(total, node.attrs.dim, i * tile, (i + 1) * tile) for i in range(len(group))]

    return to.groups(node, row, run)


def _all_to_all(to: Rows, node: Node, row: Row) -> Row:
    split, concat, sizes = node.attrs.split_dim, node.attrs.concat_dim, node.result.type.sizes

    def run(group: list[Value]) -> list[Value]:
        tile = -(-group[0].type.sizes[split] // len(group)) if split == concat else sizes[split]
        parts = [[to.rows(x, split, i * tile, (i + 1) * tile) for x in group] for i in range(len(group))]
        return [to.rows(to.concatenate(part, concat), concat, 0, sizes[concat]) for part in parts]

    return to.groups(node, row, run)


def _all_slice(to: Rows, node: Node, row: Row) -> Row:
    tile = node.result.type.sizes[node.attrs.dim]
    starts = [to.mesh.index(rank, node.attrs.axes) * tile for rank in to.ranks]
    return [to.rows(x, node.attrs.dim, start, start + tile) for x, start in zip(row, starts, strict=True)]


def _to_partial(to: Rows, node: Node, row: Row) -> Row:
    rest = to.splat(neutral(node.attrs.kind, node.result.type.dtype), node.result.type)
    return [rest if to.mesh.index(rank, node.attrs.axes) else x for rank, x in zip(to.ranks, row, strict=True)]


def _broadcast_row(to: Rows, node: Node, row: Row) -> Row:
    root = 0
    for axis, place in zip(node.attrs.axes, node.attrs.root, strict=True):
        root = root * to.mesh.axis_size(axis) + place
    return to.groups(node, row, lambda group: [group[root]] * len(group))


def _shift_row(to: Rows, node: Node, row: Row) -> Row:
    found = [to.padding(node.result.type)] * len(row)
    for line in to.mesh.groups((node.attrs.shift_axis,)):
        for place, rank in enumerate(line):
            target = place + node.attrs.offset
            target = target % len(line) if node.attrs.rotate else target
            if 0 <= target < len(line):
                found[line[target]] = row[rank]
    return found


def _permute_pairs(to: Rows, node: Node, row: Row) -> Row:
    found = [to.splat(0, node.result.type)] * len(row)
    for source, target in node.attrs.pairs:
        found[target] = row[source]
    return found


def _transfer(to: Rows, node: Node, row: Row) -> Row:
    """A permute, retile or halo exchange: the parts of its tile that each device fetches. Other rows of a halo stay."""
    source, target = transfer_ends(node.op, node.attrs)
    is_wide = node.op == "update_halo" and row[0].type == node.result.type
    buffers = row if is_wide else [to.padding(node.result.type)] * len(row)
    found = pieces(source, target, tuple(node.attrs.shape), to.mesh, layout=target if is_wide else source)
    return [_put(to, buffer, each, row, node) for buffer, each in zip(buffers, found, strict=True)]


def _put(to: Rows, buffer: Value, parts: Sequence[tuple[int, Any, Any]], row: Row, node: Node) -> Value:
    for sender, there, here in parts:
        piece = row[sender]
        for dim, rows in enumerate(there):
            piece = to.rows(piece, dim, rows.start, rows.stop)
        starts = [to.splat(rows.start, TensorType((), "i32")) for rows in here]
        is_whole = piece.type == buffer.type
        buffer = piece if is_whole else to.emit("dynamic_update_slice", [buffer, piece, *starts], buffer.type)
    return buffer


def _fetch_rows(to: Rows, node: Node, row: Row) -> Row:
    """Rows of the group's tiles joined, one part after the other."""
    dim, count = node.attrs.dim, node.result.type.sizes[node.attrs.dim]

    def run(group: list[Value]) -> list[Value]:
        parts = parts_of(node.attrs, group[0].type.sizes[dim], count, len(group))
        fetched = [list(_fetched(to, group, part, dim, node)) for part in parts]
        return [each[0] if len(each) == 1 else to.concatenate(each, dim) for each in zip(*fetched, strict=True)]

    return to.groups(node, row, run)


def _fetched(to: Rows, group: list[Value], part: Part, dim: int, node: Node) -> Iterator[Value]:
    """The rows of one part that each device of a group gets; wrapped rows repeat the joined tensor."""
    fetch = part.fetch
    tiles = [to.rows(tile, dim, part.start, part.start + fetch.tile) for tile in group]
    whole = to.rows(to.concatenate(tiles, dim), dim, 0, fetch.limit)
    for index in range(len(group)):
        ranges = fetch.wanted(index) if fetch.wrap else [(fetch.start(index), fetch.start(index) + fetch.rows)]
        found = [to.rows(whole, dim, *each) for each in ranges if each[0] < each[1] or not fetch.rows]
        missing = fetch.rows - sum(stop - start for start, stop in ranges)
        found += [to.padding(_with_rows(whole.type, dim, missing))] if missing else []
        yield found[0] if len(found) == 1 else to.concatenate(found, dim)


def _mask_padding(to: Rows, node: Node, row: Row) -> Row:
    dim, kind = node.attrs.dim, node.result.type
    tile, fill = kind.sizes[dim], np.asarray(node.attrs.fill).astype(kind.numpy_dtype)
    found: Row = []
    for rank, value in zip(to.ranks, row, strict=True):
        own = min(max(node.attrs.size - to.mesh.index(rank, node.attrs.axes) * tile, 0), tile)
        rest = to.splat(fill, _with_rows(kind, dim, tile - own))
        parts = [to.rows(value, dim, 0, own)] if own else []
        parts += [rest] if own < tile else []
        found.append(parts[0] if len(parts) == 1 else to.concatenate(parts, dim))
    return found


COLLECTIVES: dict[str, Callable[[Rows, Node, Row], Row]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "all_slice": _all_slice,
    "to_partial": _to_partial,
    "broadcast": _broadcast_row,
    "shift": _shift_row,
    "permute_pairs": _permute_pairs,
    **dict.fromkeys(("permute", "retile", "update_halo"), _transfer),
    "fetch_rows": _fetch_rows,
    "mask_padding": _mask_padding,
}
