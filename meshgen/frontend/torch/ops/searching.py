"""PyTorch sorting and searching: extremes and their indices, medians, binary search and histograms."""

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
        values, indices = searching.top_k(x, k, dim)
        return values, convert(indices, "i64")
    values, indices = sort(x, dim)
    rows = along(x, dim, slice(k))
    return values[rows], indices[rows]


@aten("sort")
@on_rows
def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    indices = searching.argsort(x, dim, descending=descending)
    return take_along_axis(x, indices, dim), convert(indices, "i64")


def _count_below(table: Tensor, values: Tensor, is_right: bool) -> Tensor:
    """Return the position at which each value would be inserted into the sorted row of `table` for it.

    A `table` with a single dim is used for all values. With `is_right`, a value is inserted after equal elements.
    """
    table = table if table.ndim == 1 else table[..., None, :]
    values = values[..., None]
    return (table <= values if is_right else table < values).sum(-1)


@aten("searchsorted", "searchsorted.Scalar")
def searchsorted(table: Tensor, values: Operand, *, out_int32: bool = False, right: bool = False, side: str | None = None,
                 sorter: Tensor | None = None) -> Tensor:  # fmt: skip
    table = table if sorter is None else take_along_axis(table, sorter, -1)
    operand = tensor(values, None if isinstance(values, Tensor) else table.type.dtype)
    return convert(_count_below(table, operand, right or side == "right"), "i32" if out_int32 else "i64")


