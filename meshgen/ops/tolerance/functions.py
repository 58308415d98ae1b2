"""Error propagation through unary functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.ops.evaluate.common import Array
from meshgen.ops.tolerance.tracked import UNIT, Tracked, in_f64


def monotone(function: Callable[[Any], Any]) -> Callable[[Tracked], Array]:
    """Return a function from an argument with error to the error of `function`, which is monotone.

    The error is the larger change of the result at both ends of the argument's error interval.
    """

    def error(x: Tracked) -> Array:
        wide = in_f64(x)
        unperturbed = function(wide)
        change = np.maximum(
            np.abs(function(wide + x.error) - unperturbed), np.abs(function(wide - x.error) - unperturbed)
        )
        return np.where(x.error == 0, 0.0, change)

    return error


def bounded_slope(x: Tracked) -> Array:
    return np.minimum(x.error, 2.0)


def tangent(x: Tracked) -> Array:
    wide = in_f64(x)
    branch = [np.round((wide + sign * x.error) / math.pi) for sign in (-1, 1)]
    return np.where(branch[0] == branch[1], monotone(np.tan)(x), np.inf)


def between_poles(function: Callable[[Any], Any]) -> Callable[[Tracked], Array]:
    """Return the error function (see `monotone`) of a function with poles at 0, -1, ..., monotone or convex between
    poles.
    """

    def error(x: Tracked) -> Array:
        wide = in_f64(x)
        low, high = wide - x.error, wide + x.error
        return np.where((low <= 0) & (np.floor(low) != np.floor(high)), np.inf, monotone(function)(x))

    return error


def within(function: Callable[[Any], Any], low: float, high: float) -> Callable[[Tracked], Array]:
    """Return the error function (see `monotone`) of a monotone function on [low, high]. Arguments are clamped to [low,
    high].
    """
    return monotone(lambda x: function(np.clip(x, low, high)))


def inverse_root(x: Array) -> Array:
    return np.where(x > 0, 1 / np.sqrt(np.maximum(x, 0)), np.nan)


# Error of the functions that kernels always compute in f64: a multiple of the f64 unit roundoff of the terms that the
# function sums up. Source: tests/codegen/test_device_functions.py compares them with exact values.
_SPECIAL_UNITS = 128


def special_error(x: Array, result: Array) -> Array:
    return _SPECIAL_UNITS * UNIT["f64"] * _finite(result)


def gamma_error(x: Array, result: Array) -> Array:
    """Return the rounding error of log gamma or its derivative.

    Both are sums of terms up to |x| log |x|, which cancel near the zeros of the function.
    """
    terms = 1 + _finite(x) * np.log(_finite(x) + 2)
    return _SPECIAL_UNITS * UNIT["f64"] * (_finite(result) + terms)


def logarithm_error(result: Array) -> Array:
    """Return the rounding error of exp2(y log2(x)).

    The exponent has a relative error, so the relative error of the result grows with the result's logarithm.
    """
    size = _finite(result)
    return 2 * UNIT["f64"] * np.abs(np.log2(np.where(size > 0, size, 1.0))) * size


def zeta_error(order: Array, x: Array, result: Array) -> Array:
    """Return the rounding error of zeta, a sum of powers.

    For negative x, the largest powers are those of terms near a pole, and they cancel.
    """
    distance = np.abs(x - np.rint(x))
    largest = np.where((x < 0) & (distance > 0), np.power(np.where(distance > 0, distance, 1.0), -order - 1), 0.0)
    return _SPECIAL_UNITS * (logarithm_error(result) + UNIT["f64"] * (_finite(result) + _finite(largest)))


def _finite(x: Array) -> Array:
    return np.where(np.isfinite(x), np.abs(x), 0.0)
