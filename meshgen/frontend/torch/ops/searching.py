"""PyTorch's orders and searches: extremes and their places, sorting, medians, tables of bounds and histograms."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence

import numpy as np

from meshgen.frontend.torch.ops.creation import linspace
from meshgen.frontend.torch.ops.shapes import along
from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.torch.promotion import on_rows
from meshgen.frontend.tracer import elementwise, logic, reduce, scans, searching
from meshgen.frontend.tracer.creation import iota, ones, zeros
from meshgen.frontend.tracer.indexing import take_along_axis
from meshgen.frontend.tracer.joining import concatenate, stack
from meshgen.frontend.tracer.operands import axis_of, convert, tensor
from meshgen.frontend.tracer.shapes import moveaxis
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import is_inexact


def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return convert(x.argmax(dim, keepdim), "i64")


@aten("topk")
@on_rows
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    if largest:
        values, places = searching.top_k(x, k, dim)
        return values, convert(places, "i64")
    values, places = sort(x, dim)
    rows = along(x, dim, slice(k))
    return values[rows], places[rows]


@aten("sort")
@on_rows
def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    places = searching.argsort(x, dim, descending=descending)
    return take_along_axis(x, places, dim), convert(places, "i64")


def _count_below(table: Tensor, values: Tensor, is_right: bool) -> Tensor:
    """Return how many elements of sorted rows come before each value of the row; a table of one row serves all values."""
    table = table if table.ndim == 1 else table[..., None, :]
    values = values[..., None]
    return (table <= values if is_right else table < values).sum(-1)


@aten("searchsorted", "searchsorted.Scalar")
def searchsorted(table: Tensor, values: Operand, *, out_int32: bool = False, right: bool = False, side: str | None = None,
                 sorter: Tensor | None = None) -> Tensor:  # fmt: skip
    table = table if sorter is None else take_along_axis(table, sorter, -1)
    number = tensor(values, None if isinstance(values, Tensor) else table.type.dtype)
    return convert(_count_below(table, number, right or side == "right"), "i32" if out_int32 else "i64")


@aten("kthvalue")
@on_rows
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th smallest element, and its place."""
    at = along(x, dim, slice(k - 1, k) if keepdim else k - 1)
    values, places = sort(x, dim)
    return values[at], places[at]


