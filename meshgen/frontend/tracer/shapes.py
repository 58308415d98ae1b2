"""Traced operations that move or create elements: reshapes, indexing, concatenation, padding, lookup, creation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from numbers import Integral
from typing import Any

from meshgen.frontend.tracer.operands import (
    aligned,
    axes_of,
    axis_of,
    broadcast,
    dtype_of,
    emit,
    promote,
    sizes_of,
    tensor,
)
from meshgen.frontend.tracer.recording import OPS, refuse, traced
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_float


@traced
def reshape(x: Operand, shape: int | Sequence[int]) -> Tensor:
    """The same elements in row-major order at another shape; one size may be -1."""
    x = tensor(x)
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if sizes.count(-1) == 1:
        rest = -math.prod(sizes)
        sizes = [x.size // rest if s == -1 and rest else s for s in sizes]
    if math.prod(sizes) != x.size or min(sizes, default=0) < 0 or not all(isinstance(s, Integral) for s in sizes):
        refuse(
            f"{list(x.shape)} has {x.size} elements, which do not fill the shape {list(shape) if not isinstance(shape, int) else [shape]}"
        )
    return x if tuple(sizes) == x.shape else emit("reshape", [x], TensorType(tuple(sizes), x.type.dtype))


@traced
def transpose(x: Operand, axes: Sequence[Any] | None = None) -> Tensor:
    """Dims in another order; None reverses them."""
    x = tensor(x)
    if axes and not isinstance(axes[0], int):
        axes = axes[0]
    perm = tuple(axis_of(a, x.ndim) for a in axes) if axes is not None else tuple(reversed(range(x.ndim)))
    if sorted(perm) != list(range(x.ndim)):
        refuse(f"{perm} is not a permutation of the {x.ndim} dims of {x.type}")
    if perm == tuple(range(x.ndim)):
        return x
    return emit("transpose", [x], TensorType(tuple(x.shape[p] for p in perm), x.type.dtype), {"perm": perm})


@traced
def swapaxes(x: Operand, first: int, second: int) -> Tensor:
    x = tensor(x)
    perm = list(range(x.ndim))
    i, j = axis_of(first, x.ndim), axis_of(second, x.ndim)
    perm[i], perm[j] = j, i
    return transpose(x, perm)


@traced
def broadcast_to(x: Operand, shape: Sequence[int]) -> Tensor:
    return broadcast(tensor(x), shape)


@traced
def expand_dims(x: Operand, axis: int | Sequence[int]) -> Tensor:
    """New dims of size 1 at these places of the result."""
    x = tensor(x)
    rank = x.ndim + (1 if isinstance(axis, int) else len(axis))
    places, old = axes_of(axis, rank), iter(x.shape)
    return reshape(x, [1 if d in places else next(old) for d in range(rank)])


@traced
def squeeze(x: Operand, axis: int | Sequence[int] | None = None) -> Tensor:
    """Without dims of size 1: the given ones, or all."""
    x = tensor(x)
    places = [d for d, s in enumerate(x.shape) if s == 1] if axis is None else axes_of(axis, x.ndim)
    if wrong := [d for d in places if x.shape[d] != 1]:
        refuse(f"dim {wrong[0]} of {x.type} has size {x.shape[wrong[0]]} and cannot be squeezed")
    return reshape(x, [s for d, s in enumerate(x.shape) if d not in places])


@traced
def getitem(x: Tensor, index: Any) -> Tensor:
    """Basic indexing (ints, slices, None, ...), or a lookup of rows by one integer tensor."""
    if isinstance(index, Tensor):
        return take(x, index, 0)
    entries = list(index) if isinstance(index, tuple) else [index]
    used = sum(e is not None and e is not Ellipsis for e in entries)
    if used > x.ndim or sum(e is Ellipsis for e in entries) > 1:
        refuse(f"{len(entries)} indices are too many for {x.type}")
    gap = next((i for i, e in enumerate(entries) if e is Ellipsis), len(entries))
    entries[gap : gap + 1] = [slice(None)] * (x.ndim - used)
    ranges, shape, flipped = _ranges(x, entries)
    if any(r != range(s) for r, s in zip(ranges, x.shape, strict=True)):
        bounds = {
            "start": tuple(r.start for r in ranges),
            "limit": tuple(r.stop for r in ranges),
            "stride": tuple(r.step for r in ranges),
        }
        x = emit("slice", [x], TensorType(tuple(map(len, ranges)), x.type.dtype), bounds)
    if flipped:
        x = emit("reverse", [x], x.type, {"dims": flipped})
    return reshape(x, shape)


def _ranges(x: Tensor, entries: Sequence[Any]) -> tuple[list[range], list[int], tuple[int, ...]]:
    """Rows taken of each dim in rising order, the result's shape, and the dims that run backwards."""
    ranges: list[range] = []
    shape: list[int] = []
    flipped: list[int] = []
    for entry in entries:
        if entry is None:
            shape.append(1)
            continue
        size = x.shape[len(ranges)]
        if isinstance(entry, slice):
            rows = range(*_bounds(entry, size))
            if rows.step < 0:
                flipped.append(len(ranges))
                rows = rows[::-1]
            shape.append(len(rows))
            start = rows.start if rows else 0
            ranges.append(range(start, max(start, rows[-1] + 1 if rows else 0), rows.step))
        else:
            at = _row(entry, size, len(ranges), x)
            ranges.append(range(at, at + 1))
    return ranges, shape, tuple(flipped)


def _bounds(entry: slice, size: int) -> tuple[int, int, int]:
    """Start, stop and step. Raises ProgramError for bounds that are not integers."""
    try:
        return entry.indices(size)
    except (TypeError, ValueError) as error:
        refuse(f"{error}", "the bounds of a slice must be Python ints, and its step an int other than 0")


