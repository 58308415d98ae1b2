"""Tests of complex functions where the plain formula is inaccurate: near 0, at large magnitudes, and near poles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from tests.ops.one_op import run

DTYPES = [np.complex64, np.complex128]
NEAR = np.array([1e-5 + 1e-6j, -1e-7j, 1e-9, -0.02 + 0.2j, 0.4 - 0.2j, 0, 3 - 4j, -2 + 1e-3j])


def close(result: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], parts: bool = False) -> None:
    """Check that the real and imaginary parts are within 8 roundings of the expected ones.

    The error is relative to the part itself if `parts`, else to the magnitude.
    """
    eps = 8 * float(np.finfo(result.dtype).eps)
    for side in ("real", "imag"):
        size = np.abs(getattr(expected, side)) if parts else np.abs(expected)
        assert (
            np.abs(getattr(result, side) - getattr(expected, side)) <= eps * size + np.finfo(result.dtype).tiny
        ).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_complex_log_plus_one_is_accurate_near_zero(dtype: Any) -> None:
    x = NEAR.astype(dtype)
    wide = x.astype(np.clongdouble)
    real = np.log1p(wide.real * (2 + wide.real) + wide.imag**2) / 2
    close(run("log_plus_one", x), real + 1j * np.arctan2(wide.imag, 1 + wide.real), parts=dtype == np.complex64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_complex_logistic_does_not_overflow(dtype: Any) -> None:
    x = np.array([-1000 - 1j, 1000 + 2j, -100 + 3j, 0, 1 + 1j, -2 + 3j], dtype)
    wide = x.astype(np.clongdouble)
    close(run("logistic", x), 1 / (1 + np.exp(-wide)))


def test_complex_atan2_is_the_principal_value() -> None:
    y, x = np.array([1 + 3j, -3j, 0.5, 2 - 1j]), np.array([2 - 1j, 4, -1 + 1j, 3 + 3j])
    angle = run("atan2", y, x)
    np.testing.assert_allclose(np.tan(angle), y / x, rtol=1e-13)
    np.testing.assert_allclose(run("atan2", y.real + 0j, x.real + 0j), np.arctan2(y.real, x.real), atol=1e-15)


@pytest.mark.parametrize("dtype", DTYPES)
def test_asin_acos_kernel_gives_arcsine_and_arccosine(dtype: Any) -> None:
    """Check the identities in CHLO's definition of `_asin_acos_kernel`."""
    rng = np.random.default_rng(0)
    z = (rng.uniform(-3, 3, 100) + 1j * rng.uniform(-3, 3, 100)).astype(dtype)
    w, sign = run("_asin_acos_kernel", z), np.sign(z.imag)
    tolerance = {"rtol": 4e-6 if dtype == np.complex64 else 1e-13}
    np.testing.assert_allclose(np.arctan2(z.real, w.real) + 1j * sign * w.imag, np.arcsin(z), **tolerance)
    np.testing.assert_allclose(np.arctan2(w.real, z.real) - 1j * sign * w.imag, np.arccos(z), **tolerance)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_chlo_atan_of_complex_matches_numpy(kind: str) -> None:
    x = np.concatenate([NEAR, [1e-6 + 1.00001j, 2j, -2j, 1e4 + 1e4j]]).astype(f"c{2 * int(kind[1:]) // 8}")
    tensor = f"tensor<{x.size}xcomplex<{kind}>>"
    text = f"func.func @main(%a: {tensor}) -> {tensor} {{\n  %0 = chlo.atan %a : {tensor} -> {tensor}\n  return %0 : {tensor}\n}}"
    result = mg.compile(text, {"x": 2}, target="cpu", arguments="global")(x)
    np.testing.assert_allclose(result, np.arctan(x.astype(np.complex128)), rtol=2e-6 if kind == "f32" else 1e-14)
