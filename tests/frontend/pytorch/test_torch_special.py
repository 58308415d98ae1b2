"""PyTorch's special functions, compared with SciPy, whose errors are a few units in the last place. Torch need not be
installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.frontend.torch.ops import find_op

special: Any = pytest.importorskip("scipy.special")

POINTS = np.array([0, 1e-4, 0.01, 0.3, 0.5, 0.7, 1, 1.9, 2, 2.1, 5, 7.9, 8, 8.1, 20, 50, *np.linspace(0.05, 30, 80)])
SIGNED_POINTS = np.concatenate([-POINTS, POINTS, [np.nan]])
PROBABILITIES = np.array([0, 1e-30, 1e-10, 1e-4, 0.05, 0.074, 0.08, 0.3, 0.5, 0.9, 0.9999, 1, np.nan])
FUNCTIONS = {
    "i0": "i0", "special_i0e": "i0e", "special_i1": "i1", "special_i1e": "i1e", "special_modified_bessel_i0": "i0", "special_modified_bessel_i1": "i1",
    "special_modified_bessel_k0": "k0", "special_modified_bessel_k1": "k1", "special_scaled_modified_bessel_k0": "k0e",
    "special_scaled_modified_bessel_k1": "k1e", "special_bessel_j0": "j0", "special_bessel_j1": "j1", "special_bessel_y0": "y0", "special_bessel_y1": "y1",
    "special_erfcx": "erfcx", "special_ndtri": "ndtri",
}  # fmt: skip
DEGREES = {
    "chebyshev_polynomial_t": "eval_chebyt", "chebyshev_polynomial_u": "eval_chebyu", "hermite_polynomial_h": "eval_hermite",
    "hermite_polynomial_he": "eval_hermitenorm", "laguerre_polynomial_l": "eval_laguerre", "legendre_polynomial_p": "eval_legendre",
    "shifted_chebyshev_polynomial_t": "eval_sh_chebyt", "shifted_chebyshev_polynomial_u": "eval_sh_chebyu",
}  # fmt: skip


def _called(name: str, x: np.ndarray[Any, Any], *integers: int) -> np.ndarray[Any, Any]:
    op = find_op(f"torch.ops.aten.{name}")
    assert op is not None, name
    function: Callable[..., Any] = op.function
    return mg.compile(lambda x: function(x, *integers), {"d": 2}, args=[x], target="cpu")(x)


@pytest.mark.parametrize(("dtype", "tolerance"), [("f4", 4e-6), ("f8", 2e-13)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_function_is_accurate_to_its_precision(name: str, dtype: str, tolerance: float) -> None:
    """Arguments up to 50 have rounding errors of 2^-24, relative to their size. So the tolerance is absolute near zeros
    of a function.
    """
    x = (PROBABILITIES if name == "special_ndtri" else SIGNED_POINTS).astype(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(special, FUNCTIONS[name])(x.astype("f8")).astype(dtype)
    actual = _called(f"{name}.default", x)
    assert actual.dtype == x.dtype
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", DEGREES)
def test_polynomial_of_constant_degree_matches_scipy(name: str) -> None:
    x = np.linspace(-0.9, 0.9, 12)
    for degree in (0, 1, 2, 7):
        expected = getattr(special, DEGREES[name])(degree, x)
        np.testing.assert_allclose(_called(f"special_{name}.n_scalar", x, degree), expected, rtol=1e-9, atol=1e-9)
    assert not _called(f"special_{name}.n_scalar", x, -1).any()


def test_bessel_function_of_f16_is_computed_in_f32() -> None:
    """The intermediate value exp(11.5) overflows f16; the result does not."""
    x = np.array([11.5], "f2")
    np.testing.assert_allclose(_called("special_i1.default", x), special.i1(x.astype("f8")), rtol=1e-3)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("name", "function"), [("igamma", "gammainc"), ("igammac", "gammaincc")])
def test_incomplete_gamma_is_accurate_for_any_shape_parameter(name: str, function: str, dtype: str) -> None:
    """For x near a, the series and the continued fraction converge slowly, and terms as large as a cancel each other."""
    op = find_op(f"torch.ops.aten.{name}.default")
    assert op is not None
    shapes = np.repeat([0.5, 3, 50, 1e3, 1e5, 9e6, 2e7, 3e9], 7).astype(dtype)
    x = (shapes + np.sqrt(shapes) * np.tile(np.linspace(-4, 4, 7), 8)).clip(1e-3).astype(dtype)
    computed = mg.compile(lambda a, x: op.function(a, x), {"d": 2}, args=[shapes, x], target="cpu")(shapes, x)
    expected = getattr(special, function)(shapes.astype("f8"), x.astype("f8"))
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-8 if dtype == "f8" else 2e-7)


def test_polynomial_of_non_finite_degree_is_nan() -> None:
    """A loop up to the largest degree would not terminate."""
    x, degrees = np.full(5, 0.5, np.float32), np.array([3, np.nan, np.inf, -np.inf, 1e30], np.float32)
    op = find_op("torch.ops.aten.special_legendre_polynomial_p.default")
    assert op is not None
    computed = mg.compile(lambda x, n: op.function(x, n), {"d": 2}, args=[x, degrees], target="cpu")(x, degrees)
    np.testing.assert_allclose(computed, [special.eval_legendre(3, 0.5), *[np.nan] * 4], rtol=1e-6)


def test_exponential_of_non_finite_matrix_terminates() -> None:
    op = find_op("torch.ops.aten.linalg_matrix_exp.default")
    assert op is not None
    matrices = np.stack([np.full((2, 2), value, np.float32) for value in (np.inf, np.nan, 0.5)])
    computed = mg.compile(lambda x: op.function(x), {"d": 3}, args=[matrices], target="cpu")(matrices)
    assert not np.isfinite(computed[:2]).any()
    np.testing.assert_allclose(computed[2], np.eye(2) + (np.e - 1) / 2, rtol=1e-6)
