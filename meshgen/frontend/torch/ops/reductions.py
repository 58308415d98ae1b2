"""PyTorch's reductions and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.torch.promotion import floats, promoted, wide
from meshgen.frontend.tracer import elementwise, logic, reduce, scans, searching
from meshgen.frontend.tracer.creation import iota
from meshgen.frontend.tracer.operands import axis_of, convert, tensor
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import is_inexact

Dims = int | Sequence[int] | None


def dims_of(dim: Dims) -> int | tuple[int, ...] | None:
    """Dims as the tracer takes them: PyTorch's empty list are all dims."""
    return dim if dim is None or isinstance(dim, int) else tuple(dim) or None


@aten("sum")
def sum_(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    return reduce.sum_(x, dims_of(dim) if x.ndim else None, keepdim, dtype=dtype)


@aten("prod")
def prod(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    return reduce.prod(x, dims_of(dim), keepdim, dtype=dtype)


@aten("mean")
def mean(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    return reduce.mean(floats(x, dtype), dims_of(dim) if x.ndim else None, keepdim)


@aten("amax")
def amax(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return reduce.max_(x, dims_of(dim), keepdim)


@aten("amin")
def amin(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return reduce.min_(x, dims_of(dim), keepdim)


@aten("max")
def max_(x: Tensor) -> Tensor:
    return reduce.max_(x)


@aten("min")
def min_(x: Tensor) -> Tensor:
    return reduce.min_(x)


@aten("max.other")
def maximum(x: Tensor, y: Tensor) -> Tensor:
    return elementwise.maximum(*promoted(x, y))


@aten("min.other")
def minimum(x: Tensor, y: Tensor) -> Tensor:
    return elementwise.minimum(*promoted(x, y))


@aten("max.dim")
def max_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return reduce.max_(x, dim, keepdim), argmax(x, dim, keepdim)


@aten("min.dim")
def min_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return reduce.min_(x, dim, keepdim), argmin(x, dim, keepdim)


@aten("argmax")
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return convert(searching.argmax(x, dim, keepdim), "i64")


@aten("argmin")
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return convert(searching.argmin(x, dim, keepdim), "i64")


@aten("any")
def any_(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return reduce.any_(x, dims_of(dim), keepdim)


@aten("all")
def all_(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return reduce.all_(x, dims_of(dim), keepdim)


@aten("count_nonzero")
def count_nonzero(x: Tensor, dim: Dims = None) -> Tensor:
    return reduce.count_nonzero(x, dims_of(dim))


@aten("var.correction")
def var(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return reduce.var(x, dims_of(dim), keepdim, correction=1 if correction is None else correction)


@aten("std.correction")
def std(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    x, dtype = wide(x)
    return convert(elementwise.sqrt(var(x, dim, correction=correction, keepdim=keepdim)), dtype)


@aten("var", "var.dim")
def var_unbiased(x: Tensor, dim: Dims | bool = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    if isinstance(dim, bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    return var(x, dim, correction=int(unbiased), keepdim=keepdim)


@aten("std", "std.dim")
def std_unbiased(x: Tensor, dim: Dims | bool = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return std(x, dim, correction=int(unbiased), keepdim=keepdim)


@aten("var_mean.correction")
def var_mean(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    return var(x, dim, correction=correction, keepdim=keepdim), mean(x, dim, keepdim)


@aten("var_mean", "var_mean.dim")
def var_mean_unbiased(x: Tensor, dim: Dims | bool = None, unbiased: bool = True, keepdim: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    return var_unbiased(x, dim, unbiased, keepdim), mean(x, None if isinstance(dim, bool) else dim, keepdim)


@aten("std_mean.correction")
def std_mean(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    return std(x, dim, correction=correction, keepdim=keepdim), mean(x, dim, keepdim)


@aten("aminmax")
def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return amin(x, dim, keepdim), amax(x, dim, keepdim)


@aten("kthvalue")
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th smallest element, and its place."""
    at = (slice(None),) * (dim % x.ndim) + (slice(k - 1, k) if keepdim else k - 1,)
    values, places = sort(x, dim)
    return values[at], places[at]


@aten("median.dim")
def median_dim(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower one of the two in the middle, and its place; NaN where there is one."""
    value, place = kthvalue(x, (x.shape[dim] + 1) // 2, dim, keepdim)
    if not is_inexact(x.type.dtype):
        return value, place
    bad = logic.isnan(x)
    has_bad = reduce.any_(bad, dim, keepdim)
    return logic.where(has_bad, math.nan, value), logic.where(has_bad, argmax(convert(bad, "i32"), dim, keepdim), place)


def _running_extreme(function: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    def running(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        """The extreme so far, and the last place of it."""
        found = function(x, dim)
        places = iota(x.shape, axis_of(dim, x.ndim), "i32")
        return found, convert(scans.cummax(logic.where(x == found, places, 0), dim), "i64")

    return running


cummax = aten("cummax")(_running_extreme(scans.cummax))
cummin = aten("cummin")(_running_extreme(scans.cummin))


@aten("median")
def median(x: Tensor) -> Tensor:
    from meshgen.frontend.tracer.shapes import reshape

    return median_dim(reshape(x, (-1,)))[0]


@aten("logsumexp")
def logsumexp(x: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    return reduce.logsumexp(x, dims_of(dim), keepdim)


@aten("linalg_vector_norm")
def vector_norm(x: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    x, result = wide(floats(x, dtype))
    size, dims = elementwise.abs_(x), dims_of(dim)
    if math.isinf(ord):
        found = (reduce.max_ if ord > 0 else reduce.min_)(size, dims, keepdim)
    elif ord == 0:
        found = reduce.sum_(convert(size != 0, x.type.dtype), dims, keepdim)
    elif ord == 1:
        found = reduce.sum_(size, dims, keepdim)
    elif ord == 2:
        found = elementwise.sqrt(reduce.sum_(size * size, dims, keepdim))
    else:
        found = elementwise.power(reduce.sum_(elementwise.power(size, float(ord)), dims, keepdim), 1 / ord)
    return convert(found, result)


@aten("norm.ScalarOpt_dim", "norm.Scalar")
def norm(x: Tensor, p: float | None = 2, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return vector_norm(x, 2 if p is None else p, dim, keepdim)


def _running(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def running(x: Tensor, dim: int, dtype: str | None = None) -> Tensor:
        return function(x, dim, dtype) if x.ndim else convert(x, dtype or reduce.whole(x.type.dtype))

    return running


cumsum = aten("cumsum")(_running(scans.cumsum))
cumprod = aten("cumprod")(_running(scans.cumprod))


@aten("diff")
def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    return scans.diff(x, n, dim, prepend=prepend, append=append)


@aten("topk")
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    if largest:
        values, places = searching.top_k(x, k, dim)
        return values, convert(places, "i64")
    values, places = sort(x, dim)
    rows = (slice(None),) * (dim % x.ndim) + (slice(k),)
    return values[rows], places[rows]


@aten("sort")
def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    from meshgen.frontend.tracer.indexing import take_along_axis

    places = searching.argsort(x, dim, descending=descending)
    return take_along_axis(x, places, dim), convert(places, "i64")


@aten("sort.stable")
def sort_stable(x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    return sort(x, dim, descending)


@aten("argsort", "argsort.stable")
def argsort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    return convert(searching.argsort(x, dim, descending=descending), "i64")


@aten("searchsorted.Tensor")
def searchsorted(table: Tensor, values: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return convert(searching.searchsorted(table, tensor(values), "right" if right else "left"), "i32" if out_int32 else "i64")  # fmt: skip


@aten("nansum")
def nansum(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    return sum_(logic.where(logic.isnan(x), 0, x) if is_inexact(x.type.dtype) else x, dim, keepdim, dtype)


@aten("std_mean", "std_mean.dim")
def std_mean_unbiased(x: Tensor, dim: Dims | bool = None, unbiased: bool = True, keepdim: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    return std_unbiased(x, dim, unbiased, keepdim), mean(x, None if isinstance(dim, bool) else dim, keepdim)


@aten("isin")
def isin(x: Tensor, values: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    return searching.isin(x, tensor(values), assume_unique=assume_unique, invert=invert)
