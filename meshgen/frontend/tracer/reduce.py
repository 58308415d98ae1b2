"""Traced reductions and what is built from them: means, variances, softmax, layer norm.

Sums of bf16 and f16 are taken in f32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from meshgen.frontend.tracer.elementwise import as_float, exp, log, refuse_complex_order, rsqrt, sqrt
from meshgen.frontend.tracer.logic import truth
from meshgen.frontend.tracer.operands import axes_of, convert, dtype_of, emit, scalar, tensor
from meshgen.frontend.tracer.recording import refuse, traced
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_complex, is_float, is_inexact
from meshgen.ops.evaluate.common import neutral

Axis = int | Sequence[int] | None
NARROW = ("bf16", "f16")


def _reduce(kind: str, x: Tensor, neutral: float, axis: Axis, keepdims: bool) -> Tensor:
    dims = axes_of(axis, x.ndim)
    kept = tuple(s for d, s in enumerate(x.shape) if d not in dims)
    if dims:
        x_kept = TensorType(kept, x.type.dtype)
        result = emit("reduce", [x, scalar(neutral, x.type.dtype)], x_kept, {"dims": dims, "kind": kind})
    else:
        result = x
    return reshape(result, [1 if d in dims else s for d, s in enumerate(x.shape)]) if keepdims else result


def _no_complex(x: Tensor) -> Tensor:
    """The tensor. Raises ProgramError for complex numbers."""
    return (
        x
        if not is_complex(x.type.dtype)
        else refuse(f"{x.type}: complex numbers have no order; take the real or imaginary parts")
    )


def _wide(x: Operand) -> Tensor:
    """Narrow floats as f32, so that a long sum keeps its digits."""
    x = tensor(x)
    return convert(x, "f32") if x.type.dtype in NARROW else x


def _accumulated(kind: str, neutral: int, x: Operand, axis: Axis, keepdims: bool, dtype: Any) -> Tensor:
    """A sum or product in NumPy's element type: that of 64 bits for integers and bools. Narrow floats are rounded once."""
    x = tensor(x)
    result = dtype_of(dtype) if dtype is not None else _whole(x.type.dtype)
    wide = "f32" if result in NARROW else result
    return convert(_reduce(kind, convert(x, wide), neutral, axis, keepdims), result)


def _whole(dtype: str) -> str:
    return dtype if is_inexact(dtype) else "ui64" if dtype.startswith("u") else "i64"


@traced
def sum_(x: Operand, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over dims (None: all), of integers and bools as i64 or u64 unless `dtype` says otherwise."""
    return _accumulated("add", 0, x, axis, keepdims, dtype)


@traced
def prod(x: Operand, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """Product over dims (None: all), of integers and bools as i64 or u64 unless `dtype` says otherwise."""
    return _accumulated("multiply", 1, x, axis, keepdims, dtype)


@traced
def max_(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Largest element over dims (None: all)."""
    x = tensor(x)
    return _reduce("maximum", x, _lowest(x.type.dtype), axis, keepdims)


@traced
def min_(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Smallest element over dims (None: all)."""
    x = tensor(x)
    return _reduce("minimum", x, _highest(x.type.dtype), axis, keepdims)


def _lowest(dtype: str) -> float:
    return _extreme("maximum", dtype)


def _highest(dtype: str) -> float:
    return _extreme("minimum", dtype)


def _extreme(kind: str, dtype: str) -> float:
    """The initial value of a reduction of a kind: not all float types have infinities."""
    refuse_complex_order(dtype)
    found = neutral(kind, dtype)
    return float(found) if is_float(dtype) else int(found)


@traced
def any_(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    return _reduce("or", truth(x), 0, axis, keepdims)


@traced
def all_(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    return _reduce("and", truth(x), 1, axis, keepdims)


@traced
def mean(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean over dims (None: all); integers become f32. Raises ProgramError for an empty dim."""
    x = as_float(x)
    total = _reduce("add", _wide(x), 0, axis, keepdims)
    return convert(total / _count(x, axis), x.type.dtype)


def _count(x: Tensor, axis: Axis) -> float:
    count = math.prod(x.shape[d] for d in axes_of(axis, x.ndim))
    if not count:
        refuse(f"the mean over {axis} of {x.type} has no elements")
    return float(count)


@traced
def var(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean squared distance from the mean."""
    x = _no_complex(as_float(x))
    wide = _wide(x)
    centred = wide - mean(wide, axis, True)
    return convert(mean(centred * centred, axis, keepdims), x.type.dtype)


@traced
def std(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    return sqrt(var(x, axis, keepdims))


@traced
def softmax(x: Operand, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along a dim, shifted by the maximum; narrow floats are computed in f32."""
    x = as_float(x)
    wide = _wide(x)
    shifted = exp(wide - max_(wide, axis, True))
    return convert(shifted / sum_(shifted, axis, True), x.type.dtype)


@traced
def log_softmax(x: Operand, axis: int = -1) -> Tensor:
    """log(softmax(x)) without computing the quotient."""
    x = as_float(x)
    wide = _wide(x)
    shifted = wide - max_(wide, axis, True)
    return convert(shifted - log(sum_(exp(shifted), axis, True)), x.type.dtype)


@traced
def layer_norm(
    x: Operand, scale: Operand | None = None, bias: Operand | None = None, axis: int = -1, eps: float = 1e-5
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * scale + bias along a dim; narrow floats are computed in f32."""
    x = _no_complex(as_float(x))
    wide = _wide(x)
    centred = wide - mean(wide, axis, True)
    normal = centred * rsqrt(mean(centred * centred, axis, True) + eps)
    if scale is not None:
        normal = normal * tensor(scale, normal.type.dtype)
    if bias is not None:
        normal = normal + tensor(bias, normal.type.dtype)
    return convert(normal, x.type.dtype)
