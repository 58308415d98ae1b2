"""PyTorch's special functions against SciPy, which is right to the last places; torch need not be installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.frontend.torch.ops import find_op

special: Any = pytest.importorskip("scipy.special")

POINTS = np.array([0, 1e-4, 0.01, 0.3, 0.5, 0.7, 1, 1.9, 2, 2.1, 5, 7.9, 8, 8.1, 20, 50, *np.linspace(0.05, 30, 80)])
BOTH = np.concatenate([-POINTS, POINTS, [np.nan]])
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


def _called(name: str, x: np.ndarray[Any, Any], *numbers: int) -> np.ndarray[Any, Any]:
    found = find_op(f"torch.ops.aten.{name}")
    assert found is not None, name
    function: Callable[..., Any] = found.function
    return mg.compile(lambda x: function(x, *numbers), {"d": 2}, args=[x], target="cpu")(x)


@pytest.mark.parametrize(("dtype", "digits"), [("f4", 4e-6), ("f8", 2e-13)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_right_in_its_precision(name: str, dtype: str, digits: float) -> None:
    """Near zeros of the function, to as many digits of 1: arguments are rounded too, to 2^-24 of up to 50."""
    x = (PROBABILITIES if name == "special_ndtri" else BOTH).astype(dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(special, FUNCTIONS[name])(x.astype("f8")).astype(dtype)
    found = _called(f"{name}.default", x)
    assert found.dtype == x.dtype
    np.testing.assert_allclose(found, wanted, rtol=digits, atol=digits)


@pytest.mark.parametrize("name", DEGREES)
def test_a_polynomial_of_a_degree_that_is_a_number(name: str) -> None:
    x = np.linspace(-0.9, 0.9, 12)
    for degree in (0, 1, 2, 7):
        wanted = getattr(special, DEGREES[name])(degree, x)
        np.testing.assert_allclose(_called(f"special_{name}.n_scalar", x, degree), wanted, rtol=1e-9, atol=1e-9)
    assert not _called(f"special_{name}.n_scalar", x, -1).any()


def test_narrow_types_are_computed_in_f32() -> None:
    """exp(11) does not fit into f16, the product does."""
    x = np.array([11.5], "f2")
    np.testing.assert_allclose(_called("special_i1.default", x), special.i1(x.astype("f8")), rtol=1e-3)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("name", "function"), [("igamma", "gammainc"), ("igammac", "gammaincc")])
def test_incomplete_gamma_is_right_for_shapes_of_any_size(name: str, function: str, dtype: str) -> None:
    """Near x = a, where neither the series nor the fraction ends soon, and terms of the size of a cancel."""
    found = find_op(f"torch.ops.aten.{name}.default")
    assert found is not None
    shapes = np.repeat([0.5, 3, 50, 1e3, 1e5, 9e6, 2e7, 3e9], 7).astype(dtype)
    x = (shapes + np.sqrt(shapes) * np.tile(np.linspace(-4, 4, 7), 8)).clip(1e-3).astype(dtype)
    computed = mg.compile(lambda a, x: found.function(a, x), {"d": 2}, args=[shapes, x], target="cpu")(shapes, x)
    wanted = getattr(special, function)(shapes.astype("f8"), x.astype("f8"))
    np.testing.assert_allclose(computed, wanted, rtol=0, atol=1e-8 if dtype == "f8" else 2e-7)


def test_polynomial_of_a_degree_that_is_no_number_is_nan() -> None:
    """A loop as long as the largest degree would not end."""
    x, degrees = np.full(5, 0.5, np.float32), np.array([3, np.nan, np.inf, -np.inf, 1e30], np.float32)
    found = find_op("torch.ops.aten.special_legendre_polynomial_p.default")
    assert found is not None
    computed = mg.compile(lambda x, n: found.function(x, n), {"d": 2}, args=[x, degrees], target="cpu")(x, degrees)
    np.testing.assert_allclose(computed, [special.eval_legendre(3, 0.5), *[np.nan] * 4], rtol=1e-6)


def test_exponential_of_a_matrix_that_is_not_finite_ends() -> None:
    found = find_op("torch.ops.aten.linalg_matrix_exp.default")
    assert found is not None
    matrices = np.stack([np.full((2, 2), each, np.float32) for each in (np.inf, np.nan, 0.5)])
    computed = mg.compile(lambda x: found.function(x), {"d": 3}, args=[matrices], target="cpu")(matrices)
    assert not np.isfinite(computed[:2]).any()
    np.testing.assert_allclose(computed[2], np.eye(2) + (np.e - 1) / 2, rtol=1e-6)
