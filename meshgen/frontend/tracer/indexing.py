"""Traced reads by index: NumPy's indexing, rows by number, slices whose place is data."""

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
class Places:
    """An index, read: `ranges` of rows per dim of the tensor, then `rows` by number along some of these, then the result's dims.

    `basic` is the shape of what the ranges cut out, without dims of int entries, with those of None; `flipped` dims run backwards.
    `dims` has the tensor's dim of each. `rows` are tensors, per dim of `basic`, whose common dims in the result begin at `first`.
    """

    ranges: tuple[range, ...]
    flipped: tuple[int, ...]
    basic: tuple[int, ...]
    dims: tuple[int | None, ...]
    rows: dict[int, Tensor]
    first: int


def places(x: Tensor, index: Any) -> Places:
    """What an index means for a tensor. Raises ProgramError for what NumPy refuses, and for flags, whose count is not known."""
    entries = _entries(x, index)
    has_rows = any(isinstance(entry, Tensor) for entry in entries)
    ranges: list[range] = []
    basic: list[int] = []
    dims: list[int | None] = []
    flipped: list[int] = []
    rows: dict[int, Tensor] = {}
    chosen: list[int] = []  # entries that are numbers of rows; ints are such beside others
    for number, entry in enumerate(entries):
        if entry is None:
            basic.append(1)
            dims.append(None)
            continue
        dim, size = len(ranges), x.shape[len(ranges)]
        if isinstance(entry, Tensor):
            rows[len(basic)] = _from_front(entry, size)
            chosen.append(number)
            ranges.append(range(size))
            basic.append(size)
            dims.append(dim)
        elif isinstance(entry, slice):
            taken = range(*_bounds(entry, size))
            if taken.step < 0:
                flipped.append(dim)
                taken = taken[::-1]
            basic.append(len(taken))
            dims.append(dim)
            start = taken.start if taken else 0
            ranges.append(range(start, max(start, taken[-1] + 1 if taken else 0), taken.step))
        else:
            at = _index_from_front(entry, size, dim, x)
            ranges.append(range(at, at + 1))
            if has_rows:
                chosen.append(number)
    apart = bool(chosen) and chosen[-1] - chosen[0] >= len(chosen)
    return Places(tuple(ranges), tuple(flipped), tuple(basic), tuple(dims), rows, 0 if apart or not rows else min(rows))


def _entries(x: Tensor, index: Any) -> list[Any]:
    """The entries of an index, one per dim of the tensor besides None; arrays and lists as tensors."""
    entries = [_index_entry(each) for each in (index if isinstance(index, tuple) else (index,))]
    used = sum(e is not None and e is not Ellipsis for e in entries)
    if used > x.ndim or sum(e is Ellipsis for e in entries) > 1:
        refuse(f"{len(entries)} indices are too many for {x.type}")
    gap = next((i for i, e in enumerate(entries) if e is Ellipsis), len(entries))
    entries[gap : gap + 1] = [slice(None)] * (x.ndim - used)
    return entries


def _index_entry(entry: Any) -> Any:
    if isinstance(entry, (list, np.ndarray)):
        array = np.asarray(entry)
        entry = tensor(array.astype(np.int32) if array.size == 0 or array.dtype == np.int64 else array)
    if isinstance(entry, Tensor):
        if entry.type.dtype == "i1":
            refuse(
                "an index of type bool is not supported: how many elements it takes is data",
                "choose elements with where",
            )
        if is_inexact(entry.type.dtype):
            refuse(f"indices must be integers, got {entry.type.dtype}")
    return entry


def _from_front(rows: Tensor, size: int) -> Tensor:
    """Row numbers counted from the front."""
    return rows if rows.type.dtype[0] == "u" else where(rows < 0, rows + size, rows)


def _bounds(entry: slice, size: int) -> tuple[int, int, int]:
    """Start, stop and step. Raises ProgramError for bounds that are not integers."""
    try:
        return entry.indices(size)
    except (TypeError, ValueError) as error:
        refuse(
            f"{error}",
            "the bounds of a slice must be Python ints, and its step an int other than 0; mg.dynamic_slice has others",
        )


