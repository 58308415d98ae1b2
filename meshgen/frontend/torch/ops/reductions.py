"""PyTorch's reductions and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.torch.promotion import floats, on_rows, rounded_once, wide
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


def _over_dims(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a reduction of the tracer take dims as PyTorch has them."""
    return lambda x, dim=None, keepdim=False: function(x, dims_of(x, dim), keepdim)


def _of_sums(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """As `_over_dims`, for a sum or product, whose element type may be given."""
    return lambda x, dim=None, keepdim=False, dtype=None: function(x, dims_of(x, dim), keepdim, dtype=dtype or sum_dtype(x.type.dtype))  # fmt: skip


def _running(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def running(x: Tensor, dim: int, dtype: str | None = None) -> Tensor:
        dtype = dtype or sum_dtype(x.type.dtype)
        return function(x, dim, dtype) if x.ndim else convert(x, dtype)

    return running


sum_ = _of_sums(reduce.sum_)
enter_rows({"sum": reduce.sum_, "prod": reduce.prod}, _of_sums)
enter_rows({
    "amax max": reduce.max_,
    "amin min": reduce.min_,
    "any": reduce.any_,
    "all": reduce.all_,
    "count_nonzero": reduce.count_nonzero,
    "logsumexp": reduce.logsumexp,
}, _over_dims)  # fmt: skip
enter_rows({"cumsum": scans.cumsum, "cumprod": scans.cumprod}, _running)


@aten("mean")
def mean(x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    x = floats(x, dtype)
    return _nan(x, dim, keepdim) if _is_of_nothing(x, dim) else x.mean(dims_of(x, dim), keepdim)


def _is_of_nothing(x: Tensor, dim: Dims) -> bool:
    """Whether a reduction over dims has no elements."""
    return not math.prod(x.shape[d] for d in axes_of(dims_of(x, dim), x.ndim))


def _nan(x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Return NaN in place of a mean of no elements."""
    return x.sum(dims_of(x, dim), keepdim) * math.nan


@aten("var.correction")
def var(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    if is_complex(x.type.dtype):
        return var(x.real, dim, correction=correction, keepdim=keepdim) + var(x.imag, dim, correction=correction, keepdim=keepdim)  # fmt: skip
    if _is_of_nothing(x, dim):
        return _nan(floats(x), dim, keepdim)
    return reduce.var(x, dims_of(x, dim), keepdim, correction=1 if correction is None else correction)


@aten("std.correction")
def std(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    x, dtype = wide(x)
    return convert(elementwise.sqrt(var(x, dim, correction=correction, keepdim=keepdim)), real_dtype(dtype))


def _unbiased(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a spread be told whether it is corrected by one, as the second argument or after the dims."""

    def spread(x: Tensor, dim: Dims | bool = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        return function(x, dim, correction=int(unbiased), keepdim=keepdim)

    return spread


def _and_mean(function: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return the mean beside a spread."""

    def both(x: Tensor, dim: Dims | bool = None, *args: bool, keepdim: bool = False, **options: float | None) -> tuple[Tensor, Tensor]:  # fmt: skip
        keepdim = args[1] if len(args) > 1 else keepdim
        return function(x, dim, *args[:1], keepdim=keepdim, **options), mean(x, None if isinstance(dim, bool) else dim, keepdim)  # fmt: skip

    return both


enter_rows({"var var.dim": var, "std std.dim": std}, _unbiased)
enter_rows({"var_mean.correction": var, "std_mean.correction": std}, _and_mean)
enter_rows({"var_mean var_mean.dim": _unbiased(var), "std_mean std_mean.dim": _unbiased(std)}, _and_mean)


@aten("linalg_vector_norm")
def vector_norm(x: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    x, result = wide(floats(x, dtype))
    size, dims = elementwise.abs_(x), dims_of(x, dim)
    if math.isinf(ord):
        found = (reduce.max_ if ord > 0 else reduce.min_)(size, dims, keepdim)
    elif ord == 0:
        found = convert(size != 0, size.type.dtype).sum(dims, keepdim)
    elif ord == 1:
        found = size.sum(dims, keepdim)
    elif ord == 2:
        found = elementwise.sqrt((size * size).sum(dims, keepdim))
    else:
        found = elementwise.power(elementwise.power(size, float(ord)).sum(dims, keepdim), 1 / ord)
    return convert(found, real_dtype(result))


enter_rows({
    "aminmax": lambda x, *, dim=None, keepdim=False: tuple(f(x, dims_of(x, dim), keepdim) for f in (reduce.min_, reduce.max_)),
    "norm.ScalarOpt_dim norm.Scalar": lambda x, p=None, dim=None, keepdim=False: vector_norm(x, 2 if p is None else p, dim, keepdim),
    "logcumsumexp": on_rows(rounded_once(lambda x, dim: scans.running(OPS["logaddexp"], x, -math.inf, dim))),
    "diff": lambda x, n=1, dim=-1, before=None, after=None: scans.diff(x, n, dim, prepend=before, append=after),
    "nansum": lambda x, *how, **named: sum_(logic.where(logic.isnan(x), 0, x) if is_inexact(x.type.dtype) else x, *how, **named),
})  # fmt: skip
