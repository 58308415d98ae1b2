"""Tests of fused multiply-add with a single rounding, compared with exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from meshgen.ops.evaluate.fma import fma64


def test_fma64_rounds_once_at_any_magnitude() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(400) * 10.0 ** rng.integers(-150, 300, 400)
    b = rng.standard_normal(400) / np.abs(a) * 10.0 ** rng.integers(-3, 3, 400)
    c = -(a * b) * np.where(rng.random(400) < 0.5, 1.0, rng.standard_normal(400))
    for x, y, z, result in zip(a, b, c, fma64(a, b, c), strict=True):
        assert result == float(Fraction(x) * Fraction(y) + Fraction(z))


def test_fma64_gives_exact_rounding_error_near_overflow() -> None:
    a, b = np.array([1.7e308, 2.0**1000]), np.array([1 + 2.0**-52, 1 + 2.0**-30])
    errors = fma64(a, b, -(a * b))
    for x, y, error in zip(a, b, errors, strict=True):
        assert error == float(Fraction(x) * Fraction(y) - Fraction(float(x * y)))


def test_fma64_propagates_inf_and_nan() -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        result = fma64(np.array([np.inf, np.inf, 1e308, np.nan]), np.array([1.0, 0, 1e10, 1]), np.zeros(4))
    np.testing.assert_array_equal(result, [np.inf, np.nan, np.inf, np.nan])
