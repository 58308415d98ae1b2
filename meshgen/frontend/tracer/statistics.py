"""Traced statistics: quantiles, weighted means, covariances, histograms, and reductions that ignore NaN."""

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
    """Return the mean over dims (None: all). `weights` has the shape of x, or is a vector for the single reduced dim."""
    x = as_float(x)
    if weights is None:
        return mean(x, axis, keepdims)
    factors = tensor(weights, x.type.dtype)
    dims = axes_of(axis, x.ndim)
    if factors.shape != x.shape:
        if factors.ndim != 1 or len(dims) != 1:
            refuse(
                f"weights {factors.type} do not fit {x.type} over dims {list(dims)}",
                "give one per element, or per row of one dim",
            )
        factors = reshape(factors, [-1 if d in dims else 1 for d in range(x.ndim)])
    factors = broadcast(factors, x.shape)
    return sum_(x * factors, axis, keepdims) / sum_(factors, axis, keepdims)


@traced
def quantile(x: Operand, q: float | Sequence[float], axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the q-quantile, 0 <= q <= 1, over dims (None: all), with linear interpolation.

    If an element is NaN, so is the result. `q` must be known during tracing. A list of quantiles adds a first dim to
    the result.
    """
    x = as_float(x)
    dims = axes_of(axis, x.ndim)
    kept_sizes = [size for d, size in enumerate(x.shape) if d not in dims]
    fractions = np.atleast_1d(np.asarray(q, np.float64))
    rows = reshape(moveaxis(x, dims, range(x.ndim - len(dims), x.ndim)), [*kept_sizes, -1 if x.size else 0])
    if not rows.shape[-1] or fractions.min() < 0 or fractions.max() > 1:
        refuse(f"quantiles {q} of {rows.shape[-1]} elements: shares are from 0 to 1, of at least one element")
    quantiles = [_interpolated(sort(rows), float(fraction)) for fraction in fractions]
    quantiles = [where(any_(isnan(rows), -1), math.nan, value) for value in quantiles]
    if keepdims:
        quantiles = [expand_dims(value, dims) for value in quantiles]
    return quantiles[0] if np.ndim(q) == 0 else stack(quantiles)


def _interpolated(rows: Tensor, fraction: float) -> Tensor:
    """Return the quantile `fraction` of sorted rows (the last dim), interpolated between the two nearest elements."""
    position = fraction * (rows.shape[-1] - 1)
    low = math.floor(position)
    first, second = rows[..., low], rows[..., min(low + 1, rows.shape[-1] - 1)]
    return first if position == low else first + (second - first) * (position - low)


@traced
def percentile(x: Operand, q: float | Sequence[float], axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the q-th percentiles: `quantile` with q from 0 to 100."""
    return quantile(x, (np.asarray(q, np.float64) / 100).tolist(), axis, keepdims)


@traced
def median(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the median over dims (None: all); for an even number of elements, the mean of the two middle ones."""
    return quantile(x, 0.5, axis, keepdims)


def _where_not_nan(x: Operand) -> Tensor | None:
    """Return a mask of the elements that are not NaN, or None if the dtype has no NaN."""
    x = tensor(x)
    return logical_not(isnan(x)) if is_float(x.type.dtype) else None


@traced
def nansum(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum over dims (None: all), ignoring NaN."""
    return sum_(x, axis, keepdims, where=_where_not_nan(x))


@traced
def nanprod(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Multiply over dims (None: all), ignoring NaN."""
    return prod(x, axis, keepdims, where=_where_not_nan(x))


@traced
def nanmean(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the mean over dims (None: all), ignoring NaN."""
    return mean(x, axis, keepdims, where=_where_not_nan(x))


@traced
def nanmax(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the largest element over dims (None: all), ignoring NaN, or NaN if all elements are NaN."""
    return _without_nan(max_, x, axis, keepdims)


@traced
def nanmin(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the smallest element over dims (None: all), ignoring NaN, or NaN if all elements are NaN."""
    return _without_nan(min_, x, axis, keepdims)


def _without_nan(reduction: Any, x: Operand, axis: Axis, keepdims: bool) -> Tensor:
    mask = _where_not_nan(x)
    reduced = reduction(x, axis, keepdims, where=mask)
    return reduced if mask is None else where(any_(mask, axis, keepdims), reduced, math.nan)


@traced
def cov(x: Operand, rowvar: bool = True, ddof: int = 1) -> Tensor:
    """Return the covariance matrix of the rows of x (of the columns if `rowvar` is False).

    The sums of products are divided by (number of observations - `ddof`).
    """
    x = as_float(x)
    if x.ndim > 2:
        refuse(f"covariances are of a matrix, not of {x.type}")
    x = reshape(x, (1, -1)) if x.ndim < 2 else x if rowvar else matrix_transpose(x)
    centered = x - mean(x, 1, True)
    covariances = matmul(centered, conj(matrix_transpose(centered))) / (x.shape[1] - ddof)
    return reshape(covariances, ()) if covariances.shape == (1, 1) else covariances


@traced
def corrcoef(x: Operand, rowvar: bool = True) -> Tensor:
    """Return the correlation matrix of the rows of x (of the columns if `rowvar` is False)."""
    covariances = cov(x, rowvar)
    if not covariances.ndim:
        return covariances / covariances
    deviations = sqrt(diagonal(covariances))
    return clip(covariances / expand_dims(deviations, 1) / expand_dims(deviations, 0), -1, 1)


@traced
def bincount(x: Operand, weights: Operand | None = None, *, length: int | None = None) -> Tensor:
    """Count the occurrences of each integer from 0 to `length` - 1, or sum the weights of the occurrences."""
    x = ravel(x)
    if length is None:
        refuse(
            "the number of bins of 'bincount' depends on data, but shapes are static",
            "give the number: bincount(x, length=...)",
        )
    counts = zeros((length,), "i32") if weights is None else zeros((length,), tensor(weights).type.dtype)
    bins = where(x < 0, length, x)
    return counts.at[bins].add(1 if weights is None else ravel(weights))


@traced
def digitize(x: Operand, bins: Operand, right: bool = False) -> Tensor:
    """Return the index of the bin of each element. `bins` has the edges of the bins, ascending.

    An edge belongs to the bin above it, or with `right` to the bin below it.
    """
    return searchsorted(bins, x, "left" if right else "right")


@traced
def histogram(x: Operand, bins: Operand) -> tuple[Tensor, Tensor]:
    """Count the elements in each bin. `bins` has the edges of the bins, ascending. Returns the counts and the edges.

    The last bin includes its upper edge.
    """
    edges = tensor(bins)
    if edges.ndim != 1:
        refuse(f"bins are bounds in a 1-d tensor, not {edges.type}", "make equal ones with meshgen.linspace")
    count = edges.shape[0] - 1
    x = ravel(x)
    bin_index = where(x == edges[-1], count - 1, digitize(x, edges) - 1)
    return bincount(where(x < edges[0], count, where(x > edges[-1], count, bin_index)), length=count), edges


@traced
def interp(x: Operand, xp: Operand, fp: Operand) -> Tensor:
    """Interpolate linearly at `x` between the points (xp, fp), with ascending `xp`.

    Outside of the points, the result is the first or last value of `fp`.
    """
    x, xs, ys = as_float(x), as_float(xp), as_float(fp)
    right = clip(searchsorted(xs, x, "right"), 1, xs.shape[0] - 1)
    left = right - 1
    x0, x1, y0, y1 = take(xs, left), take(xs, right), take(ys, left), take(ys, right)
    interpolated = y0 + (y1 - y0) * ((x - x0) / (x1 - x0))
    return where(x < xs[0], ys[0], where(x > xs[-1], ys[-1], interpolated))
