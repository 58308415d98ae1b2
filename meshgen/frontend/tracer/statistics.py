"""Traced statistics: order statistics, weighted means, covariances, counts, and reductions that leave NaN out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.frontend.tracer.creation import zeros
from meshgen.frontend.tracer.elementwise import as_float, clip, conj, sqrt
from meshgen.frontend.tracer.indexing import diagonal, take
from meshgen.frontend.tracer.joining import stack
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.logic import isnan, logical_not, where
from meshgen.frontend.tracer.operands import axes_of, broadcast, tensor
from meshgen.frontend.tracer.recording import refuse, traced
from meshgen.frontend.tracer.reduce import Axis, any_, max_, mean, min_, prod, sum_
from meshgen.frontend.tracer.searching import searchsorted, sort
from meshgen.frontend.tracer.shapes import expand_dims, matrix_transpose, moveaxis, ravel, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import is_float


@traced
def average(x: Operand, axis: Axis = None, weights: Operand | None = None, keepdims: bool = False) -> Tensor:
    """Mean over dims (None: all), each element as often as its weight says; weights have the shape of x, or of the one dim."""
    x = as_float(x)
    if weights is None:
        return mean(x, axis, keepdims)
    shares = tensor(weights, x.type.dtype)
    dims = axes_of(axis, x.ndim)
    if shares.shape != x.shape:
        if shares.ndim != 1 or len(dims) != 1:
            refuse(
                f"weights {shares.type} do not fit {x.type} over dims {list(dims)}",
                "give one per element, or per row of one dim",
            )
        shares = reshape(shares, [-1 if d in dims else 1 for d in range(x.ndim)])
    shares = broadcast(shares, x.shape)
    return sum_(x * shares, axis, keepdims) / sum_(shares, axis, keepdims)


@traced
def quantile(x: Operand, q: float | Sequence[float], axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The numbers below which a share q, from 0 to 1, of the elements over dims (None: all) is, interpolated; NaN where one of them is.

    Several shares, known while the program is traced, are in a first dim.
    """
    x = as_float(x)
    dims = axes_of(axis, x.ndim)
    kept = [size for d, size in enumerate(x.shape) if d not in dims]
    shares = np.atleast_1d(np.asarray(q, np.float64))
    rows = reshape(moveaxis(x, dims, range(x.ndim - len(dims), x.ndim)), [*kept, -1 if x.size else 0])
    if not rows.shape[-1] or shares.min() < 0 or shares.max() > 1:
        refuse(f"quantiles {q} of {rows.shape[-1]} elements: shares are from 0 to 1, of at least one element")
    found = [_interpolated(sort(rows), float(share)) for share in shares]
    found = [where(any_(isnan(rows), -1), math.nan, each) for each in found]
    if keepdims:
        found = [expand_dims(each, dims) for each in found]
    return found[0] if np.ndim(q) == 0 else stack(found)


def _interpolated(rows: Tensor, share: float) -> Tensor:
    """The element at a share of the way along the last dim, between its neighbours."""
    place = share * (rows.shape[-1] - 1)
    low = math.floor(place)
    first, second = rows[..., low], rows[..., min(low + 1, rows.shape[-1] - 1)]
    return first if place == low else first + (second - first) * (place - low)


