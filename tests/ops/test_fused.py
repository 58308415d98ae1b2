"""Multiplication and addition with one rounding, against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from meshgen.ops.evaluate.fused import fma64


def test_one_rounding_of_any_size() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(400) * 10.0 ** rng.integers(-150, 300, 400)
    b = rng.standard_normal(400) / np.abs(a) * 10.0 ** rng.integers(-3, 3, 400)
    c = -(a * b) * np.where(rng.random(400) < 0.5, 1.0, rng.standard_normal(400))
    for x, y, z, found in zip(a, b, c, fma64(a, b, c), strict=True):
        assert found == float(Fraction(x) * Fraction(y) + Fraction(z))


def test_the_error_of_a_product_near_the_largest_number() -> None:
    a, b = np.array([1.7e308, 2.0**1000]), np.array([1 + 2.0**-52, 1 + 2.0**-30])
    found = fma64(a, b, -(a * b))
    for x, y, rest in zip(a, b, found, strict=True):
        assert rest == float(Fraction(x) * Fraction(y) - Fraction(float(x * y)))


def test_what_is_not_finite_stays() -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        found = fma64(np.array([np.inf, np.inf, 1e308, np.nan]), np.array([1.0, 0, 1e10, 1]), np.zeros(4))
    np.testing.assert_array_equal(found, [np.inf, np.nan, np.inf, np.nan])
