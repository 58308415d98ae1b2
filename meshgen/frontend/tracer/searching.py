"""Traced orders and searches: extremes by place, sorting, the first k, places and sets of elements."""

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
from meshgen.frontend.tracer.regions import body, emit_regions
from meshgen.frontend.tracer.scans import cumsum
from meshgen.frontend.tracer.shapes import expand_dims, moveaxis, ravel, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_float


@traced
def argmax(x: Operand, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The number of the first largest element along a dim (None: of all), as i32; NaN counts as largest."""
    return _arg("maximum", x, axis, keepdims)


@traced
def argmin(x: Operand, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The number of the first smallest element along a dim (None: of all), as i32; NaN counts as smallest."""
    return _arg("minimum", x, axis, keepdims)


def _arg(kind: str, x: Operand, axis: int | None, keepdims: bool) -> Tensor:
    x = tensor(x)
    whole = x.ndim
    x = ravel(x) if axis is None else x
    x = convert(x, "i8") if x.type.dtype == "i1" else x
    dim = axis_of(0 if axis is None else axis, x.ndim)
    if not x.shape[dim]:
        refuse(f"dim {dim} of {x.type} is empty and has no {kind}")

    def better(value: Tensor, place: Tensor, other: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        ahead = value > other if kind == "maximum" else value < other
        ahead = logical_or(ahead, value != value) if is_float(value.type.dtype) else ahead  # NaN
        stays = logical_or(ahead, logical_and(value == other, place < at))
        return where(ahead, value, other), where(stays, place, at)

    element, number = TensorType((), x.type.dtype), TensorType((), "i32")
    kept = [size for d, size in enumerate(x.shape) if d != dim]
    operands = [x, iota(x.shape, dim), scalar(extreme(kind, x.type.dtype), x.type.dtype), scalar(0, "i32")]
    region = body(better, element, number, element, number)
    found = emit_regions("reduce_region", operands, [TensorType(tuple(kept), t.dtype) for t in (element, number)], [region], {"dims": (dim,)})[1]  # fmt: skip
    if not keepdims:
        return found
    return reshape(found, [1] * whole) if axis is None else expand_dims(found, dim)


def _sorted(operands: Sequence[Tensor], dim: int, descending: bool) -> list[Tensor]:
    """The operands in the order of the first one along a dim; equal elements keep theirs, NaN comes last (first if descending)."""
    kinds = [TensorType((), each.type.dtype) for each in operands for _ in range(2)]

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
    return emit_regions("sort", operands, [each.type for each in operands], [body(before, *kinds)], attrs)


def _order(dtype: str) -> str:
    return "TOTALORDER" if is_float(dtype) else "UNSIGNED" if dtype == "i1" or dtype[0] == "u" else "SIGNED"


def _ordered(x: Tensor) -> Tensor:
    """A float whose total order is that of numbers: one zero, and one NaN, after all others."""
    x = where(x == 0, 0.0, x)
    return where(isnan(x), float("nan"), x)


def _along(x: Operand, axis: int | None) -> tuple[Tensor, int]:
    x = ravel(x) if axis is None else tensor(x)
    if x.type.dtype.startswith("c"):
        refuse("complex numbers have no order", "sort their absolute values, meshgen.abs")
    return x, axis_of(-1 if axis is None else axis, x.ndim)


@traced
def sort(x: Operand, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Elements in rising order along a dim (None: all elements), NaN last; with `descending` the reverse."""
    x, dim = _along(x, axis)
    return _sorted([x], dim, descending)[0]


@traced
def argsort(x: Operand, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The numbers, as i32, of the elements in the order of `sort`."""
    x, dim = _along(x, axis)
    return _sorted([x, iota(x.shape, dim)], dim, descending)[1]


@traced
def top_k(x: Operand, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The k largest elements along a dim in falling order, and their numbers as i32; the first of equal ones comes first."""
    x, dim = _along(x, axis)
    if not 0 <= k <= x.shape[dim]:
        refuse(f"dim {dim} of {x.type} has {x.shape[dim]} elements, of which the first {k} cannot be taken")
    rows = moveaxis(x, dim, -1)
    shape = (*rows.shape[:-1], k)
    types = [TensorType(shape, x.type.dtype), TensorType(shape, "i32")]
    node = current().graph.add("top_k", [rows.value], types, {"k": k}, loc=user_location())
    values, numbers = (moveaxis(Tensor(value), -1, dim) for value in node.results)
    return values, numbers


@traced
def searchsorted(table: Operand, values: Operand, side: str = "left", sorter: Operand | None = None) -> Tensor:
    """How many elements of a sorted 1-d table come before each value: less than it, or with side `right` equal too; i32."""
    table = tensor(table)
    table = table if sorter is None else table[tensor(sorter)]
    if table.ndim != 1 or side not in ("left", "right"):
        refuse(f"searchsorted needs a 1-d table and side 'left' or 'right', not {table.type} and '{side}'")
    wanted = expand_dims(values, tensor(values).ndim)
    return sum_(table < wanted if side == "left" else table <= wanted, -1, dtype="i32")


@traced
def isin(x: Operand, values: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is one of the values."""
    x = tensor(x)
    found = any_(expand_dims(x, x.ndim) == ravel(values), -1)
    return logical_not(found) if invert else found


# What has as many elements as data says: the caller says how many there are room for, as in JAX -----------------------


def _sized(name: str, size: int | None) -> int:
    if size is None:
        refuse(f"how many elements '{name}' has is data, but shapes are fixed", f"say how many there is room for: {name}(x, size=...)")  # fmt: skip
    return size


@traced
def nonzero(x: Operand, *, size: int | None = None, fill_value: int = 0) -> tuple[Tensor, ...]:
    """The places of elements that are not 0, per dim; of `size` places, the last ones `fill_value` where there are fewer."""
    x = tensor(x)
    size = _sized("nonzero", size)
    flags = ravel(truth(x))
    place = where(flags, cumsum(flags, 0, "i32") - 1, size)
    found = full((size,), -1, "i32").at[place].set(arange(x.size))
    strides = [int(np.prod(x.shape[d + 1 :])) for d in range(x.ndim)]
    pairs = zip(strides, x.shape, strict=True)
    return tuple(where(found < 0, fill_value, found // stride % extent) for stride, extent in pairs)


class Unique(NamedTuple):
    """Different elements: their values, where each first is, which one each element is, how often it occurs."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Different elements, and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Different elements, and which one each element is."""

    values: Tensor
    inverse_indices: Tensor


@traced
def unique_all(x: Operand, *, size: int | None = None, fill_value: Operand = 0) -> Unique:
    """The different elements in rising order, with places and counts: `size` of them, the last ones filled up."""
    x = tensor(x)
    size = _sized("unique_all", size)
    flat = ravel(x)
    values, order = _sorted([flat, iota(flat.shape)], 0, False)
    starts = concatenate([full((min(1, x.size),), True), values[1:] != values[:-1]])
    number = cumsum(starts, 0, "i32") - 1
    found = full((size,), fill_value, x.type.dtype).at[number].set(values)
    first = full((size,), 0, "i32").at[where(starts, number, size)].set(order)
    inverse = full(flat.shape, 0, "i32").at[order].set(number)
    return Unique(found, first, reshape(inverse, x.shape), full((size,), 0, "i32").at[number].add(1))


@traced
def unique_values(x: Operand, *, size: int | None = None, fill_value: Operand = 0) -> Tensor:
    """The different elements in rising order: `size` of them, the last ones `fill_value` where there are fewer."""
    return unique_all(x, size=_sized("unique_values", size), fill_value=fill_value).values


@traced
def unique_counts(x: Operand, *, size: int | None = None, fill_value: Operand = 0) -> UniqueCounts:
    """The different elements, and how often each occurs."""
    found = unique_all(x, size=_sized("unique_counts", size), fill_value=fill_value)
    return UniqueCounts(found.values, found.counts)


@traced
def unique_inverse(x: Operand, *, size: int | None = None, fill_value: Operand = 0) -> UniqueInverse:
    """The different elements, and which one each element is."""
    found = unique_all(x, size=_sized("unique_inverse", size), fill_value=fill_value)
    return UniqueInverse(found.values, found.inverse_indices)
