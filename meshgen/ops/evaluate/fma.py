"""Fused multiply-add of f64 arrays with a single rounding."""

from __future__ import annotations

import numpy as np

from meshgen.ops.evaluate.common import Array

_SPLIT = 134217729.0  # 2^27 + 1 (Veltkamp splitting): each half has 26 bits.
# Larger operands are scaled down before the split, which would overflow otherwise.
_LARGE, _SCALE = 2.0**900, 2.0**-100


def fma64(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c with a single rounding, except in rare ties of the two error terms.

    The error of the product is exact (Dekker).
    """
    product = a * b
    scale_a, scale_b = (np.where(np.abs(x) > _LARGE, _SCALE, 1.0) for x in (a, b))
    high_a, low_a = _halves(a * scale_a)
    high_b, low_b = _halves(b * scale_b)
    scaled_product = product * scale_a * scale_b
    error = ((high_a * high_b - scaled_product) + high_a * low_b + low_a * high_b) + low_a * low_b
    total = product + c
    rest = lost(product, c, total) + error / scale_a / scale_b
    return np.where(np.isfinite(rest), total + rest, total)


def _halves(value: Array) -> tuple[Array, Array]:
    high = value * _SPLIT - (value * _SPLIT - value)
    return high, value - high


def lost(a: Array, b: Array, total: Array) -> Array:
    """Return the exact rounding error of the f64 sum `total` = a + b. Source: Knuth's TwoSum."""
    c = np.asarray(b, np.float64)
    part = total - a
    return (a - (total - part)) + (c - part)
