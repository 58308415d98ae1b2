"""PyTorch reductions and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.torch.promotion import floats, on_rows, rounded_once, wide
from meshgen.frontend.tracer import elementwise, logic, reduce, scans
from meshgen.frontend.tracer.operands import axes_of, convert
from meshgen.frontend.tracer.recording import OPS
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import is_complex, is_inexact, real_dtype

Dims = int | Sequence[int] | None
_Result = TypeVar("_Result")


def dims_of(x: Tensor, dim: Dims) -> int | tuple[int, ...] | None:
    """Convert torch's dims to the tracer's: an empty list means all dims (None), and a zero-dim tensor accepts dim 0."""
    if not x.ndim or dim is None:
        return None
    return dim if isinstance(dim, int) else tuple(dim) or None


def sum_dtype(dtype: str) -> str:
    """Return the dtype of a sum of elements of `dtype`: i64 for all integers, including unsigned ones."""
    return dtype if is_inexact(dtype) else "i64"


def _over_dims(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Adapt a reduction of the tracer to torch's arguments `dim` and `keepdim`."""
    return lambda x, dim=None, keepdim=False: function(x, dims_of(x, dim), keepdim)


def _over_dims_with_dtype(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Adapt a sum or product of the tracer to torch's arguments `dim`, `keepdim` and `dtype`."""
    return lambda x, dim=None, keepdim=False, dtype=None: function(x, dims_of(x, dim), keepdim, dtype=dtype or sum_dtype(x.type.dtype))  # fmt: skip


def _running(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def running(x: Tensor, dim: int, dtype: str | None = None) -> Tensor:
        dtype = dtype or sum_dtype(x.type.dtype)
        return function(x, dim, dtype) if x.ndim else convert(x, dtype)

    return running


sum_ = _over_dims_with_dtype(reduce.sum_)
enter_rows({"sum": reduce.sum_, "prod": reduce.prod}, _over_dims_with_dtype)
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
    return _reduce_elements(reduce.mean, floats(x, dtype), dim, keepdim)


def _reduce_elements(function: Callable[..., Tensor], x: Tensor, dim: Dims, keepdim: bool, **options: float) -> Tensor:
    """Apply `function`, a mean or a variance, over `dim`. The result is NaN if the reduced dims have no elements."""
    dims = dims_of(x, dim)
    if math.prod(x.shape[d] for d in axes_of(dims, x.ndim)):
        return function(x, dims, keepdim, **options)
    return floats(x).sum(dims, keepdim) * math.nan


@aten("var.correction")
def var(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    if is_complex(x.type.dtype):
        return var(x.real, dim, correction=correction, keepdim=keepdim) + var(x.imag, dim, correction=correction, keepdim=keepdim)  # fmt: skip
    return _reduce_elements(reduce.var, x, dim, keepdim, correction=1 if correction is None else correction)


@aten("std.correction")
def std(x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    x, dtype = wide(x)
    return convert(elementwise.sqrt(var(x, dim, correction=correction, keepdim=keepdim)), real_dtype(dtype))


def _unbiased(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Adapt a variance or standard deviation to torch's overloads with the flag `unbiased`.

    The flag comes second, or third after the dims.
    """

    def spread(x: Tensor, dim: Dims | bool = None, unbiased: bool = True, keepdim: bool = False) -> _Result:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        return function(x, dim, correction=int(unbiased), keepdim=keepdim)

    return spread


def _with_mean(function: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Adapt a variance or standard deviation to return the mean as second result."""
    return lambda x, dim=None, *, correction=None, keepdim=False: (
        function(x, dim, correction=correction, keepdim=keepdim), mean(x, dim, keepdim)
    )  # fmt: skip


enter_rows({"var_mean.correction": _with_mean(var), "std_mean.correction": _with_mean(std)})
enter_rows({"var var.dim": var, "std std.dim": std, "var_mean var_mean.dim": _with_mean(var), "std_mean std_mean.dim": _with_mean(std)}, _unbiased)  # fmt: skip


@aten("linalg_vector_norm")
def vector_norm(x: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Tensor:
    x, result = wide(floats(x, dtype))
    magnitudes, reduction_args = elementwise.abs_(x), (dims_of(x, dim), keepdim)
    if math.isinf(ord):
        norm = magnitudes.max(*reduction_args) if ord > 0 else magnitudes.min(*reduction_args)
    elif ord == 0:
        norm = convert(magnitudes != 0, magnitudes.type.dtype).sum(*reduction_args)
    elif ord == 1:
        norm = magnitudes.sum(*reduction_args)
    elif ord == 2:
        norm = elementwise.sqrt((magnitudes * magnitudes).sum(*reduction_args))
    else:
        norm = elementwise.power(elementwise.power(magnitudes, float(ord)).sum(*reduction_args), 1 / ord)
    return convert(norm, real_dtype(result))


enter_rows({
    "aminmax": lambda x, *, dim=None, keepdim=False: tuple(f(x, dims_of(x, dim), keepdim) for f in (reduce.min_, reduce.max_)),
    "norm.ScalarOpt_dim norm.Scalar": lambda x, p=None, dim=None, keepdim=False: vector_norm(x, 2 if p is None else p, dim, keepdim),
    "logcumsumexp": on_rows(rounded_once(lambda x, dim: scans.running(OPS["logaddexp"], x, -math.inf, dim))),
    "diff": lambda x, n=1, dim=-1, before=None, after=None: scans.diff(x, n, dim, prepend=before, append=after),
    "nansum": lambda x, *how, **named: sum_(logic.where(logic.isnan(x), 0, x) if is_inexact(x.type.dtype) else x, *how, **named),
})  # fmt: skip
