"""Sums and products rounded once, in the modes of PTX, to formats narrower than f64.

A result is computed in f64 with the sign of what was lost. Rounded to odd (the last bit set where anything was lost), it can be
rounded again to any format with two bits less, and no tie is made that was none.
Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE TC 57(4), 2008.
"""

from __future__ import annotations

import numpy as np

from meshgen.emulator.types import Array, DType
from meshgen.ops.evaluate.fused import lost

MODES = ("rn", "rz", "rm", "rp")
_F16, _F32, _F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
_TIE_MASK, _TIE = np.uint64(0x1FFFFFFF), np.uint64(0x10000000)  # what f32 drops of an f64, and the middle of it
_ONE = np.uint64(1)


def flushed(value: Array) -> Array:
    """f32 with subnormal numbers as zeros of their sign (`.ftz`)."""
    bits = value.view(np.uint32)
    return np.where(bits & np.uint32(0x7F800000), bits, bits & np.uint32(0x80000000)).view(np.float32)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in f32, rounded once to the nearest."""
    product = a.astype(np.float64)
    product = product * b  # exact: 48 bits
    total = product + c
    result = total.astype(np.float32)
    bits = total.view(np.uint64)
    # Rounded twice, a result differs where the f64 sum is halfway between two f32, which for small results is elsewhere.
    unclear = (bits & _TIE_MASK) == _TIE
    small = (result.view(np.uint32) << np.uint32(1)) - np.uint32(1) < np.uint32(0x00FFFFFF)
    if small.any() or unclear.any():
        return to_odd(total, lost(product, c, total)).astype(np.float32)
    return result


def to_odd(total: Array, error: Array) -> Array:
    """f64 numbers rounded to odd, of their rounding to the nearest and what it lost."""
    bits = total.view(np.uint64)
    inexact = (error != 0) & np.isfinite(total) & np.isfinite(error)
    even = inexact & ((bits & _ONE) == 0)
    towards_zero = (error < 0) != (total < 0)
    return np.where(even, np.where(towards_zero, bits - _ONE, bits + _ONE), bits).view(np.float64)


def rounded(value: Array, kind: DType, mode: str = "rn") -> Array:
    """f64 (to odd where anything was lost) in a narrower type: to the nearest, or in a direction."""
    near = _nearest(value, kind)
    if mode == "rn":
        return near
    back = near.astype(np.float64)
    high, low = back > value, back < value
    if mode == "rz":
        high, low = high & (value > 0), low & (value < 0)
    infinity = np.asarray(np.inf, kind)
    if mode != "rm":
        near = np.where(low, np.nextafter(near, infinity), near)
    if mode != "rp":
        near = np.where(high, np.nextafter(near, -infinity), near)
    return near


def _nearest(value: Array, kind: DType) -> Array:
    if kind in (_F64, _F32, _F16):
        return value.astype(kind)  # NumPy goes from f64 to f16 at once
    return _f32_to_odd(value).astype(kind)  # ml_dtypes goes by f32


def _f32_to_odd(value: Array) -> Array:
    """f64 as f32 rounded to odd."""
    near = value.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.uint32)
    inexact = (back != value) & np.isfinite(near)
    even = inexact & ((bits & np.uint32(1)) == 0)
    smaller = np.abs(back) > np.abs(value)
    return np.where(even, np.where(smaller, bits - np.uint32(1), bits + np.uint32(1)), bits).view(np.float32)
