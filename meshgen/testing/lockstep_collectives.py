"""Collectives of all devices in lockstep, written as plain ops on rows, which are lists with one value per device.

Before:  %g = all_gather %t on x          After:   %g = concatenate %t0, %t1      on both devices

The rows of a tile that a device does not own are padding. They are filled with poison as in `ccl/simulated.py`, so that
reads of padding are detected.
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

Row = list[Value]  # one value per device


@dataclass
class Rows(Builder):
    """Builds the ops of the devices `ranks`. Equal ops on equal operands are written once."""

    mesh: Mesh = field(kw_only=True)
    ranks: tuple[int, ...] = field(kw_only=True)
    seen: dict[Any, list[Value]] = field(default_factory=dict[Any, "list[Value]"])

    def append(self, op: str, operands: Sequence[Value], types: Sequence[TensorType], attrs: dict[str, Any],
               regions: tuple[Graph, ...] = (), notes: Notes = NO_NOTES) -> list[Value]:  # fmt: skip
        """Return the results of an equal node, or append a new node."""
        key = op, tuple(operands), tuple(types), *((name, _attribute_key(attrs[name])) for name in sorted(attrs))
        if key not in self.seen:
            self.seen[key] = super().append(op, operands, types, attrs, regions, notes)
        return self.seen[key]

    def padding(self, type_: TensorType) -> Value:
        return self.splat(poisoned((), type_.dtype), type_)

    def rows(self, value: Value, dim: int, start: int, stop: int) -> Value:
        """Return rows [start, stop) of a dim. Rows outside of the value are padding."""
        sizes = [*value.type.sizes]
        first, last = (min(max(row, 0), sizes[dim]) for row in (start, stop))
        before, after = max(min(stop, 0) - start, 0), max(stop - max(start, sizes[dim]), 0)
        inside = [self._some(value, dim, first, last)] if first < last or start == stop else []
        paddings = [self.padding(_with_rows(value.type, dim, count)) if count else None for count in (before, after)]
        parts = [part for part in (paddings[0], *inside, paddings[1]) if part]
        return parts[0] if len(parts) == 1 else self.concatenate(parts, dim)

    def _some(self, value: Value, dim: int, start: int, stop: int) -> Value:
        return value if (start, stop) == (0, value.type.sizes[dim]) else super().rows(value, dim, start, stop)

    def reduced(self, values: Sequence[Value], kind: str) -> Value:
        """Reduce the values one by one, in the order of the list."""
        total = values[0]
        for value in values[1:]:
            total = self.elementwise(OP_OF_KIND[kind], total, value)
        return total

    def groups(self, node: Node, row: Row, run: Callable[[list[Value]], list[Value]]) -> Row:
        """Call `run` on the values of each group of the collective `node`, in group order, and return the results by
        device.
        """
        results: dict[int, Value] = {}
        for group in self.mesh.groups(node.attrs.axes):
            results.update(zip(group, run([row[rank] for rank in group]), strict=True))
        return [results[rank] for rank in self.ranks]


def _attribute_key(value: Any) -> Any:
    """Return an attribute in a form that compares by value."""
    if not isinstance(value, np.ndarray):
        return value
    array: np.ndarray[Any, Any] = value if any(value.strides) else value.reshape(-1)[:1]
    return array.tobytes(), value.shape, value.dtype


def _with_rows(type_: TensorType, dim: int, rows: int) -> TensorType:
    return type_.with_shape(rows if d == dim else size for d, size in enumerate(type_.sizes))


def _all_reduce(writer: Rows, node: Node, row: Row) -> Row:
    return writer.groups(node, row, lambda group: [writer.reduced(group, node.attrs.kind)] * len(group))


def _all_gather(writer: Rows, node: Node, row: Row) -> Row:
    dim = node.attrs.dim
    rows = node.result.type.sizes[dim]
    return writer.groups(node, row, lambda g: [writer.rows(writer.concatenate(g, dim), dim, 0, rows)] * len(g))


def _reduce_scatter(writer: Rows, node: Node, row: Row) -> Row:
    tile = node.result.type.sizes[node.attrs.dim]

    def run(group: list[Value]) -> list[Value]:
        total = writer.reduced(group, node.attrs.kind)
        return [writer.rows(total, node.attrs.dim, i * tile, (i + 1) * tile) for i in range(len(group))]

    return writer.groups(node, row, run)


def _all_to_all(writer: Rows, node: Node, row: Row) -> Row:
    split, concat, sizes = node.attrs.split_dim, node.attrs.concat_dim, node.result.type.sizes

    def run(group: list[Value]) -> list[Value]:
        tile = -(-group[0].type.sizes[split] // len(group)) if split == concat else sizes[split]
        parts = [[writer.rows(x, split, i * tile, (i + 1) * tile) for x in group] for i in range(len(group))]
        return [writer.rows(writer.concatenate(part, concat), concat, 0, sizes[concat]) for part in parts]

    return writer.groups(node, row, run)


def _all_slice(writer: Rows, node: Node, row: Row) -> Row:
    tile = node.result.type.sizes[node.attrs.dim]
    starts = [writer.mesh.index(rank, node.attrs.axes) * tile for rank in writer.ranks]
    return [writer.rows(x, node.attrs.dim, start, start + tile) for x, start in zip(row, starts, strict=True)]


def _to_partial(writer: Rows, node: Node, row: Row) -> Row:
    neutral_value = writer.splat(neutral(node.attrs.kind, node.result.type.dtype), node.result.type)
    return [
        neutral_value if writer.mesh.index(rank, node.attrs.axes) else x
        for rank, x in zip(writer.ranks, row, strict=True)
    ]


def _broadcast_row(writer: Rows, node: Node, row: Row) -> Row:
    root = 0
    for axis, coordinate in zip(node.attrs.axes, node.attrs.root, strict=True):
        root = root * writer.mesh.axis_size(axis) + coordinate
    return writer.groups(node, row, lambda group: [group[root]] * len(group))


def _shift_row(writer: Rows, node: Node, row: Row) -> Row:
    shifted = [writer.padding(node.result.type)] * len(row)
    for group in writer.mesh.groups((node.attrs.shift_axis,)):
        for position, rank in enumerate(group):
            target = position + node.attrs.offset
            target = target % len(group) if node.attrs.rotate else target
            if 0 <= target < len(group):
                shifted[group[target]] = row[rank]
    return shifted


def _permute_pairs(writer: Rows, node: Node, row: Row) -> Row:
    permuted = [writer.splat(0, node.result.type)] * len(row)
    for source, target in node.attrs.pairs:
        permuted[target] = row[source]
    return permuted


def _transfer(writer: Rows, node: Node, row: Row) -> Row:
    """Write a permute, retile or halo exchange: each device fetches parts of its result from tiles of other devices.

    A halo update keeps all other rows.
    """
    source, target = transfer_ends(node.op, node.attrs)
    is_wide = node.op == "update_halo" and row[0].type == node.result.type
    buffers = row if is_wide else [writer.padding(node.result.type)] * len(row)
    fetched = pieces(source, target, tuple(node.attrs.shape), writer.mesh, layout=target if is_wide else source)
    return [_put(writer, buffer, parts, row, node) for buffer, parts in zip(buffers, fetched, strict=True)]


def _put(writer: Rows, buffer: Value, parts: Sequence[tuple[int, Any, Any]], row: Row, node: Node) -> Value:
    for sender, source_ranges, target_ranges in parts:
        piece = row[sender]
        for dim, rows in enumerate(source_ranges):
            piece = writer.rows(piece, dim, rows.start, rows.stop)
        starts = [writer.splat(rows.start, TensorType((), "i32")) for rows in target_ranges]
        is_complete = piece.type == buffer.type
        buffer = piece if is_complete else writer.emit("dynamic_update_slice", [buffer, piece, *starts], buffer.type)
    return buffer


def _fetch_rows(writer: Rows, node: Node, row: Row) -> Row:
    """Write a `fetch_rows`: each device gets several ranges of rows of the concatenated tiles, which are
    concatenated.
    """
    dim, count = node.attrs.dim, node.result.type.sizes[node.attrs.dim]

    def run(group: list[Value]) -> list[Value]:
        parts = parts_of(node.attrs, group[0].type.sizes[dim], count, len(group))
        fetched = [list(_fetched(writer, group, part, dim, node)) for part in parts]
        return [
            parts_of_device[0] if len(parts_of_device) == 1 else writer.concatenate(parts_of_device, dim)
            for parts_of_device in zip(*fetched, strict=True)
        ]

    return writer.groups(node, row, run)


def _fetched(writer: Rows, group: list[Value], part: Part, dim: int, node: Node) -> Iterator[Value]:
    """Yield the rows of one part for each device of a group.

    With wrapping, rows past the end of the concatenated tensor are taken from its start.
    """
    fetch = part.fetch
    tiles = [writer.rows(tile, dim, part.start, part.start + fetch.tile) for tile in group]
    joined = writer.rows(writer.concatenate(tiles, dim), dim, 0, fetch.limit)
    for index in range(len(group)):
        ranges = fetch.needed_ranges(index) if fetch.wrap else [(fetch.start(index), fetch.start(index) + fetch.rows)]
        fetched = [writer.rows(joined, dim, *bounds) for bounds in ranges if bounds[0] < bounds[1] or not fetch.rows]
        missing = fetch.rows - sum(stop - start for start, stop in ranges)
        fetched += [writer.padding(_with_rows(joined.type, dim, missing))] if missing else []
        yield fetched[0] if len(fetched) == 1 else writer.concatenate(fetched, dim)


def _mask_padding(writer: Rows, node: Node, row: Row) -> Row:
    dim, type_ = node.attrs.dim, node.result.type
    tile, fill = type_.sizes[dim], np.asarray(node.attrs.fill).astype(type_.numpy_dtype)
    masked: Row = []
    for rank, value in zip(writer.ranks, row, strict=True):
        owned = min(max(node.attrs.size - writer.mesh.index(rank, node.attrs.axes) * tile, 0), tile)
        filler = writer.splat(fill, _with_rows(type_, dim, tile - owned))
        parts = [writer.rows(value, dim, 0, owned)] if owned else []
        parts += [filler] if owned < tile else []
        masked.append(parts[0] if len(parts) == 1 else writer.concatenate(parts, dim))
    return masked


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
