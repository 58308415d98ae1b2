"""Traced reads by index: NumPy's indexing, gathers, and slices at dynamic offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import axis_of, broadcast, common_shape, convert, emit, sizes_of, tensor
from meshgen.frontend.tracer.recording import refuse, traced
from meshgen.frontend.tracer.shapes import expand_dims, moveaxis, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_inexact


@dataclass(frozen=True)
class ParsedIndex:
    """A NumPy index as a strided slice, followed by a gather along some dims of the sliced tensor.

    Attributes:
        ranges: the rows that the slice reads along each dim of the tensor.
        flipped: dims that are reversed after the slice.
        basic: the shape after the slice. Dims that an int selects are dropped; each None adds a dim of size 1.
        dims: for each dim of `basic`, the dim of the tensor, or None for an added dim.
        rows: index tensors for the gather, by dim of `basic`.
        first: the dim of the result at which the dims of the index tensors start.
    """

    ranges: tuple[range, ...]
    flipped: tuple[int, ...]
    basic: tuple[int, ...]
    dims: tuple[int | None, ...]
    rows: dict[int, Tensor]
    first: int


def parse_index(x: Tensor, index: Any) -> ParsedIndex:
    """Parse the NumPy index `index` of the tensor `x`.

    Raises:
        ProgramError: NumPy rejects the index, or it is a boolean mask, so that the size of the result depends on data.
    """
    entries = _entries(x, index)
    has_rows = any(isinstance(entry, Tensor) for entry in entries)
    ranges: list[range] = []
    basic: list[int] = []
    dims: list[int | None] = []
    flipped: list[int] = []
    rows: dict[int, Tensor] = {}
    # Entries that are index tensors. If there are any, ints count as index tensors too.
    advanced_entries: list[int] = []
    for number, entry in enumerate(entries):
        if entry is None:
            basic.append(1)
            dims.append(None)
            continue
        dim, size = len(ranges), x.shape[len(ranges)]
        if isinstance(entry, Tensor):
            rows[len(basic)] = _from_front(entry, size)
            advanced_entries.append(number)
            ranges.append(range(size))
            basic.append(size)
            dims.append(dim)
        elif isinstance(entry, slice):
            indices = range(*_bounds(entry, size))
            if indices.step < 0:
                flipped.append(dim)
                indices = indices[::-1]
            basic.append(len(indices))
            dims.append(dim)
            start = indices.start if indices else 0
            ranges.append(range(start, max(start, indices[-1] + 1 if indices else 0), indices.step))
        else:
            position = _index_from_front(entry, size, dim, x)
            ranges.append(range(position, position + 1))
            if has_rows:
                advanced_entries.append(number)
    is_separated = bool(advanced_entries) and advanced_entries[-1] - advanced_entries[0] >= len(advanced_entries)
    return ParsedIndex(
        tuple(ranges), tuple(flipped), tuple(basic), tuple(dims), rows, 0 if is_separated or not rows else min(rows)
    )


def _entries(x: Tensor, index: Any) -> list[Any]:
    """Return the entries of an index, with `...` expanded so that each dim of the tensor has an entry.

    Each None is an additional entry. Arrays and lists become tensors.
    """
    entries = [_index_entry(entry) for entry in (index if isinstance(index, tuple) else (index,))]
    used_dims = sum(e is not None and e is not Ellipsis for e in entries)
    if used_dims > x.ndim or sum(e is Ellipsis for e in entries) > 1:
        refuse(f"{len(entries)} indices are too many for {x.type}")
    ellipsis_position = next((i for i, e in enumerate(entries) if e is Ellipsis), len(entries))
    entries[ellipsis_position : ellipsis_position + 1] = [slice(None)] * (x.ndim - used_dims)
    return entries


def _index_entry(entry: Any) -> Any:
    if isinstance(entry, (list, np.ndarray)):
        array = np.asarray(entry)
        entry = tensor(array.astype(np.int32) if array.size == 0 or array.dtype == np.int64 else array)
    if isinstance(entry, Tensor):
        if entry.type.dtype == "i1":
            refuse(
                "an index of type bool is not supported: the number of selected elements depends on data",
                "choose elements with where",
            )
        if is_inexact(entry.type.dtype):
            refuse(f"indices must be integers, got {entry.type.dtype}")
    return entry


def _from_front(rows: Tensor, size: int) -> Tensor:
    """Replace negative row indices, which count from the end, by non-negative ones."""
    return rows if rows.type.dtype[0] == "u" else where(rows < 0, rows + size, rows)


def _bounds(entry: slice, size: int) -> tuple[int, int, int]:
    """Return (start, stop, step) of a slice. Raises ProgramError if a bound is not an integer."""
    try:
        return entry.indices(size)
    except (TypeError, ValueError) as error:
        refuse(
            f"{error}",
            "the bounds of a slice must be Python ints, and its step an int other than 0; mg.dynamic_slice has others",
        )


def _index_from_front(entry: Any, size: int, dim: int, x: Tensor) -> int:
    """Return the index `entry`, counted from the front. Raises ProgramError if it is out of range or not an integer."""
    try:
        position = None if isinstance(entry, bool) else entry.__index__()
    except (AttributeError, TypeError):
        refuse(
            f"an index of type {type(entry).__name__} is not supported",
            "index with ints, slices, None, ..., and integer tensors or lists",
        )
    if position is None:
        refuse("an index of type bool is not supported", "choose elements with where")
    if not -size <= position < size:
        refuse(f"index {position} is outside dim {dim} of {x.type}, which has size {size}")
    return position % size


@traced
def getitem(x: Tensor, index: Any) -> Tensor:
    """Return `x[index]`, as NumPy does. Integer tensors in the index are clamped to the bounds."""
    parsed = parse_index(x, index)
    if any(r != range(s) for r, s in zip(parsed.ranges, x.shape, strict=True)):
        bounds = {
            "start": tuple(r.start for r in parsed.ranges),
            "limit": tuple(r.stop for r in parsed.ranges),
            "stride": tuple(r.step for r in parsed.ranges),
        }
        x = emit("slice", [x], TensorType(tuple(map(len, parsed.ranges)), x.type.dtype), bounds)
    if parsed.flipped:
        x = emit("reverse", [x], x.type, {"dims": parsed.flipped})
    x = reshape(x, parsed.basic)
    return gathered(x, parsed.rows, parsed.first) if parsed.rows else x


def gathered(x: Tensor, rows: dict[int, Tensor], first: int) -> Tensor:
    """Gather elements of `x` with the index tensors `rows`, by dim of `x`.

    The index tensors broadcast to one shape; its dims start at dim `first` of the result.
    """
    if all(not indices.ndim for indices in rows.values()):
        starts = [rows.get(dim, 0) for dim in range(x.ndim)]
        sliced = dynamic_slice(x, starts, [1 if dim in rows else size for dim, size in enumerate(x.shape)])
        return reshape(sliced, [size for dim, size in enumerate(x.shape) if dim not in rows])
    shape, vectors = index_vectors(rows)
    kept_sizes = [size for dim, size in enumerate(x.shape) if dim not in rows]
    sizes = (*kept_sizes[:first], *shape, *kept_sizes[first:])
    attrs = {
        "offset_dims": tuple(d for d in range(len(sizes)) if not first <= d < first + len(shape)),
        "collapsed_slice_dims": tuple(rows),
        "operand_batching_dims": (),
        "start_indices_batching_dims": (),
        "start_index_map": tuple(rows),
        "index_vector_dim": len(shape),
        "slice_sizes": tuple(1 if dim in rows else size for dim, size in enumerate(x.shape)),
        "indices_are_sorted": False,
    }
    return emit("gather", [x, vectors], TensorType(sizes, x.type.dtype), attrs)


def index_vectors(rows: dict[int, Tensor]) -> tuple[tuple[int, ...], Tensor]:
    """Broadcast index tensors to one shape. Return this shape, and a tensor with the index vectors in a new last dim."""
    shape = common_shape(*rows.values())
    dtype = (
        next(iter(rows.values())).type.dtype if len({indices.type.dtype for indices in rows.values()}) == 1 else "i32"
    )
    columns = [expand_dims(broadcast(convert(indices, dtype), shape), len(shape)) for indices in rows.values()]
    kind = TensorType((*shape, len(columns)), dtype)
    return shape, columns[0] if len(columns) == 1 else emit("concatenate", columns, kind, {"dim": len(shape)})


@traced
def take(table: Operand, indices: Operand, axis: int | None = None) -> Tensor:
    """Return the slices of `table` along `axis` at `indices`. With `axis` None, the table is flattened.

    Negative indices count from the end. Indices out of bounds are clamped, as in StableHLO's gather.
    """
    table = reshape(table, -1) if axis is None else tensor(table)
    dim = axis_of(0 if axis is None else axis, table.ndim)
    return getitem(table, (*[slice(None)] * dim, tensor(indices)))


@traced
def take_along_axis(x: Operand, indices: Operand, axis: int | None = -1) -> Tensor:
    """Gather elements along a dim: result[.., i, ..] = x[.., indices[.., i, ..], ..], as for the result of argsort.

    The other dims of `x` and `indices` broadcast.
    """
    if axis is None:
        x, axis = reshape(x, -1), 0
    x, indices = tensor(x), tensor(indices)
    dim = axis_of(axis, x.ndim)
    if indices.ndim != x.ndim or is_inexact(indices.type.dtype):
        refuse(f"take_along_axis needs integers of rank {x.ndim}, not {indices.type}")
    broadcast_sizes = np.broadcast_shapes(*(tuple(np.delete(operand.shape, dim)) for operand in (x, indices)))
    x, indices = (
        broadcast(operand, [*broadcast_sizes[:dim], operand.shape[dim], *broadcast_sizes[dim:]])
        for operand in (x, indices)
    )
    other_dims = tuple(d for d in range(x.ndim) if d != dim)
    attrs = {
        "offset_dims": (),
        "collapsed_slice_dims": (dim,),
        "operand_batching_dims": other_dims,
        "start_indices_batching_dims": other_dims,
        "start_index_map": (dim,),
        "index_vector_dim": x.ndim,
        "slice_sizes": (1,) * x.ndim,
        "indices_are_sorted": False,
    }
    starts = expand_dims(_from_front(indices, x.shape[dim]), x.ndim)
    return emit("gather", [x, starts], TensorType(indices.shape, x.type.dtype), attrs)


def _starts(x: Tensor, starts: Any) -> list[Tensor]:
    """Return the start of a dynamic slice along each dim as a 0-d integer tensor, counted from the front."""
    start_list = [starts[i] for i in range(len(starts))] if isinstance(starts, Tensor) else list(starts)
    if len(start_list) != x.ndim or any(isinstance(start, Tensor) and (start.ndim or is_inexact(start.type.dtype)) for start in start_list):  # fmt: skip
        refuse(f"a slice of {x.type} needs {x.ndim} starts, integers or 0-d integer tensors")
    from_front = [
        start % size if isinstance(start, Integral) and start < 0 else start
        for start, size in zip(start_list, x.shape, strict=True)
    ]
    dtype = next((start.type.dtype for start in from_front if isinstance(start, Tensor)), "i32")
    pairs = zip(from_front, x.shape, strict=True)
    return [tensor(n if isinstance(n, Integral) else _from_front(tensor(n), size), dtype) for n, size in pairs]


@traced
def dynamic_slice(x: Operand, starts: Any, sizes: Sequence[int]) -> Tensor:
    """Return a slice of `x` with the sizes `sizes` at a dynamic offset `starts`.

    Negative starts count from the end. The offset is clamped so that the slice fits.
    """
    x, shape = tensor(x), sizes_of(sizes)
    if len(shape) != x.ndim or any(size > limit for size, limit in zip(shape, x.shape, strict=False)):
        refuse(f"a slice of sizes {list(shape)} does not fit into {x.type}")
    return emit("dynamic_slice", [x, *_starts(x, starts)], x.type.with_shape(shape), {"slice_sizes": shape})


@traced
def dynamic_slice_in_dim(x: Operand, start: Operand, size: int, axis: int = 0) -> Tensor:
    """Return `size` rows of `x` along a dim, from the dynamic row `start` on."""
    x = tensor(x)
    dim = axis_of(axis, x.ndim)
    return dynamic_slice(x, [start if d == dim else 0 for d in range(x.ndim)], [size if d == dim else s for d, s in enumerate(x.shape)])  # fmt: skip


@traced
def dynamic_index_in_dim(x: Operand, index: Operand, axis: int = 0, keepdims: bool = True) -> Tensor:
    """Return the row of `x` at a dynamic index along a dim. With `keepdims`, the dim remains, with size 1."""
    row = dynamic_slice_in_dim(x, index, 1, axis)
    return row if keepdims else reshape(row, tuple(np.delete(row.shape, axis)))


@traced
def dynamic_update_slice(x: Operand, update: Operand, starts: Any) -> Tensor:
    """Return `x` with `update` written at the dynamic offset `starts`, which is clamped so that `update` fits."""
    x = tensor(x)
    update = tensor(update, x.type.dtype)
    if update.ndim != x.ndim or any(size > limit for size, limit in zip(update.shape, x.shape, strict=False)):
        refuse(f"an update {update.type} does not fit into {x.type}")
    return emit("dynamic_update_slice", [x, update, *_starts(x, starts)], x.type)


@traced
def dynamic_update_slice_in_dim(x: Operand, update: Operand, start: Operand, axis: int) -> Tensor:
    """Return `x` with `update` written along one dim, from the dynamic row `start` on."""
    x, update = tensor(x), tensor(update)
    dim = axis_of(axis, x.ndim)
    update = update if update.ndim == x.ndim else expand_dims(update, dim)
    return dynamic_update_slice(x, update, [start if d == dim else 0 for d in range(x.ndim)])


@traced
def diagonal(x: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return the elements x[i, i + offset] of the dims `axis1` and `axis2`, in a new last dim."""
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    first = max(0, -offset)
    count = max(0, min(rows - first, columns - first - offset))
    numbers = np.arange(first, first + count, dtype=np.int32)
    return getitem(x, (..., numbers, numbers + offset))