@aten("median.dim")
@on_rows
def median_dim(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower one of the two in the middle, and its place; NaN where there is one."""
    value, place = kthvalue(x, (x.shape[dim] + 1) // 2, dim, keepdim)
    if not is_inexact(x.type.dtype):
        return value, place
    bad = logic.isnan(x)
    has_bad = bad.any(dim, keepdim)
    return logic.where(has_bad, math.nan, value), logic.where(has_bad, argmax(convert(bad, "i32"), dim, keepdim), place)


@aten("nanmedian.dim")
@on_rows
def nanmedian_dim(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the lower one of the two in the middle of the numbers, and its place; NaN of a row of NaN."""
    if not is_inexact(x.type.dtype):
        return median_dim(x, dim, keepdim)
    values, places = sort(x, dim)
    count = (~logic.isnan(x)).sum(dim, True, dtype="i32")
    middle = elementwise.maximum(count - 1, 0) // 2
    return _kept(keepdim, dim, *(take_along_axis(each, middle, dim) for each in (values, places)))


def _kept(keepdim: bool, dim: int, value: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """Return results with the dim of size 1 that was searched, or without it."""
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@aten("mode")
@on_rows
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the most frequent element, of several the smallest, and its last place: the end of the longest run of the sorted row."""
    values, places = sort(x, dim)
    rows, number = moveaxis(values, dim, -1), iota((*moveaxis(values, dim, -1).shape,), x.ndim - 1, "i32")
    begins = concatenate([ones((*rows.shape[:-1], 1), "i1"), rows[..., 1:] != rows[..., :-1]], -1)
    length = number - scans.cummax(logic.where(begins, number, 0), -1)
    end = searching.argmax(length, -1)[..., None]
    return _kept(keepdim, dim, *(moveaxis(take_along_axis(moveaxis(each, dim, -1), end, -1), -1, dim) for each in (values, places)))  # fmt: skip


def _running_extreme(function: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    @on_rows
    def running(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        """Return the extreme so far, and the last place of it."""
        found = function(x, dim)
        places = iota(x.shape, axis_of(dim, x.ndim), "i32")
        return found, convert(scans.cummax(logic.where(x == found, places, 0), dim), "i64")

    return running


enter_rows({"cummax": scans.cummax, "cummin": scans.cummin}, _running_extreme)


@aten("nonzero_static")
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the places of elements that are not 0, [size, dims]; the last rows are filled up."""
    if not x.ndim or not size:
        return zeros((size, x.ndim), "i64")
    return convert(stack(searching.nonzero(x, size=size, fill_value=fill_value), 1), "i64")


def _histogram_bounds(x: Tensor, low: float, high: float, apart: float) -> tuple[Operand, Operand]:
    """Return the outer bounds of a histogram: those of the user, or of the elements, moved apart where they are equal."""
    if low != high or not x.size:
        return (low, high) if low != high else (0, 1)
    least, most = x.min(), x.max()
    is_one = convert(least == most, x.type.dtype) * apart
    return least - is_one, most + is_one


@aten("histc")
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    low, high = _histogram_bounds(x, min, max, 1)
    place = elementwise.clip((x - low) * (bins / (tensor(high, x.type.dtype) - low)), 0, bins - 1)
    inside = (x >= low) & (x <= high)
    number = logic.where(inside, convert(place, "i32"), bins).reshape(-1)
    counts = zeros((bins,), "f32" if x.type.dtype in reduce.NARROW else x.type.dtype).at[number].add(1)
    return convert(counts, x.type.dtype)


def _counted(numbers: Sequence[Tensor], edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    """Return the sums of weights of points [points] in bins between edges; the last edge of each dim belongs to its last bin."""
    sizes = [each.shape[0] - 1 for each in edges]
    flat, is_inside = tensor(np.zeros((), np.int32)), tensor(np.ones((), bool))
    for x, bounds, size in zip(numbers, edges, sizes, strict=True):
        place = convert(_count_below(bounds, x, True), "i32") - 1
        place = logic.where(x == bounds[-1], size - 1, place)
        flat, is_inside = flat * size + place, (is_inside & ((place >= 0) & (place < size)))
    share = ones(numbers[0].shape, numbers[0].type.dtype) if weight is None else weight.reshape(-1)
    total = zeros((math.prod(sizes),), share.type.dtype).at[logic.where(is_inside, flat, math.prod(sizes))].add(share)
    counts = total.reshape(sizes)
    if not density:
        return counts
    volume = tensor(np.ones((), np.float32), share.type.dtype)
    for bounds in edges:
        volume = volume[..., None] * (bounds[1:] - bounds[:-1])
    return counts / (counts.sum() * volume)


def _edges(x: Tensor, count: int, bounds: tuple[float, float] | None) -> Tensor:
    low, high = _histogram_bounds(x, *(bounds or (0, 0)), 0.5)
    return linspace(low, high, count + 1, x.type.dtype)


@aten("histogram.bin_ct")
def histogram(x: Tensor, bins: int = 100, *, range: Sequence[float] | None = None, weight: Tensor | None = None, density: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    points = x.reshape(-1)
    edges = _edges(points, bins, (range[0], range[1]) if range else None)
    return _counted([points], [edges], weight, density), edges


def _columns(x: Tensor) -> list[Tensor]:
    """Return the coordinates of points [..., dims] along each dim."""
    return [x[..., d].reshape(-1) for d in builtins.range(x.shape[-1])]


@aten("_histogramdd_bin_edges")
def histogramdd_edges(x: Tensor, bins: Sequence[int], *, range: Sequence[float] | None = None, **_: object) -> list[Tensor]:  # fmt: skip
    pairs = [*zip(range[::2], range[1::2], strict=True)] if range else [None] * len(bins)
    return [_edges(*each) for each in zip(_columns(x), bins, pairs, strict=True)]


enter_rows({
    "max.dim": lambda x, dim, keepdim=False: (x.max(dim, keepdim), argmax(x, dim, keepdim)),
    "min.dim": lambda x, dim, keepdim=False: (x.min(dim, keepdim), convert(x.argmin(dim, keepdim), "i64")),
    "sort.stable": lambda x, *, stable=None, dim=-1, descending=False: sort(x, dim, descending),
    "argsort argsort.stable": lambda x, dim=-1, descending=False, stable=False: convert(searching.argsort(x, dim, descending=descending), "i64"),
    "argmax": argmax,
    "argmin": lambda x, dim=None, keepdim=False: convert(x.argmin(dim, keepdim), "i64"),
}, on_rows)  # fmt: skip
enter_rows({
    "median": lambda x: median_dim(x.reshape(-1))[0],
    "nanmedian": lambda x: nanmedian_dim(x.reshape(-1), 0)[0],
    "bucketize.Tensor": lambda values, table, **options: searchsorted(table, values, **options),
    "isin": lambda x, values, **options: searching.isin(x, tensor(values), **options),
    "histogram.bins_tensor": lambda x, bins, *, weight=None, density=False: (_counted([x.reshape(-1)], [bins], weight, density), bins),
    "_histogramdd_from_bin_cts": lambda x, bins, *, range=None, weight=None, density=False: _counted(_columns(x), histogramdd_edges(x, bins, range=range), weight, density),
    "_histogramdd_from_bin_tensors": lambda x, bins, *, weight=None, density=False: _counted(_columns(x), bins, weight, density),
})  # fmt: skip