@aten("kthvalue")
@on_rows
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the k-th smallest element along a dim, and its index."""
    selection = along(x, dim, slice(k - 1, k) if keepdim else k - 1)
    values, indices = sort(x, dim)
    return values[selection], indices[selection]


@aten("median.dim")
@on_rows
def median_dim(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the lower median along a dim, and its index. If there is a NaN, return the NaN and its index."""
    value, index = kthvalue(x, (x.shape[dim] + 1) // 2, dim, keepdim)
    if not is_inexact(x.type.dtype):
        return value, index
    is_nan = logic.isnan(x)
    has_nan = is_nan.any(dim, keepdim)
    return logic.where(has_nan, math.nan, value), logic.where(
        has_nan, argmax(convert(is_nan, "i32"), dim, keepdim), index
    )


@aten("nanmedian.dim")
@on_rows
def nanmedian_dim(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the lower median of the elements along a dim that are not NaN, and its index.

    If all elements are NaN, the median is NaN.
    """
    if not is_inexact(x.type.dtype):
        return median_dim(x, dim, keepdim)
    values, indices = sort(x, dim)
    count = (~logic.isnan(x)).sum(dim, True, dtype="i32")
    middle = elementwise.maximum(count - 1, 0) // 2
    return _drop_reduced_dim(keepdim, dim, *(take_along_axis(array, middle, dim) for array in (values, indices)))


def _drop_reduced_dim(keepdim: bool, dim: int, value: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Remove the reduced dim, which has size 1, from `value` and `index` unless `keepdim` is set."""
    return (value, index) if keepdim else (value.squeeze(dim), index.squeeze(dim))


@aten("mode")
@on_rows
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the most frequent element along a dim, and its last index.

    Of equally frequent elements, the smallest counts.

    The elements are sorted; the most frequent one forms the longest run, and the end of the run gives the index.
    """
    values, indices = sort(x, dim)
    rows, position = moveaxis(values, dim, -1), iota((*moveaxis(values, dim, -1).shape,), x.ndim - 1, "i32")
    begins = concatenate([ones((*rows.shape[:-1], 1), "i1"), rows[..., 1:] != rows[..., :-1]], -1)
    length = position - scans.cummax(logic.where(begins, position, 0), -1)
    end = searching.argmax(length, -1)[..., None]
    return _drop_reduced_dim(keepdim, dim, *(moveaxis(take_along_axis(moveaxis(array, dim, -1), end, -1), -1, dim) for array in (values, indices)))  # fmt: skip


def _running_extreme(function: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    @on_rows
    def running(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        """Return the cumulative maximum or minimum along a dim, and the last index at which it occurs."""
        extremes = function(x, dim)
        indices = iota(x.shape, axis_of(dim, x.ndim), "i32")
        return extremes, convert(scans.cummax(logic.where(x == extremes, indices, 0), dim), "i64")

    return running


enter_rows({"cummax": scans.cummax, "cummin": scans.cummin}, _running_extreme)


@aten("nonzero_static")
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the indices of the first `size` nonzero elements, [size, dims]. Missing rows are filled with `fill_value`."""
    if not x.ndim or not size:
        return zeros((size, x.ndim), "i64")
    return convert(stack(searching.nonzero(x, size=size, fill_value=fill_value), 1), "i64")


def _histogram_bounds(x: Tensor, low: float, high: float, apart: float) -> tuple[Operand, Operand]:
    """Return the bounds of a histogram: `low` and `high`, or if these are equal, the extremes of `x`.

    If all elements are equal, the bounds are that number minus and plus `apart`.
    """
    if low != high or not x.size:
        return (low, high) if low != high else (0, 1)
    minimum, maximum = x.min(), x.max()
    margin = convert(minimum == maximum, x.type.dtype) * apart
    return minimum - margin, maximum + margin


@aten("histc")
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    low, high = _histogram_bounds(x, min, max, 1)
    position = elementwise.clip((x - low) * (bins / (tensor(high, x.type.dtype) - low)), 0, bins - 1)
    inside = (x >= low) & (x <= high)
    bin_index = logic.where(inside, convert(position, "i32"), bins).reshape(-1)
    counts = zeros((bins,), "f32" if x.type.dtype in reduce.NARROW else x.type.dtype).at[bin_index].add(1)
    return convert(counts, x.type.dtype)


def _bin_weights(
    coordinates: Sequence[Tensor], edges: Sequence[Tensor], weight: Tensor | None, density: bool
) -> Tensor:
    """Return a histogram: the sum of the weights of the points in each bin.

    With `density`, it is normalized to integral 1.

    `coordinates` and `edges` have a tensor per dim. The last bin of each dim includes its upper edge.
    """
    sizes = [bounds_.shape[0] - 1 for bounds_ in edges]
    flat, is_inside = tensor(np.zeros((), np.int32)), tensor(np.ones((), bool))
    for x, bounds, size in zip(coordinates, edges, sizes, strict=True):
        bin_index = convert(_count_below(bounds, x, True), "i32") - 1
        bin_index = logic.where(x == bounds[-1], size - 1, bin_index)
        flat, is_inside = flat * size + bin_index, (is_inside & ((bin_index >= 0) & (bin_index < size)))
    weights = ones(coordinates[0].shape, coordinates[0].type.dtype) if weight is None else weight.reshape(-1)
    total = (
        zeros((math.prod(sizes),), weights.type.dtype).at[logic.where(is_inside, flat, math.prod(sizes))].add(weights)
    )
    counts = total.reshape(sizes)
    if not density:
        return counts
    volume = tensor(np.ones((), np.float32), weights.type.dtype)
    for bounds in edges:
        volume = volume[..., None] * (bounds[1:] - bounds[:-1])
    return counts / (counts.sum() * volume)


def _bin_edges(x: Tensor, count: int, bounds: tuple[float, float] | None) -> Tensor:
    low, high = _histogram_bounds(x, *(bounds or (0, 0)), 0.5)
    return linspace(low, high, count + 1, x.type.dtype)


@aten("histogram.bin_ct")
def histogram(x: Tensor, bins: int = 100, *, range: Sequence[float] | None = None, weight: Tensor | None = None, density: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    points = x.reshape(-1)
    edges = _bin_edges(points, bins, (range[0], range[1]) if range else None)
    return _bin_weights([points], [edges], weight, density), edges


def _columns(x: Tensor) -> list[Tensor]:
    """Split points [..., dims] into one vector of coordinates per dim."""
    return [x[..., d].reshape(-1) for d in builtins.range(x.shape[-1])]


@aten("_histogramdd_bin_edges")
def histogramdd_edges(x: Tensor, bins: Sequence[int], *, range: Sequence[float] | None = None, **_: object) -> list[Tensor]:  # fmt: skip
    pairs = [*zip(range[::2], range[1::2], strict=True)] if range else [None] * len(bins)
    return [_bin_edges(*edge_args) for edge_args in zip(_columns(x), bins, pairs, strict=True)]


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
    "histogram.bins_tensor": lambda x, bins, *, weight=None, density=False: (_bin_weights([x.reshape(-1)], [bins], weight, density), bins),
    "_histogramdd_from_bin_cts": lambda x, bins, *, range=None, weight=None, density=False: _bin_weights(_columns(x), histogramdd_edges(x, bins, range=range), weight, density),
    "_histogramdd_from_bin_tensors": lambda x, bins, *, weight=None, density=False: _bin_weights(_columns(x), bins, weight, density),
})  # fmt: skip
