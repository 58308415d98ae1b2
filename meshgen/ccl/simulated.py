"""Reference implementation of all collectives.

The operand and the result are lists of NumPy arrays, one per rank.

Tiles may be uneven, so sizes come from the result type. Undefined elements are filled with poison (NaN, or a bit
pattern for integers), so that tests detect reads of them. Ranks whose results are equal share one array object, so
callers must not write to the arrays.

Source: `shard` dialect, "Collective Communication Operations".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from meshgen.ccl.halo import Part, parts_of
from meshgen.ccl.transfer import Shards, transfer
from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.identity_dict import identities
from meshgen.ir.graph import Node, dtype_name
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.common import Array, compute_dtype, narrow, neutral, poisoned, ufunc_of
from meshgen.ops.evaluate.elementwise import convert
from meshgen.ops.rules.rule import OP_OF_KIND


@dataclass
class Mailbox:
    """A FIFO queue of the messages between `send` and `recv`."""

    letters: list[tuple[tuple[str, ...], int, Shards]] = field(default_factory=list)


def reduce_arrays(arrays: Sequence[Array], kind: str, dtype: str) -> Array:
    """Reduce `arrays` element by element, in order of the list.

    Each array is first converted to `dtype`. Floats narrower than f32 are accumulated in f32 and rounded once.
    """
    ufunc, wide = ufunc_of(OP_OF_KIND[kind]), compute_dtype(dtype)
    with np.errstate(all="ignore"):
        total = convert(arrays[0], dtype).astype(wide, copy=False)
        for array in arrays[1:]:
            total = ufunc(total, convert(array, dtype).astype(wide, copy=False))
        return narrow(total, dtype)


def cut(array: Array, dim: int, start: int, stop: int) -> Array:
    """Return rows [start, stop) of `array` along dim `dim`. Rows past the end of `array` are filled with poison."""
    index = [slice(None)] * array.ndim
    index[dim] = slice(min(start, array.shape[dim]), min(stop, array.shape[dim]))
    rows = array[tuple(index)]
    if rows.shape[dim] == stop - start:
        return rows
    shape = list(array.shape)
    shape[dim] = stop - start
    padded = poisoned(tuple(shape), dtype_name(array.dtype))
    index[dim] = slice(0, rows.shape[dim])
    padded[tuple(index)] = rows
    return padded


def _per_group(node: Node, mesh: Mesh, shards: Shards, run: Callable[[Shards], Shards]) -> Shards:
    """Call `run` with the shards of each replica group, in group order, and return the results by rank."""
    results: dict[int, Array] = {}
    for group in mesh.groups(node.attrs.axes):
        results.update(zip(group, run([shards[rank] for rank in group]), strict=True))
    return [results[rank] for rank in range(mesh.size)]


def _all_reduce(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    def run(group: Shards) -> Shards:
        return [reduce_arrays(group, node.attrs.kind, node.result.type.dtype)] * len(group)

    return _per_group(node, mesh, shards, run)


def _gathered_array(node: Node, group: Shards) -> Array:
    dim = node.attrs.dim
    return cut(np.concatenate(group, dim), dim, 0, node.result.type.sizes[dim])


def _tiles(node: Node, array: Array, count: int, dim: int) -> Shards:
    tile = node.result.type.sizes[dim]
    return [cut(array, dim, i * tile, (i + 1) * tile) for i in range(count)]


def _all_gather(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    return _per_group(node, mesh, shards, lambda group: [_gathered_array(node, group)] * len(group))


def _all_slice(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    tile, dim = node.result.type.sizes[node.attrs.dim], node.attrs.dim
    slices: dict[tuple[int, int], Array] = {}  # Ranks with the same array and the same group index share the slice.
    array_ids = identities(shards)

    def slice_of(rank: int) -> Array:
        index = mesh.index(rank, node.attrs.axes)
        key = (array_ids[rank], index)
        if key not in slices:
            slices[key] = cut(shards[rank], dim, index * tile, (index + 1) * tile)
        return slices[key]

    return [slice_of(rank) for rank in range(mesh.size)]


def _reduce_scatter(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    def run(group: Shards) -> Shards:
        total = reduce_arrays(group, node.attrs.kind, node.result.type.dtype)
        return _tiles(node, total, len(group), node.attrs.dim)

    return _per_group(node, mesh, shards, run)


def _all_to_all(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    split, concat = node.attrs.split_dim, node.attrs.concat_dim
    sizes = node.result.type.sizes

    def run(group: Shards) -> Shards:
        tile = -(-group[0].shape[split] // len(group)) if split == concat else sizes[split]
        return [
            cut(
                np.concatenate([cut(x, split, i * tile, (i + 1) * tile) for x in group], concat),
                concat,
                0,
                sizes[concat],
            )
            for i in range(len(group))
        ]

    return _per_group(node, mesh, shards, run)


def to_partial(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    rest = np.broadcast_to(neutral(node.attrs.kind, node.result.type.dtype), node.result.type.sizes)
    return [x if mesh.index(rank, node.attrs.axes) == 0 else rest for rank, x in enumerate(shards)]


def _root(node: Node, mesh: Mesh, key: str) -> int:
    """Return an index in the group: that of the device which attribute `key` names, by coordinates or by the index."""
    coordinates = getattr(node.attrs, key)
    if isinstance(coordinates, int):
        return coordinates
    index = 0
    for axis, coordinate in zip(node.attrs.axes, coordinates, strict=True):
        index = index * mesh.axis_size(axis) + coordinate
    return index


def _at_root(node: Node, mesh: Mesh, shards: Shards, result: Callable[[Shards], Array]) -> Shards:
    root, nothing = _root(node, mesh, "root"), poisoned(node.result.type.sizes, node.result.type.dtype)
    return _per_group(node, mesh, shards, lambda g: [result(g) if i == root else nothing for i in range(len(g))])


def _broadcast(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    root = _root(node, mesh, "root")
    return _per_group(node, mesh, shards, lambda group: [group[root]] * len(group))


def _gather_to(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    return _at_root(node, mesh, shards, lambda group: _gathered_array(node, group))


def _reduce_to(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    def total(group: Shards) -> Array:
        return reduce_arrays(group, node.attrs.kind, node.result.type.dtype)

    return _at_root(node, mesh, shards, total)


def _scatter_from(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    root = _root(node, mesh, "root")
    return _per_group(node, mesh, shards, lambda group: _tiles(node, group[root], len(group), node.attrs.dim))


def _shift(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    """Move the operand of the device at coordinate c of the shift axis to the device at c + offset."""
    axis, offset = node.attrs.shift_axis, node.attrs.offset
    nothing = poisoned(node.result.type.sizes, node.result.type.dtype)
    results = [nothing] * mesh.size
    for line in mesh.groups((axis,)):
        for coordinate, rank in enumerate(line):
            target = coordinate + offset
            if node.attrs.rotate:
                target %= len(line)
            if 0 <= target < len(line):
                results[line[target]] = shards[rank]
    return results


def _permute_pairs(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    """Return the operand of the paired source on each target device, and zeros on all other devices."""
    results = [np.zeros(node.result.type.sizes, node.result.type.numpy_dtype)] * mesh.size
    for source, target in node.attrs.pairs:
        results[target] = shards[source]
    return results


def _send(node: Node, mesh: Mesh, shards: Shards, mailbox: Mailbox) -> Shards:
    mailbox.letters.append((tuple(node.attrs.axes), _root(node, mesh, "destination"), list(shards)))
    return list(shards)


def _recv(node: Node, mesh: Mesh, shards: Shards, mailbox: Mailbox) -> Shards:
    """Deliver the oldest message over the same axes to the destination that its `send` names.

    The result on every other device is poison.
    """
    axes = tuple(node.attrs.axes)
    message = next((entry for entry in mailbox.letters if entry[0] == axes), None)
    if message is None:
        raise RuntimeFailure(Diagnostic("MG0604", f"recv over {axes} has no matching send", node.loc))
    mailbox.letters.remove(message)
    _, destination, sent = message
    source = _root(node, mesh, "source") if node.attrs.source is not None else 0
    results = [poisoned(node.result.type.sizes, node.result.type.dtype)] * mesh.size
    for group in mesh.groups(axes):
        results[group[destination]] = sent[group[source]]
    return results


def _retile(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    empty = poisoned(node.result.type.sizes, node.result.type.dtype)
    attrs = node.attrs
    return transfer(shards, attrs.source, attrs.target, tuple(attrs.shape), mesh, [empty] * mesh.size)


def _update_halo(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    """Fetch halo rows from the devices that own them.

    If the operand's buffer already includes the halo, halo rows outside of the tensor keep their values from the
    operand.
    """
    sharding, shape = node.attrs.sharding, tuple(node.attrs.shape)
    if shards[0].shape == node.result.type.sizes:
        return transfer(shards, replace(sharding, halo=()), sharding, shape, mesh, shards, layout=sharding)
    empty = poisoned(node.result.type.sizes, node.result.type.dtype)
    return transfer(shards, replace(sharding, halo=()), sharding, shape, mesh, [empty] * mesh.size)


def _fetch_rows(node: Node, mesh: Mesh, shards: Shards) -> Shards:
    """Fetch `rows` rows of the concatenated tiles of a group to each device.

    The first row for device `index` is (index * step + base) / divisor. If the op has several parts, the result
    concatenates their rows. Rows outside the tensor are filled with poison.
    """
    dim, rows = node.attrs.dim, node.result.type.sizes[node.attrs.dim]

    def run(group: Shards) -> Shards:
        parts = parts_of(node.attrs, group[0].shape[dim], rows, len(group))
        fetched = [_fetched(group, part, dim) for part in parts]
        return [np.concatenate(rows_of_parts, dim) for rows_of_parts in zip(*fetched, strict=True)]

    return _per_group(node, mesh, shards, run)


def _fetched(group: Shards, part: Part, dim: int) -> Shards:
    """Return the rows that each device of a group gets for one part of a `fetch_rows`."""
    fetch = part.fetch
    tiles = [cut(shard, dim, part.start, part.start + fetch.tile) for shard in group]
    gathered = cut(np.concatenate(tiles, dim), dim, 0, fetch.limit)
    if fetch.wrap:
        # Rows from `fetch.limit` on are padding.
        row = np.arange(min(len(group) * fetch.step, fetch.limit)) + fetch.base
        gathered = np.take(gathered, row % max(fetch.limit, 1), dim)
        return [cut(gathered, dim, index * fetch.step, index * fetch.step + fetch.rows) for index in range(len(group))]
    starts = [fetch.start(index) for index in range(len(group))]
    return [_padded_rows(gathered, dim, start, start + fetch.rows) for start in starts]


def _padded_rows(array: Array, dim: int, start: int, stop: int) -> Array:
    """Return rows [start, stop) of `array` along dim `dim`. Rows before or after `array` are filled with poison."""
    before = min(max(0, -start), stop - start)
    shape = list(array.shape)
    shape[dim] = before
    front = poisoned(tuple(shape), dtype_name(array.dtype))
    return (
        np.concatenate([front, cut(array, dim, start + before, stop)], dim) if before else cut(array, dim, start, stop)
    )


_COLLECTIVES: dict[str, Callable[[Node, Mesh, Shards], Shards]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "all_slice": _all_slice,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "to_partial": to_partial,
    "permute": _retile,
    "retile": _retile,
    "update_halo": _update_halo,
    "fetch_rows": _fetch_rows,
    "broadcast": _broadcast,
    "gather_to": _gather_to,
    "reduce_to": _reduce_to,
    "scatter_from": _scatter_from,
    "shift": _shift,
    "permute_pairs": _permute_pairs,
}
_POINT_TO_POINT = {"send": _send, "recv": _recv}


def run_collective(node: Node, mesh: Mesh, shards: Shards, mailbox: Mailbox | None = None) -> Shards:
    """Return the results of a collective, one per rank, from the operands of all ranks.

    Args:
        node: defines the collective by its op, attributes and local result type.
        shards: the operand of each rank, in order of rank.
        mailbox: the pending messages; required by `send` and `recv` only.
    Raises:
        RuntimeFailure: MG0604, a `recv` has no matching `send`.
    """
    if node.op in _POINT_TO_POINT:
        return _POINT_TO_POINT[node.op](node, mesh, shards, mailbox if mailbox is not None else Mailbox())
    return _COLLECTIVES[node.op](node, mesh, shards)