def _index_from_front(entry: Any, size: int, dim: int, x: Tensor) -> int:
    """An index counted from the front. Raises ProgramError if it is out of range."""
    try:
        at = None if isinstance(entry, bool) else entry.__index__()
    except (AttributeError, TypeError):
        refuse(
            f"an index of type {type(entry).__name__} is not supported",
            "index with ints, slices, None, ..., and integer tensors or lists",
        )
    if at is None:
        refuse("an index of type bool is not supported", "choose elements with where")
    if not -size <= at < size:
        refuse(f"index {at} is outside dim {dim} of {x.type}, which has size {size}")
    return at % size


@traced
def getitem(x: Tensor, index: Any) -> Tensor:
    """NumPy's indexing with ints, slices, None, ..., and integer tensors; a row outside the tensor is the nearest one."""
    found = places(x, index)
    if any(r != range(s) for r, s in zip(found.ranges, x.shape, strict=True)):
        bounds = {
            "start": tuple(r.start for r in found.ranges),
            "limit": tuple(r.stop for r in found.ranges),
            "stride": tuple(r.step for r in found.ranges),
        }
        x = emit("slice", [x], TensorType(tuple(map(len, found.ranges)), x.type.dtype), bounds)
    if found.flipped:
        x = emit("reverse", [x], x.type, {"dims": found.flipped})
    x = reshape(x, found.basic)
    return gathered(x, found.rows, found.first) if found.rows else x


def gathered(x: Tensor, rows: dict[int, Tensor], first: int) -> Tensor:
    """Elements whose places along some dims are data: the dims of the row numbers begin at `first` in the result."""
    if all(not each.ndim for each in rows.values()):
        starts = [rows.get(dim, 0) for dim in range(x.ndim)]
        taken = dynamic_slice(x, starts, [1 if dim in rows else size for dim, size in enumerate(x.shape)])
        return reshape(taken, [size for dim, size in enumerate(x.shape) if dim not in rows])
    shape, vectors = index_vectors(rows)
    stays = [size for dim, size in enumerate(x.shape) if dim not in rows]
    sizes = (*stays[:first], *shape, *stays[first:])
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
    """The common shape of row numbers, and the numbers of each place beside each other in a last dim."""
    shape = common_shape(*rows.values())
    dtype = next(iter(rows.values())).type.dtype if len({each.type.dtype for each in rows.values()}) == 1 else "i32"
    columns = [expand_dims(broadcast(convert(each, dtype), shape), len(shape)) for each in rows.values()]
    kind = TensorType((*shape, len(columns)), dtype)
    return shape, columns[0] if len(columns) == 1 else emit("concatenate", columns, kind, {"dim": len(shape)})


@traced
def take(table: Operand, indices: Operand, axis: int | None = None) -> Tensor:
    """Rows of `table` along `axis` (None: of all its elements) by number; a negative number counts from the end.

    A number outside the table takes the nearest row (StableHLO's gather clamps).
    """
    table = reshape(table, -1) if axis is None else tensor(table)
    dim = axis_of(0 if axis is None else axis, table.ndim)
    return getitem(table, (*[slice(None)] * dim, tensor(indices)))


@traced
def take_along_axis(x: Operand, indices: Operand, axis: int | None = -1) -> Tensor:
    """Elements of each row along a dim by number, as argsort gives them; the other dims broadcast."""
    if axis is None:
        x, axis = reshape(x, -1), 0
    x, indices = tensor(x), tensor(indices)
    dim = axis_of(axis, x.ndim)
    if indices.ndim != x.ndim or is_inexact(indices.type.dtype):
        refuse(f"take_along_axis needs integers of rank {x.ndim}, not {indices.type}")
    lead = np.broadcast_shapes(*(tuple(np.delete(each.shape, dim)) for each in (x, indices)))
    x, indices = (broadcast(each, [*lead[:dim], each.shape[dim], *lead[dim:]]) for each in (x, indices))
    others = tuple(d for d in range(x.ndim) if d != dim)
    attrs = {
        "offset_dims": (),
        "collapsed_slice_dims": (dim,),
        "operand_batching_dims": others,
        "start_indices_batching_dims": others,
        "start_index_map": (dim,),
        "index_vector_dim": x.ndim,
        "slice_sizes": (1,) * x.ndim,
        "indices_are_sorted": False,
    }
    starts = expand_dims(_from_front(indices, x.shape[dim]), x.ndim)
    return emit("gather", [x, starts], TensorType(indices.shape, x.type.dtype), attrs)