@traced
def percentile(x: Operand, q: float | Sequence[float], axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Quantiles, of shares from 0 to 100."""
    return quantile(x, (np.asarray(q, np.float64) / 100).tolist(), axis, keepdims)


@traced
def median(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The middle element over dims (None: all), or the mean of the middle two."""
    return quantile(x, 0.5, axis, keepdims)


def _where_not_nan(x: Operand) -> Tensor | None:
    """Where a tensor is not NaN; None where its type has none."""
    x = tensor(x)
    return logical_not(isnan(x)) if is_float(x.type.dtype) else None


@traced
def nansum(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum over dims (None: all), without NaN."""
    return sum_(x, axis, keepdims, where=_where_not_nan(x))


@traced
def nanprod(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Product over dims (None: all), without NaN."""
    return prod(x, axis, keepdims, where=_where_not_nan(x))


@traced
def nanmean(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean over dims (None: all), without NaN."""
    return mean(x, axis, keepdims, where=_where_not_nan(x))


@traced
def nanmax(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Largest element over dims (None: all), without NaN; NaN where all are NaN."""
    return _without_nan(max_, x, axis, keepdims)


@traced
def nanmin(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Smallest element over dims (None: all), without NaN; NaN where all are NaN."""
    return _without_nan(min_, x, axis, keepdims)


def _without_nan(reduction: Any, x: Operand, axis: Axis, keepdims: bool) -> Tensor:
    numbers = _where_not_nan(x)
    found = reduction(x, axis, keepdims, where=numbers)
    return found if numbers is None else where(any_(numbers, axis, keepdims), found, math.nan)


@traced
def cov(x: Operand, rowvar: bool = True, ddof: int = 1) -> Tensor:
    """Covariances of the rows of a matrix, which are variables (else the columns); the sums are divided by the count less `ddof`."""
    x = as_float(x)
    if x.ndim > 2:
        refuse(f"covariances are of a matrix, not of {x.type}")
    x = reshape(x, (1, -1)) if x.ndim < 2 else x if rowvar else matrix_transpose(x)
    centred = x - mean(x, 1, True)
    found = matmul(centred, conj(matrix_transpose(centred))) / (x.shape[1] - ddof)
    return reshape(found, ()) if found.shape == (1, 1) else found


@traced
def corrcoef(x: Operand, rowvar: bool = True) -> Tensor:
    """Correlations of the rows of a matrix, which are variables (else the columns)."""
    found = cov(x, rowvar)
    if not found.ndim:
        return found / found
    deviations = sqrt(diagonal(found))
    return clip(found / expand_dims(deviations, 1) / expand_dims(deviations, 0), -1, 1)


@traced
def bincount(x: Operand, weights: Operand | None = None, *, length: int | None = None) -> Tensor:
    """How often each number from 0 to `length` - 1 occurs, or the sum of its weights; `length` is needed, as the largest number is data."""
    x = ravel(x)
    if length is None:
        refuse(
            "how many numbers 'bincount' counts is data, but shapes are fixed", "say how many: bincount(x, length=...)"
        )
    into = zeros((length,), "i32") if weights is None else zeros((length,), tensor(weights).type.dtype)
    places = where(x < 0, length, x)
    return into.at[places].add(1 if weights is None else ravel(weights))


@traced
def digitize(x: Operand, bins: Operand, right: bool = False) -> Tensor:
    """The number of the bin, between rising bounds, that each element is in; with `right` bounds belong to the bin below."""
    return searchsorted(bins, x, "left" if right else "right")


@traced
def histogram(x: Operand, bins: Operand) -> tuple[Tensor, Tensor]:
    """How many elements are in each bin between rising bounds, and the bounds; the last bound is in the last bin."""
    edges = tensor(bins)
    if edges.ndim != 1:
        refuse(f"bins are bounds in a 1-d tensor, not {edges.type}", "make equal ones with meshgen.linspace")
    count = edges.shape[0] - 1
    x = ravel(x)
    place = where(x == edges[-1], count - 1, digitize(x, edges) - 1)
    return bincount(where(x < edges[0], count, where(x > edges[-1], count, place)), length=count), edges


@traced
def interp(x: Operand, xp: Operand, fp: Operand) -> Tensor:
    """Values between points (xp, fp) with rising xp, on straight lines; those of the first and last point outside."""
    x, xs, ys = as_float(x), as_float(xp), as_float(fp)
    right = clip(searchsorted(xs, x, "right"), 1, xs.shape[0] - 1)
    left = right - 1
    x0, x1, y0, y1 = take(xs, left), take(xs, right), take(ys, left), take(ys, right)
    found = y0 + (y1 - y0) * ((x - x0) / (x1 - x0))
    return where(x < xs[0], ys[0], where(x > xs[-1], ys[-1], found))
