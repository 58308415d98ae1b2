"""Sums and products that are rounded once, in the rounding modes of PTX, to formats narrower than f64.

A result is computed in f64, together with the sign of its rounding error. It is then rounded to odd: the last bit is
set if the result is inexact. A second rounding to a format with at least two bits less is then correct, because it
never sees a false tie.
Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd",
IEEE TC 57(4), 2008.
"""

from __future__ import annotations

import numpy as np

from meshgen.emulator.types import Array, DType
from meshgen.ops.evaluate.fma import lost

MODES = ("rn", "rz", "rm", "rp")
_F16, _F32, _F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
# mask of the low f64 bits that f32 drops, and their value at a tie
_TIE_MASK, _TIE = np.uint64(0x1FFFFFFF), np.uint64(0x10000000)
_ONE = np.uint64(1)


def flushed(value: Array) -> Array:
    """Return f32 values with subnormal numbers replaced by zeros of the same sign (`.ftz`)."""
    bits = value.view(np.uint32)
    return np.where(bits & np.uint32(0x7F800000), bits, bits & np.uint32(0x80000000)).view(np.float32)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """Return `a * b + c` in f32, rounded once to nearest."""
    product = a.astype(np.float64)
    product = product * b  # exact: the product of two f32 has at most 48 bits
    total = product + c
    result = total.astype(np.float32)
    bits = total.view(np.uint64)
    # Double rounding changes a result only if the f64 sum is halfway between two f32 values. The tie bits of subnormal
    # results are at other positions, so these always take the slow path.
    is_tie = (bits & _TIE_MASK) == _TIE
    is_subnormal = (result.view(np.uint32) << np.uint32(1)) - np.uint32(1) < np.uint32(0x00FFFFFF)
    if is_subnormal.any() or is_tie.any():
        return to_odd(total, lost(product, c, total)).astype(np.float32)
    return result


def to_odd(total: Array, error: Array) -> Array:
    """Round to odd: `total` is an f64 rounded to nearest, `error` is its rounding error."""
    bits = total.view(np.uint64)
    inexact = (error != 0) & np.isfinite(total) & np.isfinite(error)
    even = inexact & ((bits & _ONE) == 0)
    towards_zero = (error < 0) != (total < 0)
    return np.where(even, np.where(towards_zero, bits - _ONE, bits + _ONE), bits).view(np.float64)


def rounded(value: Array, dtype: DType, mode: str = "rn") -> Array:
    """Convert f64 values to a narrower type, to nearest or in the direction of `mode`.

    Inexact values must be rounded to odd.
    """
    near = _nearest(value, dtype)
    if mode == "rn":
        return near
    back = near.astype(np.float64)
    high, low = back > value, back < value
    if mode == "rz":
        high, low = high & (value > 0), low & (value < 0)
    infinity = np.asarray(np.inf, dtype)
    if mode != "rm":
        near = np.where(low, np.nextafter(near, infinity), near)
    if mode != "rp":
        near = np.where(high, np.nextafter(near, -infinity), near)
    return near


def _nearest(value: Array, dtype: DType) -> Array:
    if dtype in (_F64, _F32, _F16):
        return value.astype(dtype)  # NumPy converts f64 to f16 in one step
    return _f32_to_odd(value).astype(dtype)  # ml_dtypes converts f64 to f32 first, so that step is rounded to odd


def _f32_to_odd(value: Array) -> Array:
    """Convert f64 to f32, rounded to odd."""
    near = value.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.uint32)
    inexact = (back != value) & np.isfinite(near)
    even = inexact & ((bits & np.uint32(1)) == 0)
    is_larger = np.abs(back) > np.abs(value)
    return np.where(even, np.where(is_larger, bits - np.uint32(1), bits + np.uint32(1)), bits).view(np.float32)
