"""Ops that move elements: broadcast, transpose, slice, pad, concatenate, gather and the dynamic forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from meshgen.ir.graph import Node
from meshgen.ops.evaluate.common import Array, Handler, RunRegion


def iota(node: Node, args: list[Array]) -> Array:
    shape, dim = node.result.type.sizes, node.attrs.dim
    row = np.arange(shape[dim]).astype(node.result.type.numpy_dtype)
    return np.broadcast_to(row.reshape([-1 if d == dim else 1 for d in range(len(shape))]), shape)


def broadcast_in_dim(x: Array, shape: Sequence[int], dims: Sequence[int]) -> Array:
    """Operand dim i becomes result dim dims[i]; size-1 and new dims are repeated."""
    order = np.argsort(np.array(dims, np.int64), kind="stable")
    sizes = [1] * len(shape)
    for operand_dim in order:
        sizes[dims[operand_dim]] = x.shape[operand_dim]
    return np.broadcast_to(x.transpose(order).reshape(sizes), shape)


def sliced(node: Node, args: list[Array]) -> Array:
    parts = zip(node.attrs.start, node.attrs.limit, node.attrs.stride, strict=True)
    return args[0][tuple(slice(*part) for part in parts)]


def pad(x: Array, fill: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Array:
    """Put `interior` fills between elements, then `low` / `high` rows at the ends (negative: take rows away)."""
    spread = [n + max(n - 1, 0) * i for n, i in zip(x.shape, interior, strict=True)]
    before, after = [max(n, 0) for n in low], [max(n, 0) for n in high]
    sizes = [b + n + a for b, n, a in zip(before, spread, after, strict=True)]
    result = np.full(sizes, fill, x.dtype)
    result[tuple(slice(b, b + n, i + 1) for b, n, i in zip(before, spread, interior, strict=True))] = x
    ends = (slice(max(-lo, 0), n - max(-hi, 0)) for lo, hi, n in zip(low, high, sizes, strict=True))
    return result[tuple(ends)]


def windows(node: Node, args: list[Array]) -> Array:
    """Where a window is, per dim of the operand, then the place in it, per dim of `dims`."""
    (x,), attrs, sizes = args, node.attrs, node.result.type.sizes
    strides, places = list(x.strides), list[int]()
    for dim, stride, dilation in zip(attrs.dims, attrs.strides, attrs.dilations, strict=True):
        places.append(x.strides[dim] * dilation)
        strides[dim] *= stride
    return np.lib.stride_tricks.as_strided(x, sizes, [*strides, *places], writeable=False)


def padded(node: Node, args: list[Array]) -> Array:
    return pad(args[0], args[1], node.attrs.low, node.attrs.high, node.attrs.interior)


def _as_int64(x: Array) -> Array:
    """Indices as int64; an unsigned one past its range stays far out of bounds."""
    return np.minimum(x, np.uint64(1 << 62)).astype(np.int64) if x.dtype == np.uint64 else x.astype(np.int64)


def window_starts(indices: Array, vector_dim: int, index_map: Sequence[int], rank: int) -> list[Array]:
    """Per operand dim the start indices over the batch dims of `indices`; 0 where the map has no entry."""
    wide = _as_int64(indices)
    wide = wide[..., None] if vector_dim == indices.ndim else np.moveaxis(wide, vector_dim, -1)
    starts = [np.zeros(wide.shape[:-1], np.int64) for _ in range(rank)]
    for place, dim in enumerate(index_map):
        starts[dim] = wide[..., place]
    return starts


def add_batching(starts: list[Array], operand_dims: Sequence[int], index_dims: Sequence[int], vector_dim: int) -> None:
    """Tie operand batching dims to the batch dims of the indices: the start is the batch coordinate itself."""
    for operand_dim, index_dim in zip(operand_dims, index_dims, strict=True):
        place = index_dim - (index_dim > vector_dim)
        batch = starts[operand_dim].shape
        row = np.arange(batch[place]).reshape([-1 if d == place else 1 for d in range(len(batch))])
        starts[operand_dim] = np.broadcast_to(row, batch)


def window_positions(starts: list[Array], sizes: Sequence[int], dropped: Sequence[int], offset_dims: Sequence[int],
                     result_rank: int) -> list[Array]:  # fmt: skip
    """Per operand dim its indices, broadcastable over a result of batch dims and window (offset) dims."""
    batch_places = [d for d in range(result_rank) if d not in offset_dims]
    window = iter(offset_dims)
    found: list[Array] = []
    for dim, start in enumerate(starts):
        shape = [1] * result_rank
        for place, size in zip(batch_places, start.shape, strict=True):
            shape[place] = size
        position = start.reshape(shape)
        if dim not in dropped:
            row = [1] * result_rank
            row[next(window)] = sizes[dim]
            position = position + np.arange(sizes[dim]).reshape(row)
        found.append(position)
    return found


def gather(node: Node, args: list[Array]) -> Array:
    operand, indices = args
    attrs, sizes = node.attrs, node.attrs.slice_sizes
    vector_dim = attrs.index_vector_dim
    starts = window_starts(indices, vector_dim, attrs.start_index_map, operand.ndim)
    starts = [np.clip(s, 0, n - w) for s, n, w in zip(starts, operand.shape, sizes, strict=True)]
    add_batching(starts, attrs.operand_batching_dims, attrs.start_indices_batching_dims, vector_dim)
    dropped = (*attrs.collapsed_slice_dims, *attrs.operand_batching_dims)
    positions = window_positions(starts, sizes, dropped, attrs.offset_dims, node.result.type.rank)
    return np.broadcast_to(operand[tuple(positions)], node.result.type.sizes)


def dynamic_slice(node: Node, args: list[Array]) -> Array:
    return args[0][_clamped_window(args[0].shape, node.attrs.slice_sizes, args[1:])]


def dynamic_update_slice(node: Node, args: list[Array]) -> Array:
    result = np.array(args[0])  # the copy of a NumPy scalar, too, is an array that can be written
    result[_clamped_window(result.shape, args[1].shape, args[2:])] = args[1]
    return result


def _clamped_window(shape: Sequence[int], sizes: Sequence[int], starts: Sequence[Array]) -> tuple[slice, ...]:
    """The window of `sizes` at `starts`, moved inside `shape` where it would extend beyond it."""
    found: list[slice] = []
    for n, size, start in zip(shape, sizes, starts, strict=True):
        first = min(max(int(start), 0), n - size)
        found.append(slice(first, first + size))
    return tuple(found)


def broadcast(node: Node, args: list[Array]) -> Array:
    return broadcast_in_dim(args[0], node.result.type.sizes, node.attrs.dims)


def transpose(node: Node, args: list[Array]) -> Array:
    return args[0].transpose(node.attrs.perm)


def reshape(node: Node, args: list[Array]) -> Array:
    return args[0].reshape(node.result.type.sizes)


def view(node: Node, args: list[Array]) -> Array:
    kind = node.result.type
    return np.ascontiguousarray(args[0]).reshape(-1).view(kind.numpy_dtype).reshape(kind.sizes)


def reverse(node: Node, args: list[Array]) -> Array:
    return np.flip(args[0], node.attrs.dims)


def concatenate(node: Node, args: list[Array]) -> Array:
    return np.concatenate(args, node.attrs.dim)


def of_node(function: Callable[[Node, list[Array]], Array]) -> Handler:
    """The result of a function of a node and its operands: elements that are moved are not rounded."""

    def handle(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        return [function(node, args)]

    return handle
