"""Tests that the fallbacks of special functions agree with SciPy without warnings, also at poles and limits."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from meshgen.ops import special_functions as special

RANGE = np.concatenate([np.linspace(-30, 30, 601), [-1e-8, 1e-8, 0.0, -0.0, 1e3, -1e3, np.inf, np.nan]])
WITHIN_ONE = np.concatenate([np.linspace(-1, 1, 201), [1 - 1e-7, -1.5, 2.0, np.nan]])
POINTS = {"erf": RANGE, "erfc": RANGE, "erf_inv": WITHIN_ONE, "lgamma": RANGE, "bessel_i1e": RANGE}


@pytest.mark.parametrize("name", POINTS)
def test_special_function_fallbacks_agree_with_scipy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    by_scipy = getattr(special, name)(POINTS[name])
    special._scipy.cache_clear()
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    try:
        fallback = getattr(special, name)(POINTS[name])
        assert special._scipy("erf") is None
    finally:
        special._scipy.cache_clear()
    finite = np.isfinite(by_scipy)
    np.testing.assert_array_equal(fallback[~finite], by_scipy[~finite])
    np.testing.assert_allclose(fallback[finite], by_scipy[finite], rtol=2e-10, atol=1e-12)


def test_digamma_is_nan_at_its_poles() -> None:
    assert (
        np.isnan(special.digamma(np.array([0.0, -1.0, -5.0]))).all()
        and np.isposinf(special.lgamma(np.array([0.0, -1.0]))).all()
    )


def test_special_functions_compute_in_float64() -> None:
    assert special.erf(np.ones(3, np.float32)).dtype == np.float64