def _row(entry: Any, size: int, dim: int, x: Tensor) -> int:
    """An index counted from the front. Raises ProgramError if it is out of range."""
    try:
        at = None if isinstance(entry, bool) else entry.__index__()
    except (AttributeError, TypeError):
        refuse(
            f"an index of type {type(entry).__name__} is not supported",
            "index with ints, slices, None, ... or one integer tensor",
        )
    if at is None:
        refuse("an index of type bool is not supported", "choose elements with where")
    if not -size <= at < size:
        refuse(f"index {at} is outside dim {dim} of {x.type}, which has size {size}")
    return at % size


@traced
def concatenate(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """The tensors one after the other along an existing dim."""
    if not tensors:
        refuse("concatenate needs at least one tensor")
    dtype = promote(*tensors)
    parts = [tensor(t, dtype) for t in tensors]
    dim = axis_of(axis, parts[0].ndim)
    rests = [(*p.shape[:dim], *p.shape[dim + 1 :]) for p in parts]
    if any(rest != rests[0] for rest in rests) or any(p.ndim != parts[0].ndim for p in parts):
        refuse(
            f"the shapes {' and '.join(str(list(p.shape)) for p in parts)} cannot be concatenated along axis {dim}",
            "all other dims must be equal",
        )
    shape = list(parts[0].shape)
    shape[dim] = sum(p.shape[dim] for p in parts)
    return emit("concatenate", parts, TensorType(tuple(shape), dtype), {"dim": dim})


@traced
def stack(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """The tensors one after the other along a new dim."""
    return concatenate([expand_dims(t, axis) for t in aligned(*tensors)], axis)


@traced
def split(x: Operand, parts: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Equal parts along a dim, or parts between the given row numbers."""
    x = tensor(x)
    dim = axis_of(axis, x.ndim)
    size = x.shape[dim]
    if isinstance(parts, int):
        if parts < 1 or size % parts:
            refuse(f"dim {dim} of {x.type} cannot be split into {parts} equal parts", "give the indices to split at")
        parts = list(accumulate([size // parts] * (parts - 1)))
    cuts = [0, *parts, size]
    return [getitem(x, (*[slice(None)] * dim, slice(a, b))) for a, b in pairwise(cuts)]


@traced
def pad(x: Operand, widths: Sequence[Sequence[int]], value: float = 0) -> Tensor:
    """`value` before and after the rows of each dim; `widths` holds (before, after) per dim."""
    x = tensor(x)
    if len(widths) != x.ndim or any(len(w) != 2 or min(w) < 0 for w in widths):
        refuse(f"pad needs a pair of sizes for each of the {x.ndim} dims of {x.type}, not {[list(w) for w in widths]}")
    low, high = tuple(w[0] for w in widths), tuple(w[1] for w in widths)
    shape = tuple(a + s + b for a, s, b in zip(low, x.shape, high, strict=True))
    attrs = {"low": low, "high": high, "interior": (0,) * x.ndim}
    return emit("pad", [x, tensor(value, x.type.dtype)], TensorType(shape, x.type.dtype), attrs)


@traced
def take(table: Operand, indices: Operand, axis: int = 0) -> Tensor:
    """Rows of `table` along `axis` by number, as an embedding does; a negative number counts from the end.

    A number outside the table takes the nearest row (StableHLO's gather clamps).
    """
    table, indices = tensor(table), tensor(indices)
    if is_float(indices.type.dtype) or indices.type.dtype == "i1":
        refuse(f"indices must be integers, got {indices.type.dtype}")
    dim = axis_of(axis, table.ndim)
    size = table.shape[dim]
    if indices.type.dtype[0] != "u":
        indices = OPS["where"](indices < 0, indices + size, indices)
    shape = (*table.shape[:dim], *indices.shape, *table.shape[dim + 1 :])
    starts = reshape(indices, (*indices.shape, 1))
    attrs = {
        "offset_dims": tuple(d for d in range(len(shape)) if not dim <= d < dim + indices.ndim),
        "collapsed_slice_dims": (dim,),
        "operand_batching_dims": (),
        "start_indices_batching_dims": (),
        "start_index_map": (dim,),
        "index_vector_dim": indices.ndim,
        "slice_sizes": tuple(1 if d == dim else s for d, s in enumerate(table.shape)),
        "indices_are_sorted": False,
    }
    return emit("gather", [table, starts], TensorType(shape, table.type.dtype), attrs)


@traced
def iota(shape: Sequence[int], axis: int = 0, dtype: Any = "i32") -> Tensor:
    """The row number along `axis` in every element."""
    sizes = sizes_of(shape)
    return emit("iota", [], TensorType(sizes, dtype_of(dtype)), {"dim": axis_of(axis, len(sizes))})


@traced
def arange(start: int, stop: int | None = None, step: int = 1, dtype: Any = "i32") -> Tensor:
    """start, start + step, ... below stop; `arange(n)` counts from 0."""
    rows = range(start) if stop is None else range(start, stop, step)
    numbers = iota((len(rows),), 0, dtype)
    numbers = numbers if rows.step == 1 else numbers * rows.step
    return numbers if rows.start == 0 else numbers + rows.start


@traced
def full(shape: Sequence[int], value: Operand, dtype: Any = None) -> Tensor:
    """`value` everywhere; of its element type unless `dtype` says otherwise."""
    return broadcast(tensor(value, None if dtype is None else dtype_of(dtype)), shape)


@traced
def zeros(shape: Sequence[int], dtype: Any = "f32") -> Tensor:
    return full(shape, 0, dtype)


@traced
def ones(shape: Sequence[int], dtype: Any = "f32") -> Tensor:
    return full(shape, 1, dtype)
