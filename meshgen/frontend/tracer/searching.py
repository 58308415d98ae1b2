"""Traced sorting and searching: argmax, sort, top-k, nonzero, unique elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from meshgen.frontend.tracer.creation import arange, full, iota
from meshgen.frontend.tracer.joining import concatenate
from meshgen.frontend.tracer.logic import isnan, logical_and, logical_not, logical_or, truth, where
from meshgen.frontend.tracer.operands import axis_of, convert, emit, scalar, tensor
from meshgen.frontend.tracer.recording import current, refuse, traced, user_location
from meshgen.frontend.tracer.reduce import any_, extreme, sum_
from meshgen.frontend.tracer.scans import cumsum
from meshgen.frontend.tracer.shapes import expand_dims, moveaxis, ravel, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.frontend.tracer.trace_regions import body, emit_regions
from meshgen.ir.graph import TensorType, is_float


@traced
def argmax(x: Operand, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the largest element along a dim (None: of the flattened tensor), as i32.

    Of equal elements, the first one counts. NaN counts as largest.
    """
    return _arg("maximum", x, axis, keepdims)


@traced
def argmin(x: Operand, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the smallest element along a dim (None: of the flattened tensor), as i32.

    Of equal elements, the first one counts. NaN counts as smallest.
    """
    return _arg("minimum", x, axis, keepdims)


def _arg(kind: str, x: Operand, axis: int | None, keepdims: bool) -> Tensor:
    x = tensor(x)
    rank = x.ndim
    x = ravel(x) if axis is None else x
    x = convert(x, "i8") if x.type.dtype == "i1" else x
    dim = axis_of(0 if axis is None else axis, x.ndim)
    if not x.shape[dim]:
        refuse(f"dim {dim} of {x.type} is empty and has no {kind}")

    def better(value: Tensor, index: Tensor, other_value: Tensor, other_index: Tensor) -> tuple[Tensor, Tensor]:
        is_better = value > other_value if kind == "maximum" else value < other_value
        # A NaN counts as larger (or smaller) than any number.
        is_better = logical_or(is_better, value != value) if is_float(value.type.dtype) else is_better
        is_first = logical_or(is_better, logical_and(value == other_value, index < other_index))
        return where(is_better, value, other_value), where(is_first, index, other_index)

    element, number = TensorType((), x.type.dtype), TensorType((), "i32")
    result_shape = [size for d, size in enumerate(x.shape) if d != dim]
    operands = [x, iota(x.shape, dim), scalar(extreme(kind, x.type.dtype), x.type.dtype), scalar(0, "i32")]
    region = body(better, element, number, element, number)
    indices = emit_regions("reduce_region", operands, [TensorType(tuple(result_shape), t.dtype) for t in (element, number)], [region], {"dims": (dim,)})[1]  # fmt: skip
    if not keepdims:
        return indices
    return reshape(indices, [1] * rank) if axis is None else expand_dims(indices, dim)


def _sorted(operands: Sequence[Tensor], dim: int, descending: bool) -> list[Tensor]:
    """Sort all operands along a dim by the order of the first operand, stably.

    NaN comes last, or first with `descending`.
    """
    kinds = [TensorType((), operand.type.dtype) for operand in operands for _ in range(2)]

    def before(left: Tensor, right: Tensor, *_: Tensor) -> Tensor:
        left, right = (right, left) if descending else (left, right)
        is_float_ = is_float(left.type.dtype)
        return emit(
            "compare",
            [_ordered(left), _ordered(right)] if is_float_ else [left, right],
            TensorType((), "i1"),
            {"direction": "LT", "compare_type": _order(left.type.dtype)},
        )

    attrs = {"dim": dim, "is_stable": True}
    return emit_regions("sort", operands, [operand.type for operand in operands], [body(before, *kinds)], attrs)


def _order(dtype: str) -> str:
    return "TOTALORDER" if is_float(dtype) else "UNSIGNED" if dtype == "i1" or dtype[0] == "u" else "SIGNED"


def _ordered(x: Tensor) -> Tensor:
    """Map floats so that StableHLO's TOTALORDER sorts them as numbers: -0.0 becomes 0.0, and each NaN a positive NaN."""
    x = where(x == 0, 0.0, x)
    return where(isnan(x), float("nan"), x)


def _along(x: Operand, axis: int | None) -> tuple[Tensor, int]:
    x = ravel(x) if axis is None else tensor(x)
    if x.type.dtype.startswith("c"):
        refuse("complex numbers have no order", "sort their absolute values, meshgen.abs")
    return x, axis_of(-1 if axis is None else axis, x.ndim)


@traced
def sort(x: Operand, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Sort elements along a dim (None: of the flattened tensor), ascending with NaN last.

    With `descending`, the order is reversed.
    """
    x, dim = _along(x, axis)
    return _sorted([x], dim, descending)[0]


@traced
def argsort(x: Operand, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices, as i32, that would sort the elements in the order of `sort`."""
    x, dim = _along(x, axis)
    return _sorted([x, iota(x.shape, dim)], dim, descending)[1]


@traced
def top_k(x: Operand, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """Return the k largest elements along a dim, descending, and their indices as i32. Equal elements keep their order."""
    x, dim = _along(x, axis)
    if not 0 <= k <= x.shape[dim]:
        refuse(f"top_k needs 0 <= k <= {x.shape[dim]}, the size of dim {dim} of {x.type}, not {k}")
    rows = moveaxis(x, dim, -1)
    shape = (*rows.shape[:-1], k)
    types = [TensorType(shape, x.type.dtype), TensorType(shape, "i32")]
    node = current().graph.add("top_k", [rows.value], types, {"k": k}, loc=user_location())
    values, indices = (moveaxis(Tensor(value), -1, dim) for value in node.results)
    return values, indices


@traced
def searchsorted(table: Operand, values: Operand, side: str = "left", sorter: Operand | None = None) -> Tensor:
    """Return for each value the number of smaller elements in a sorted 1-d table, as i32.

    With side `right`, equal elements are counted too.
    """
    table = tensor(table)
    table = table if sorter is None else table[tensor(sorter)]
    if table.ndim != 1 or side not in ("left", "right"):
        refuse(f"searchsorted needs a 1-d table and side 'left' or 'right', not {table.type} and '{side}'")
    keys = expand_dims(values, tensor(values).ndim)
    return sum_(table < keys if side == "left" else table <= keys, -1, dtype="i32")


@traced
def isin(x: Operand, values: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element of x equals one of the elements of `values`."""
    x = tensor(x)
    is_member = any_(expand_dims(x, x.ndim) == ravel(values), -1)
    return logical_not(is_member) if invert else is_member


# Functions whose result size depends on data: the caller gives a fixed size, as in JAX
# ---------------------------------


def _sized(name: str, size: int | None) -> int:
    if size is None:
        refuse(f"the number of elements of '{name}' depends on data, but shapes are static", f"give the most elements to return: {name}(x, size=...)")  # fmt: skip
    return size


@traced
def nonzero(x: Operand, *, size: int | None = None, fill_value: int = 0) -> tuple[Tensor, ...]:
    """Return the indices of the first `size` nonzero elements, as one tensor per dim.

    If there are fewer, the rest is filled with `fill_value`.
    """
    x = tensor(x)
    size = _sized("nonzero", size)
    flags = ravel(truth(x))
    slot = where(flags, cumsum(flags, 0, "i32") - 1, size)
    flat_indices = full((size,), -1, "i32").at[slot].set(arange(x.size))
    strides = [int(np.prod(x.shape[d + 1 :])) for d in range(x.ndim)]
    pairs = zip(strides, x.shape, strict=True)
    return tuple(where(flat_indices < 0, fill_value, flat_indices // stride % extent) for stride, extent in pairs)


class Unique(NamedTuple):
    """Result of `unique_all`: the distinct elements of a tensor.

    Attributes:
        values: the distinct elements in ascending order.
        indices: the flat index of the first occurrence of each value.
        inverse_indices: for each element of the tensor, the position of its value in `values`.
        counts: the number of occurrences of each value.
    """

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Result of `unique_counts`: the distinct elements, and the number of occurrences of each."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Result of `unique_inverse`: the distinct elements, and the position of each element of the tensor among them."""

    values: Tensor
    inverse_indices: Tensor


@traced
def unique_all(x: Operand, *, size: int | None = None, fill_value: Operand = 0) -> Unique:
    """Return the first `size` distinct elements in ascending order, with indices and counts (see `Unique`).

    If there are fewer, the rest is filled with `fill_value`.
    """
    x = tensor(x)
    size = _sized("unique_all", size)
    flat = ravel(x)
    values, order = _sorted([flat, iota(flat.shape)], 0, False)
    is_group_start = concatenate([full((min(1, x.size),), True), values[1:] != values[:-1]])
    group = cumsum(is_group_start, 0, "i32") - 1
    distinct = full((size,), fill_value, x.type.dtype).at[group].set(values)
    first = full((size,), 0, "i32").at[where(is_group_start, group, size)].set(order)
    inverse = full(flat.shape, 0, "i32").at[order].set(group)
    return Unique(distinct, first, reshape(inverse, x.shape), full((size,), 0, "i32").at[group].add(1))


@traced
def unique_values(x: Operand, *, size: int | None = None, fill_value: Operand = 0) -> Tensor:
    """Return the first `size` distinct elements in ascending order. If there are fewer, the rest is `fill_value`."""
    return unique_all(x, size=_sized("unique_values", size), fill_value=fill_value).values


@traced
def unique_counts(x: Operand, *, size: int | None = None, fill_value: Operand = 0) -> UniqueCounts:
    """Return the first `size` distinct elements in ascending order, and the number of occurrences of each.

    If there are fewer, the rest of the elements is `fill_value`.
    """
    unique = unique_all(x, size=_sized("unique_counts", size), fill_value=fill_value)
    return UniqueCounts(unique.values, unique.counts)


@traced
def unique_inverse(x: Operand, *, size: int | None = None, fill_value: Operand = 0) -> UniqueInverse:
    """Return the first `size` distinct elements in ascending order, and the position of each element of x among them.

    If there are fewer, the rest is `fill_value`.
    """
    unique = unique_all(x, size=_sized("unique_inverse", size), fill_value=fill_value)
    return UniqueInverse(unique.values, unique.inverse_indices)