def _starts(x: Tensor, starts: Any) -> list[Tensor]:
    """Where a slice begins, per dim, a 0-d integer each."""
    given = [starts[i] for i in range(len(starts))] if isinstance(starts, Tensor) else list(starts)
    if len(given) != x.ndim or any(isinstance(each, Tensor) and (each.ndim or is_inexact(each.type.dtype)) for each in given):  # fmt: skip
        refuse(f"a slice of {x.type} needs {x.ndim} starts, integers or 0-d integer tensors")
    numbers = [
        each % size if isinstance(each, Integral) and each < 0 else each
        for each, size in zip(given, x.shape, strict=True)
    ]
    dtype = next((each.type.dtype for each in numbers if isinstance(each, Tensor)), "i32")
    pairs = zip(numbers, x.shape, strict=True)
    return [tensor(n if isinstance(n, Integral) else _from_front(tensor(n), size), dtype) for n, size in pairs]


@traced
def dynamic_slice(x: Operand, starts: Any, sizes: Sequence[int]) -> Tensor:
    """A slice of fixed size whose start is data, moved to lie inside the tensor; negative starts count from the end."""
    x, shape = tensor(x), sizes_of(sizes)
    if len(shape) != x.ndim or any(part > whole for part, whole in zip(shape, x.shape, strict=False)):
        refuse(f"a slice of sizes {list(shape)} does not fit into {x.type}")
    return emit("dynamic_slice", [x, *_starts(x, starts)], x.type.with_shape(shape), {"slice_sizes": shape})


@traced
def dynamic_slice_in_dim(x: Operand, start: Operand, size: int, axis: int = 0) -> Tensor:
    """`size` rows along a dim, from a row that is data."""
    x = tensor(x)
    dim = axis_of(axis, x.ndim)
    return dynamic_slice(x, [start if d == dim else 0 for d in range(x.ndim)], [size if d == dim else s for d, s in enumerate(x.shape)])  # fmt: skip


@traced
def dynamic_index_in_dim(x: Operand, index: Operand, axis: int = 0, keepdims: bool = True) -> Tensor:
    """One row along a dim, by a number that is data."""
    row = dynamic_slice_in_dim(x, index, 1, axis)
    return row if keepdims else reshape(row, tuple(np.delete(row.shape, axis)))


@traced
def dynamic_update_slice(x: Operand, update: Operand, starts: Any) -> Tensor:
    """The tensor with a part of it replaced, whose place is data, moved to lie inside the tensor."""
    x = tensor(x)
    update = tensor(update, x.type.dtype)
    if update.ndim != x.ndim or any(part > whole for part, whole in zip(update.shape, x.shape, strict=False)):
        refuse(f"an update {update.type} does not fit into {x.type}")
    return emit("dynamic_update_slice", [x, update, *_starts(x, starts)], x.type)


@traced
def dynamic_update_slice_in_dim(x: Operand, update: Operand, start: Operand, axis: int) -> Tensor:
    """The tensor with rows along a dim replaced, from a row that is data."""
    x, update = tensor(x), tensor(update)
    dim = axis_of(axis, x.ndim)
    update = update if update.ndim == x.ndim else expand_dims(update, dim)
    return dynamic_update_slice(x, update, [start if d == dim else 0 for d in range(x.ndim)])


@traced
def diagonal(x: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements x[i, i + offset] of two dims, in a last one."""
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    first = max(0, -offset)
    count = max(0, min(rows - first, columns - first - offset))
    numbers = np.arange(first, first + count, dtype=np.int32)
    return getitem(x, (..., numbers, numbers + offset))
