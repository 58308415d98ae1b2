"""Multiplication and addition of f64 arrays with one rounding."""

from __future__ import annotations

import numpy as np

from meshgen.ops.evaluate.common import Array

_SPLIT = 134217729.0  # 2^27 + 1: halves of a number have 26 bits
_LARGE, _SCALE = 2.0**900, 2.0**-100  # what is split must not overflow


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once but for the rare ties of what was lost twice. The product's error is exact (Dekker)."""
    product = a * b
    scale_a, scale_b = (np.where(np.abs(x) > _LARGE, _SCALE, 1.0) for x in (a, b))
    high_a, low_a = _halves(a * scale_a)
    high_b, low_b = _halves(b * scale_b)
    near = product * scale_a * scale_b
    error = ((high_a * high_b - near) + high_a * low_b + low_a * high_b) + low_a * low_b
    total = product + c
    rest = lost(product, c, total) + error / scale_a / scale_b
    return np.where(np.isfinite(rest), total + rest, total)


def _halves(x: Array) -> tuple[Array, Array]:
    high = x * _SPLIT - (x * _SPLIT - x)
    return high, x - high


def lost(a: Array, b: Array, total: Array) -> Array:
    """The exact rounding error of f64 `total` = a + b. Source: Knuth's TwoSum."""
    c = np.asarray(b, np.float64)
    part = total - a
    return (a - (total - part)) + (c - part)
