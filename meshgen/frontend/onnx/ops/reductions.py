"""Reductions, cumulative sums and products, largest and smallest elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from meshgen.frontend.onnx.ops.table import Array, Call, dim_of, dims_of, enter_rows, op
from meshgen.frontend.tracer import reduce, scans, searching
from meshgen.frontend.tracer.creation import full
from meshgen.frontend.tracer.elementwise import abs_, log, sqrt, square
from meshgen.frontend.tracer.joining import concatenate, flip, split
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.tensor import Tensor


def _sum(x: Tensor, dims: Any, kept: bool) -> Tensor:
    return reduce.sum_(x, dims, kept, dtype=x.type.dtype)


def _reduction(function: Callable[[Tensor, Any, bool], Tensor]) -> Callable[..., Tensor]:
    def reduction(call: Call, x: Tensor, axes: Array | None = None) -> Tensor:
        """Reduce `x` over `axes`. Without axes, reduce over all dims, or over none if `noop_with_empty_axes` is set."""
        dims = () if axes is None else dims_of(axes, x.ndim)
        if not dims and not call["noop_with_empty_axes"]:
            dims = range(x.ndim)
        return function(x, tuple(dims), bool(call["keepdims"]))

    return reduction


enter_rows({
    "ReduceSum": _sum,
    "ReduceProd": lambda x, dims, kept: reduce.prod(x, dims, kept, dtype=x.type.dtype),
    "ReduceMean": lambda x, dims, kept: reduce.mean(x, dims, kept).astype(x.type.dtype),
    "ReduceMax": reduce.max_,
    "ReduceMin": reduce.min_,
    "ReduceL1": lambda x, dims, kept: _sum(abs_(x), dims, kept),
    "ReduceL2": lambda x, dims, kept: sqrt(_sum(square(x), dims, kept)).astype(x.type.dtype),
    "ReduceSumSquare": lambda x, dims, kept: _sum(square(x), dims, kept),
    "ReduceLogSum": lambda x, dims, kept: log(_sum(x, dims, kept)).astype(x.type.dtype),
    "ReduceLogSumExp": lambda x, dims, kept: reduce.logsumexp(x, dims, kept).astype(x.type.dtype),
}, _reduction, known=(1,))  # fmt: skip


def along(axis: Array | Tensor, rank: int, function: Callable[[int], Tensor]) -> Tensor:
    """Return `function(axis)`.

    If `axis` is a tensor, the result is selected at run time from the results for all dims, which must have one shape.
    """
    if not isinstance(axis, Tensor):
        return function(dim_of(axis.reshape(()), rank))
    axis_index = axis.reshape(())
    selected = function(0)
    for dim in range(1, rank):
        selected = where((axis_index == dim) | (axis_index == dim - rank), function(dim), selected)
    return selected


def _arg(call: Call, x: Tensor, function: Callable[..., Tensor]) -> Tensor:
    axis = dim_of(call["axis"], x.ndim)
    if not call["select_last_index"]:
        return function(x, axis, bool(call["keepdims"])).astype("i64")
    last_index = function(flip(x, axis), axis, bool(call["keepdims"]))
    return (x.shape[axis] - 1 - last_index).astype("i64")


@op("TopK", known=(1,))
def top_k(call: Call, x: Tensor, k: Array) -> tuple[Tensor, Tensor]:
    """Return the k largest or smallest elements along a dim, sorted, and their indices.

    Among equal elements, the first wins.
    """
    count, axis = int(k.reshape(())), dim_of(call["axis"], x.ndim)
    if call["largest"] or call["largest"] is None:
        values, indices = searching.top_k(x, count, axis)
    else:
        values_and_indices = searching.sort(x, axis), searching.argsort(x, axis)
        values, indices = (split(array, [count], axis)[0] for array in values_and_indices)
    return values, indices.astype("i64")


def _cumulative(call: Call, x: Tensor, axis: Array | Tensor, function: Callable[..., Tensor], neutral: int) -> Tensor:
    """Return the cumulative sum or product along `axis`, which may be a tensor.

    With the attribute `exclusive`, result i combines only the elements before i.
    """

    def along_dim(dim: int) -> Tensor:
        cumulative = function(flip(x, dim) if call["reverse"] else x, dim, x.type.dtype)
        if call["exclusive"]:
            first = full([1 if d == dim else size for d, size in enumerate(x.shape)], neutral, x.type.dtype)
            cumulative = concatenate([first, split(cumulative, [x.shape[dim] - 1], dim)[0]], dim)
        return flip(cumulative, dim) if call["reverse"] else cumulative

    return along(axis, x.ndim, along_dim)


enter_rows({
    "ArgMax": lambda call, x: _arg(call, x, searching.argmax),
    "ArgMin": lambda call, x: _arg(call, x, searching.argmin),
})  # fmt: skip
enter_rows({
    "CumSum": lambda call, x, axis: _cumulative(call, x, axis, scans.cumsum, 0),
    "CumProd": lambda call, x, axis: _cumulative(call, x, axis, scans.cumprod, 1),
}, plain=(1,))  # fmt: skip
