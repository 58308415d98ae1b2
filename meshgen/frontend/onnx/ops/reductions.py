"""Reductions, running sums, and the largest elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.table import Array, Call, dim_of, dims_of, enter_rows, kind_of, op, rank_of
from meshgen.frontend.tracer import reduce, scans, searching
from meshgen.frontend.tracer.creation import full
from meshgen.frontend.tracer.elementwise import abs_, log, sqrt, square
from meshgen.frontend.tracer.joining import concatenate, flip, split
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor


def _sum(x: Operand, dims: Any, kept: bool) -> Tensor:
    return reduce.sum_(x, dims, kept, dtype=kind_of(x))


def _reduction(function: Callable[[Operand, Any, bool], Tensor]) -> Callable[..., Tensor]:
    def reduction(call: Call, x: Operand, axes: Array | None = None) -> Tensor:
        """Over the given dims; without any over all, or none where `noop_with_empty_axes` says so."""
        dims = () if axes is None else dims_of(axes, rank_of(x))
        if not dims and not call["noop_with_empty_axes"]:
            dims = range(rank_of(x))
        return function(x, tuple(dims), bool(call["keepdims"]))

    return reduction


enter_rows({
    "ReduceSum": _sum,
    "ReduceProd": lambda x, dims, kept: reduce.prod(x, dims, kept, dtype=kind_of(x)),
    "ReduceMean": lambda x, dims, kept: convert(reduce.mean(x, dims, kept), kind_of(x)),
    "ReduceMax": reduce.max_,
    "ReduceMin": reduce.min_,
    "ReduceL1": lambda x, dims, kept: _sum(abs_(x), dims, kept),
    "ReduceL2": lambda x, dims, kept: convert(sqrt(_sum(square(x), dims, kept)), kind_of(x)),
    "ReduceSumSquare": lambda x, dims, kept: _sum(square(x), dims, kept),
    "ReduceLogSum": lambda x, dims, kept: convert(log(_sum(x, dims, kept)), kind_of(x)),
    "ReduceLogSumExp": lambda x, dims, kept: convert(reduce.logsumexp(x, dims, kept), kind_of(x)),
}, _reduction, known=(1,))  # fmt: skip


def along(axis: Operand, rank: int, function: Callable[[int], Tensor]) -> Tensor:
    """Return a function of a dim of a tensor of this rank; results for all dims, of one shape, are selected from if the dim is data."""
    if not isinstance(axis, Tensor):
        return function(dim_of(np.reshape(axis, ()), rank))
    number = reshape(axis, ())
    found = function(0)
    for dim in range(1, rank):
        found = where((number == dim) | (number == dim - rank), function(dim), found)
    return found


def _arg(call: Call, x: Operand, function: Callable[..., Tensor]) -> Tensor:
    x, axis = tensor(x), dim_of(call["axis"], rank_of(x))
    if not call["select_last_index"]:
        return convert(function(x, axis, bool(call["keepdims"])), "i64")
    found = function(flip(x, axis), axis, bool(call["keepdims"]))
    return convert(x.shape[axis] - 1 - found, "i64")


@op("TopK", known=(1,))
def top_k(call: Call, x: Operand, k: Array) -> tuple[Tensor, Tensor]:
    """The largest elements, or the smallest; of equal ones the first. They are always sorted."""
    count, axis = int(k.reshape(())), dim_of(call["axis"], rank_of(x))
    x = tensor(x)
    if call["largest"] or call["largest"] is None:
        values, numbers = searching.top_k(x, count, axis)
    else:
        order = searching.argsort(x, axis)
        values, numbers = (split(each, [count], axis)[0] for each in (searching.sort(x, axis), order))
    return values, convert(numbers, "i64")


def _running_along(call: Call, x: Tensor, dim: int, function: Callable[..., Tensor], neutral: int) -> Tensor:
    x = flip(x, dim) if call["reverse"] else x
    found = function(x, dim, kind_of(x))
    if call["exclusive"]:
        first = [1 if d == dim else size for d, size in enumerate(x.shape)]
        found = concatenate([full(first, neutral, kind_of(x)), split(found, [x.shape[dim] - 1], dim)[0]], dim)
    return flip(found, dim) if call["reverse"] else found


def _running(call: Call, x: Operand, axis: Operand, function: Callable[..., Tensor], neutral: int) -> Tensor:
    """A running sum or product along a dim, whose number may be data; `exclusive` leaves out each element itself."""
    return along(axis, rank_of(x), lambda dim: _running_along(call, tensor(x), dim, function, neutral))


enter_rows({
    "ArgMax": lambda call, x: _arg(call, x, searching.argmax),
    "ArgMin": lambda call, x: _arg(call, x, searching.argmin),
    "CumSum": lambda call, x, axis: _running(call, x, axis, scans.cumsum, 0),
    "CumProd": lambda call, x, axis: _running(call, x, axis, scans.cumprod, 1),
})  # fmt: skip
