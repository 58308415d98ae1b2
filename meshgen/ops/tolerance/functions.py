"""How far the results of functions of one number move when their arguments do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.ops.evaluate.common import Array
from meshgen.ops.special_functions import digamma, erf, erf_inv, erfc, lgamma
from meshgen.ops.tolerance.values import Tracked, in_f64


def monotone(function: Callable[[Any], Any]) -> Callable[[Tracked], Array]:
    """The error of a monotone function: how far it moves when its argument does."""

    def error(x: Tracked) -> Array:
        wide = in_f64(x)
        here = function(wide)
        moved = np.maximum(np.abs(function(wide + x.error) - here), np.abs(function(wide - x.error) - here))
        return np.where(x.error == 0, 0.0, moved)

    return error


def _bounded_slope(x: Tracked) -> Array:
    return np.minimum(x.error, 2.0)


def _tangent(x: Tracked) -> Array:
    wide = in_f64(x)
    branch = [np.round((wide + sign * x.error) / math.pi) for sign in (-1, 1)]
    return np.where(branch[0] == branch[1], monotone(np.tan)(x), np.inf)


def _between_poles(function: Callable[[Any], Any]) -> Callable[[Tracked], Array]:
    """The error of a function that is monotone or convex between its poles 0, -1, ..."""

    def error(x: Tracked) -> Array:
        wide = in_f64(x)
        low, high = wide - x.error, wide + x.error
        return np.where((low <= 0) & (np.floor(low) != np.floor(high)), np.inf, monotone(function)(x))

    return error


def _within(function: Callable[[Any], Any], low: float, high: float) -> Callable[[Tracked], Array]:
    """The error of a monotone function of an interval, at the ends of which arguments stop."""
    return monotone(lambda x: function(np.clip(x, low, high)))


def _rsqrt(x: Array) -> Array:
    return np.where(x > 0, 1 / np.sqrt(np.maximum(x, 0)), np.nan)


FUNCTIONS: dict[str, Callable[[Tracked], Array]] = {
    "exponential": monotone(np.exp), "exponential_minus_one": monotone(np.expm1), "log": monotone(np.log),
    "log_plus_one": monotone(np.log1p), "logistic": monotone(lambda x: 1 / (1 + np.exp(-x))),
    "tanh": monotone(np.tanh), "sqrt": monotone(lambda x: np.sqrt(np.maximum(x, 0))), "rsqrt": monotone(_rsqrt),
    "cbrt": monotone(np.cbrt), "sine": _bounded_slope, "cosine": _bounded_slope, "tan": _tangent,
    "erf": monotone(erf), "erf_inv": _within(erf_inv, -1, 1), "erfc": monotone(erfc), "sinh": monotone(np.sinh),
    "cosh": monotone(np.cosh), "asin": _within(np.arcsin, -1, 1), "acos": _within(np.arccos, -1, 1),
    "asinh": monotone(np.arcsinh), "acosh": _within(np.arccosh, 1, np.inf), "atanh": _within(np.arctanh, -1, 1),
    "lgamma": _between_poles(lgamma), "digamma": _between_poles(digamma),
    "bessel_i1e": _bounded_slope,
}  # fmt: skip
WITH_POLES = ("divide", "log", "log_plus_one", "rsqrt", "lgamma", "digamma", "atanh", "tan")
STEPS: dict[str, Callable[[Tracked], Array]] = {
    "floor": monotone(np.floor), "ceil": monotone(np.ceil), "round_nearest_even": monotone(np.rint),
    "round_nearest_afz": monotone(lambda x: np.trunc(x + np.copysign(0.5, x))), "sign": monotone(np.sign),
}  # fmt: skip
