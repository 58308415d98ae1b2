"""Traced reductions: sums, maxima and minima, means, variances, log-sum-exp.

Sums of bf16 and f16 elements are accumulated in f32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from meshgen.frontend.tracer.elementwise import as_float, binary, exp, log, refuse_complex_order, sqrt
from meshgen.frontend.tracer.logic import isfinite, truth, where
from meshgen.frontend.tracer.operands import axes_of, broadcast, convert, dtype_of, emit, scalar, tensor
from meshgen.frontend.tracer.recording import named, refuse, traced
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_complex, is_float, is_inexact
from meshgen.ops.evaluate.common import neutral

Axis = int | Sequence[int] | None
NARROW = ("bf16", "f16")


def _reduce(kind: str, x: Tensor, neutral: float, axis: Axis, keepdims: bool) -> Tensor:
    dims = axes_of(axis, x.ndim)
    result_shape = tuple(s for d, s in enumerate(x.shape) if d not in dims)
    if dims:
        result_type = TensorType(result_shape, x.type.dtype)
        result = emit("reduce", [x, scalar(neutral, x.type.dtype)], result_type, {"dims": dims, "kind": kind})
    else:
        result = x
    return reshape(result, [1 if d in dims else s for d, s in enumerate(x.shape)]) if keepdims else result


def require_real(x: Tensor) -> Tensor:
    """Return the tensor. Raises ProgramError if it is complex."""
    return (
        x
        if not is_complex(x.type.dtype)
        else refuse(f"{x.type}: complex numbers have no order; take the real or imaginary parts")
    )


def widened(x: Operand) -> Tensor:
    """Convert bf16 and f16 to f32, so that long sums keep their precision."""
    x = tensor(x)
    return convert(x, "f32") if x.type.dtype in NARROW else x


def _accumulated(kind: str, neutral: int, x: Operand, axis: Axis, keepdims: bool, dtype: Any, mask: Operand | None) -> Tensor:  # fmt: skip
    """Return a sum or product over dims, by default in NumPy's result dtype.

    Integers and booleans are accumulated in 64 bits. bf16 and f16 are accumulated in f32 and rounded once.
    """
    x = _masked_elements(tensor(x), mask, neutral)
    result = dtype_of(dtype) if dtype is not None else whole(x.type.dtype)
    accumulator_dtype = "f32" if result in NARROW else result
    return convert(_reduce(kind, convert(x, accumulator_dtype), neutral, axis, keepdims), result)


def _masked_elements(x: Tensor, mask: Operand | None, neutral: float) -> Tensor:
    """Return `x` with the neutral element of a reduction where `mask` is False."""
    return x if mask is None else where(mask, x, scalar(neutral, x.type.dtype))


def whole(dtype: str) -> str:
    """Return the dtype of a sum of elements of `dtype`: 64 bits wide for integers and booleans, else `dtype`."""
    return dtype if is_inexact(dtype) else "ui64" if dtype.startswith("u") else "i64"


@traced
def sum_(x: Operand, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None, where: Operand | None = None) -> Tensor:  # fmt: skip
    """Sum over dims (None: all). The default dtype for integers and booleans is i64 or u64."""
    return _accumulated("add", 0, x, axis, keepdims, dtype, where)


@traced
def prod(x: Operand, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None, where: Operand | None = None) -> Tensor:  # fmt: skip
    """Multiply over dims (None: all). The default dtype for integers and booleans is i64 or u64."""
    return _accumulated("multiply", 1, x, axis, keepdims, dtype, where)


@named("max", "amax")
def max_(x: Operand, axis: Axis = None, keepdims: bool = False, *, initial: float | None = None, where: Operand | None = None) -> Tensor:  # fmt: skip
    """Return the largest element over dims (None: all), or `initial` if that is larger.

    If the mask `where` excludes all elements, the result is `initial`, or by default the smallest value of the dtype.
    """
    return _extremes("maximum", x, axis, keepdims, initial, where)


@named("min", "amin")
def min_(x: Operand, axis: Axis = None, keepdims: bool = False, *, initial: float | None = None, where: Operand | None = None) -> Tensor:  # fmt: skip
    """Return the smallest element over dims (None: all), or `initial` if that is smaller.

    If the mask `where` excludes all elements, the result is `initial`, or by default the largest value of the dtype.
    """
    return _extremes("minimum", x, axis, keepdims, initial, where)


def _extremes(kind: str, x: Operand, axis: Axis, keepdims: bool, initial: float | None, mask: Operand | None) -> Tensor:
    x = tensor(x)
    start = extreme(kind, x.type.dtype)
    reduced = _reduce(kind, _masked_elements(x, mask, start), start, axis, keepdims)
    return reduced if initial is None else binary(kind, reduced, initial)


def extreme(kind: str, dtype: str) -> float:
    """Return the neutral element of the reduction `kind` (maximum or minimum): an infinity if the dtype has one."""
    refuse_complex_order(dtype)
    neutral_element = neutral(kind, dtype)
    return float(neutral_element) if is_float(dtype) else int(neutral_element)


@traced
def any_(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element over dims (None: all) is nonzero."""
    return _reduce("or", truth(x), 0, axis, keepdims)


