"""Evaluation of ops that move elements: broadcast, transpose, slice, pad, concatenate, gather and the dynamic forms."""

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
    """Broadcast `x`: operand dim i becomes result dim dims[i], and size-1 and new dims repeat their elements."""
    order = np.argsort(np.array(dims, np.int64), kind="stable")
    sizes = [1] * len(shape)
    for operand_dim in order:
        sizes[dims[operand_dim]] = x.shape[operand_dim]
    return np.broadcast_to(x.transpose(order).reshape(sizes), shape)


def sliced(node: Node, args: list[Array]) -> Array:
    parts = zip(node.attrs.start, node.attrs.limit, node.attrs.stride, strict=True)
    return args[0][tuple(slice(*part) for part in parts)]


def pad(x: Array, fill: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Array:
    """Insert `interior` fill elements between elements, then `low` and `high` rows at the ends.

    A negative `low` or `high` removes rows.
    """
    dilated = [n + max(n - 1, 0) * i for n, i in zip(x.shape, interior, strict=True)]
    before, after = [max(n, 0) for n in low], [max(n, 0) for n in high]
    sizes = [b + n + a for b, n, a in zip(before, dilated, after, strict=True)]
    result = np.full(sizes, fill, x.dtype)
    result[tuple(slice(b, b + n, i + 1) for b, n, i in zip(before, dilated, interior, strict=True))] = x
    ends = (slice(max(-lo, 0), n - max(-hi, 0)) for lo, hi, n in zip(low, high, sizes, strict=True))
    return result[tuple(ends)]


def windows(node: Node, args: list[Array]) -> Array:
    """Return a strided view of all windows: the window positions per operand dim, then the offsets inside a window."""
    (x,), attrs, sizes = args, node.attrs, node.result.type.sizes
    strides, window_strides = list(x.strides), list[int]()
    for dim, stride, dilation in zip(attrs.dims, attrs.strides, attrs.dilations, strict=True):
        window_strides.append(x.strides[dim] * dilation)
        strides[dim] *= stride
    return np.lib.stride_tricks.as_strided(x, sizes, [*strides, *window_strides], writeable=False)


def padded(node: Node, args: list[Array]) -> Array:
    return pad(args[0], args[1], node.attrs.low, node.attrs.high, node.attrs.interior)


def _as_int64(x: Array) -> Array:
    """Convert indices to int64. An unsigned index beyond its range stays far out of bounds."""
    return np.minimum(x, np.uint64(1 << 62)).astype(np.int64) if x.dtype == np.uint64 else x.astype(np.int64)


def window_starts(indices: Array, vector_dim: int, index_map: Sequence[int], rank: int) -> list[Array]:
    """Return the start indices of the windows along each operand dim, over the batch dims of `indices`.

    Along an operand dim that `index_map` does not contain, all starts are 0.
    """
    wide = _as_int64(indices)
    wide = wide[..., None] if vector_dim == indices.ndim else np.moveaxis(wide, vector_dim, -1)
    starts = [np.zeros(wide.shape[:-1], np.int64) for _ in range(rank)]
    for component, dim in enumerate(index_map):
        starts[dim] = wide[..., component]
    return starts


def add_batching(starts: list[Array], operand_dims: Sequence[int], index_dims: Sequence[int], vector_dim: int) -> None:
    """Set the window starts along each operand batching dim to the coordinate of the matching batch dim of the indices."""
    for operand_dim, index_dim in zip(operand_dims, index_dims, strict=True):
        batch_dim = index_dim - (index_dim > vector_dim)
        batch = starts[operand_dim].shape
        row = np.arange(batch[batch_dim]).reshape([-1 if d == batch_dim else 1 for d in range(len(batch))])
        starts[operand_dim] = np.broadcast_to(row, batch)


def window_positions(starts: list[Array], sizes: Sequence[int], dropped: Sequence[int], offset_dims: Sequence[int],
                     result_rank: int) -> list[Array]:  # fmt: skip
    """Return the index along each operand dim of every element of all windows.

    The index arrays are broadcastable to the result's shape (batch dims and offset dims).
    """
    batch_dims = [d for d in range(result_rank) if d not in offset_dims]
    window = iter(offset_dims)
    positions: list[Array] = []
    for dim, start in enumerate(starts):
        shape = [1] * result_rank
        for result_dim, size in zip(batch_dims, start.shape, strict=True):
            shape[result_dim] = size
        position = start.reshape(shape)
        if dim not in dropped:
            row = [1] * result_rank
            row[next(window)] = sizes[dim]
            position = position + np.arange(sizes[dim]).reshape(row)
        positions.append(position)
    return positions


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
    result = np.array(args[0])  # `np.array` copies a NumPy scalar to a writable array, too.
    result[_clamped_window(result.shape, args[1].shape, args[2:])] = args[1]
    return result


def _clamped_window(shape: Sequence[int], sizes: Sequence[int], starts: Sequence[Array]) -> tuple[slice, ...]:
    """Return the window of size `sizes` at `starts` as slices. A start is clamped so that the window is inside `shape`."""
    window: list[slice] = []
    for n, size, start in zip(shape, sizes, starts, strict=True):
        first = min(max(int(start), 0), n - size)
        window.append(slice(first, first + size))
    return tuple(window)


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
    """Return a handler that calls `function(node, operands)`. No rounding: the function only moves elements."""

    def handle(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        return [function(node, args)]

    return handle
