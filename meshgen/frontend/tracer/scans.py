"""Traced cumulative operations along a dim, and differences of neighboring elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from meshgen.frontend.tracer.creation import full
from meshgen.frontend.tracer.elementwise import maximum, minimum
from meshgen.frontend.tracer.joining import concatenate, split
from meshgen.frontend.tracer.logic import logical_xor
from meshgen.frontend.tracer.operands import axis_of, convert, dtype_of, scalar, tensor
from meshgen.frontend.tracer.recording import named, refuse, traced
from meshgen.frontend.tracer.reduce import NARROW, extreme, whole
from meshgen.frontend.tracer.shapes import ravel
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.frontend.tracer.trace_regions import body, emit_regions
from meshgen.ir.graph import TensorType


def windows(function: Callable[..., Any], x: Tensor, neutral: float, sizes: list[int], strides: list[int],
            low: list[int], high: list[int], dilations: list[int] | None = None, base: list[int] | None = None) -> Tensor:  # fmt: skip
    """Emit a reduce_window: reduce each window of x with `function`, which combines two elements.

    Each dim is padded with `low` and `high` neutral elements. `base` has the base dilations: before the reduction, base
    - 1 neutral elements are inserted between neighbors.
    """
    ones = [1] * x.ndim
    dilations, base = dilations or ones, base or ones
    spans = [(n - 1) * d + 1 for n, d in zip(sizes, dilations, strict=True)]
    rows = [max(0, (n - 1) * d + 1) for n, d in zip(x.shape, base, strict=True)]
    shape = [max(0, (a + n + b - span) // step + 1)
             for a, n, b, span, step in zip(low, rows, high, spans, strides, strict=True)]  # fmt: skip
    attrs = {
        "window_dimensions": tuple(sizes), "window_strides": tuple(strides), "base_dilations": tuple(base),
        "window_dilations": tuple(dilations), "low": tuple(low), "high": tuple(high),
    }  # fmt: skip
    element = TensorType((), x.type.dtype)
    operands = [x, scalar(neutral, x.type.dtype)]
    return emit_regions(
        "reduce_window", operands, [x.type.with_shape(shape)], [body(function, element, element)], attrs
    )[0]


def running(function: Callable[..., Any], x: Tensor, neutral: float, axis: int) -> Tensor:
    """Return the cumulative reduction of x along `axis`: element i reduces the elements 0 to i.

    It is emitted as a reduce_window with windows of the size of the dim.
    """
    dim = axis_of(axis, x.ndim)
    size = max(x.shape[dim], 1)
    at_dim = lambda number, other: [number if d == dim else other for d in range(x.ndim)]  # noqa: E731
    return windows(function, x, neutral, at_dim(size, 1), [1] * x.ndim, at_dim(size - 1, 0), [0] * x.ndim)


def _accumulated(function: Callable[..., Any], neutral: int, x: Operand, axis: int | None, dtype: Any, has_start: bool) -> Tensor:  # fmt: skip
    """Return a cumulative sum or product, by default in the result dtype of `sum`.

    bf16 and f16 are accumulated in f32 and rounded once. With `has_start`, the result begins with the neutral element.
    """
    x = ravel(x) if axis is None else tensor(x)
    result = dtype_of(dtype) if dtype is not None else whole(x.type.dtype)
    dim = axis_of(0 if axis is None else axis, x.ndim)
    cumulative = convert(running(function, convert(x, "f32" if result in NARROW else result), neutral, dim), result)
    if not has_start:
        return cumulative
    initial_shape = [1 if d == dim else size for d, size in enumerate(x.shape)]
    return concatenate([full(initial_shape, neutral, result), cumulative], dim)


@named("cumsum", "cumulative_sum")
def cumsum(x: Operand, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Return cumulative sums along a dim (None: of the flattened tensor). The default dtype is that of `sum`."""
    return _accumulated(lambda a, b: a + b, 0, x, axis, dtype, include_initial)


@named("cumprod", "cumulative_prod")
def cumprod(x: Operand, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Return cumulative products along a dim (None: of the flattened tensor). The default dtype is that of `prod`."""
    return _accumulated(lambda a, b: a * b, 1, x, axis, dtype, include_initial)


@traced
def cummax(x: Operand, axis: int = 0) -> Tensor:
    """Return cumulative maxima along a dim."""
    x = tensor(x)
    return running(maximum, x, extreme("maximum", x.type.dtype), axis)


@traced
def cummin(x: Operand, axis: int = 0) -> Tensor:
    """Return cumulative minima along a dim."""
    x = tensor(x)
    return running(minimum, x, extreme("minimum", x.type.dtype), axis)


@traced
def diff(x: Operand, n: int = 1, axis: int = -1, *, prepend: Operand | None = None, append: Operand | None = None) -> Tensor:  # fmt: skip
    """Return the differences of neighboring elements along a dim, applied n times.

    For booleans, return whether the neighbors differ.
    """
    x = tensor(x)
    dim = axis_of(axis, x.ndim)
    x = concatenate([operand for operand in (prepend, x, append) if operand is not None], dim)
    if n < 0:
        refuse(f"diff takes differences 0 times or more, not {n}")
    for _ in range(n):
        previous, following = split(x, [x.shape[dim] - 1], dim)[0], split(x, [1], dim)[1]
        x = logical_xor(following, previous) if x.type.dtype == "i1" else following - previous
    return x