@traced
def all_(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over dims (None: all) are nonzero."""
    return _reduce("and", truth(x), 1, axis, keepdims)


@traced
def count_nonzero(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Count the nonzero elements over dims (None: all)."""
    return sum_(truth(x), axis, keepdims)


@traced
def mean(x: Operand, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None, where: Operand | None = None) -> Tensor:  # fmt: skip
    """Return the mean over dims (None: all); integers become f32. Raises ProgramError for a dim of size 0."""
    x = as_float(x) if dtype is None else tensor(x, dtype_of(dtype))
    total = _reduce("add", widened(_masked_elements(x, where, 0)), 0, axis, keepdims)
    return convert(total / _count(x, axis, keepdims, where), x.type.dtype)


def _count(x: Tensor, axis: Axis, keepdims: bool, mask: Operand | None) -> Operand:
    """Return the number of elements in each mean: a Python number, or with a mask, a tensor."""
    if mask is not None:
        return convert(_reduce("add", convert(broadcast(truth(mask), x.shape), "f32"), 0, axis, keepdims), "f32")
    count = math.prod(x.shape[d] for d in axes_of(axis, x.ndim))
    if not count:
        refuse(f"the mean over {axis} of {x.type} has no elements")
    return float(count)


@traced
def var(x: Operand, axis: Axis = None, keepdims: bool = False, *, correction: float = 0, ddof: float | None = None, where: Operand | None = None) -> Tensor:  # fmt: skip
    """Return the variance: the sum of squared differences from the mean, divided by (element count - `correction`).

    `ddof` is another name of `correction`.
    """
    x = require_real(as_float(x))
    wide = widened(x)
    centered = wide - mean(wide, axis, True, where=where)
    total = _reduce("add", _masked_elements(centered * centered, where, 0), 0, axis, keepdims)
    count = _count(x, axis, keepdims, where) - (correction if ddof is None else ddof)
    return convert(total / count, x.type.dtype)


@traced
def std(x: Operand, axis: Axis = None, keepdims: bool = False, *, correction: float = 0, ddof: float | None = None, where: Operand | None = None) -> Tensor:  # fmt: skip
    """Return the standard deviation, the square root of `var`."""
    return sqrt(var(x, axis, keepdims, correction=correction, ddof=ddof, where=where))


@traced
def ptp(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the difference of the largest and the smallest element over dims (None: all)."""
    return max_(x, axis, keepdims) - min_(x, axis, keepdims)


@traced
def logsumexp(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(x))) over dims (None: all), without overflow; bf16 and f16 are computed in f32."""
    x = as_float(x)
    wide = widened(x)
    highest = max_(wide, axis, True)
    shift = where(isfinite(highest), highest, 0)
    total = log(sum_(exp(wide - shift), axis, keepdims))
    return convert(total + (shift if keepdims else reshape(shift, total.shape)), x.type.dtype)
