"""PyTorch's reductions and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.torch.promotion import floats, on_rows, promoted, wide
from meshgen.frontend.tracer import elementwise, logic, reduce, scans
from meshgen.frontend.tracer.operands import axes_of, convert
from meshgen.frontend.tracer.recording import OPS
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import is_complex, is_inexact, real_dtype

Dims = int | Sequence[int] | None


def dims_of(x: Tensor, dim: Dims) -> int | tuple[int, ...] | None:
    """Return dims as the tracer takes them: an empty list means all dims, and a tensor without dims has a dim 0."""
    if not x.ndim or dim is None:
        return None
    return dim if isinstance(dim, int) else tuple(dim) or None


def sum_dtype(dtype: str) -> str:
    """Return the element type of sums: i64 for all integers, unsigned ones too."""
    return dtype if is_inexact(dtype) else "i64"


@aten("sum")
def sum_(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    return reduce.sum_(x, dims_of(x, dim), keepdim, dtype=dtype or sum_dtype(x.type.dtype))


@aten("prod")
def prod(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    return reduce.prod(x, dims_of(x, dim), keepdim, dtype=dtype or sum_dtype(x.type.dtype))


@aten("mean")
def mean(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    x = floats(x, dtype)
    return _nan(x, dim, keepdim) if _is_of_nothing(x, dim) else reduce.mean(x, dims_of(x, dim), keepdim)


def _is_of_nothing(x: Tensor, dim: Dims) -> bool:
    """Whether a reduction over dims has no elements."""
    return not math.prod(x.shape[d] for d in axes_of(dims_of(x, dim), x.ndim))


def _nan(x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Return NaN in place of a mean of no elements."""
    return reduce.sum_(x, dims_of(x, dim), keepdim) * math.nan


@aten("amax")
def amax(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return reduce.max_(x, dims_of(x, dim), keepdim)


@aten("amin")
def amin(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return reduce.min_(x, dims_of(x, dim), keepdim)


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


@aten("any")
def any_(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return reduce.any_(x, dims_of(x, dim), keepdim)


@aten("all")
def all_(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return reduce.all_(x, dims_of(x, dim), keepdim)


@aten("count_nonzero")
def count_nonzero(x: Tensor, dim: Dims = None) -> Tensor:
    return reduce.count_nonzero(x, dims_of(x, dim))


@aten("var.correction")
def var(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    if is_complex(x.type.dtype):
        return var(elementwise.real(x), dim, correction=correction, keepdim=keepdim) + var(elementwise.imag(x), dim, correction=correction, keepdim=keepdim)  # fmt: skip
    if _is_of_nothing(x, dim):
        return _nan(floats(x), dim, keepdim)
    return reduce.var(x, dims_of(x, dim), keepdim, correction=1 if correction is None else correction)


@aten("std.correction")
def std(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    x, dtype = wide(x)
    return convert(elementwise.sqrt(var(x, dim, correction=correction, keepdim=keepdim)), real_dtype(dtype))


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


@aten("logsumexp")
def logsumexp(x: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    return reduce.logsumexp(x, dims_of(x, dim), keepdim)


@aten("linalg_vector_norm")
def vector_norm(x: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    x, result = wide(floats(x, dtype))
    size, dims = elementwise.abs_(x), dims_of(x, dim)
    if math.isinf(ord):
        found = (reduce.max_ if ord > 0 else reduce.min_)(size, dims, keepdim)
    elif ord == 0:
        found = reduce.sum_(convert(size != 0, size.type.dtype), dims, keepdim)
    elif ord == 1:
        found = reduce.sum_(size, dims, keepdim)
    elif ord == 2:
        found = elementwise.sqrt(reduce.sum_(size * size, dims, keepdim))
    else:
        found = elementwise.power(reduce.sum_(elementwise.power(size, float(ord)), dims, keepdim), 1 / ord)
    return convert(found, real_dtype(result))


@aten("norm.ScalarOpt_dim", "norm.Scalar")
def norm(x: Tensor, p: float | None = 2, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return vector_norm(x, 2 if p is None else p, dim, keepdim)


def _running(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def running(x: Tensor, dim: int, dtype: str | None = None) -> Tensor:
        dtype = dtype or sum_dtype(x.type.dtype)
        return function(x, dim, dtype) if x.ndim else convert(x, dtype)

    return running


@aten("logcumsumexp")
@on_rows
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    widened, dtype = wide(x)
    return convert(scans.running(OPS["logaddexp"], widened, -math.inf, dim), dtype)


cumsum = aten("cumsum")(_running(scans.cumsum))
cumprod = aten("cumprod")(_running(scans.cumprod))


@aten("diff")
def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    return scans.diff(x, n, dim, prepend=prepend, append=append)


@aten("nansum")
def nansum(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    return sum_(logic.where(logic.isnan(x), 0, x) if is_inexact(x.type.dtype) else x, dim, keepdim, dtype)


@aten("std_mean", "std_mean.dim")
def std_mean_unbiased(x: Tensor, dim: Dims | bool = None, unbiased: bool = True, keepdim: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    return std_unbiased(x, dim, unbiased, keepdim), mean(x, None if isinstance(dim, bool) else dim, keepdim)
