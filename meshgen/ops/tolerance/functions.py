"""How far the results of functions of one number move when their arguments do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.ops.evaluate.common import Array
from meshgen.ops.tolerance.values import UNIT, Tracked, in_f64


def monotone(function: Callable[[Any], Any]) -> Callable[[Tracked], Array]:
    """The error of a monotone function: how far it moves when its argument does."""

    def error(x: Tracked) -> Array:
        wide = in_f64(x)
        here = function(wide)
        moved = np.maximum(np.abs(function(wide + x.error) - here), np.abs(function(wide - x.error) - here))
        return np.where(x.error == 0, 0.0, moved)

    return error


def bounded_slope(x: Tracked) -> Array:
    return np.minimum(x.error, 2.0)


def tangent(x: Tracked) -> Array:
    wide = in_f64(x)
    branch = [np.round((wide + sign * x.error) / math.pi) for sign in (-1, 1)]
    return np.where(branch[0] == branch[1], monotone(np.tan)(x), np.inf)


def between_poles(function: Callable[[Any], Any]) -> Callable[[Tracked], Array]:
    """The error of a function that is monotone or convex between its poles 0, -1, ..."""

    def error(x: Tracked) -> Array:
        wide = in_f64(x)
        low, high = wide - x.error, wide + x.error
        return np.where((low <= 0) & (np.floor(low) != np.floor(high)), np.inf, monotone(function)(x))

    return error


def within(function: Callable[[Any], Any], low: float, high: float) -> Callable[[Tracked], Array]:
    """The error of a monotone function of an interval, at the ends of which arguments stop."""
    return monotone(lambda x: function(np.clip(x, low, high)))


def inverse_root(x: Array) -> Array:
    return np.where(x > 0, 1 / np.sqrt(np.maximum(x, 0)), np.nan)


# Functions that kernels compute in f64, whatever the type: the unit roundoffs of f64 that they are right to, of what they add up.
_SPECIAL_UNITS = 128


def special_error(x: Array, result: Array) -> Array:
    return _SPECIAL_UNITS * UNIT["f64"] * _finite(result)


def gamma_error(x: Array, result: Array) -> Array:
    """log gamma and its derivative are sums of terms up to |x| log |x|, which cancel near their zeros."""
    terms = 1 + _finite(x) * np.log(_finite(x) + 2)
    return _SPECIAL_UNITS * UNIT["f64"] * (_finite(result) + terms)


def logarithm_error(result: Array) -> Array:
    """exp2(y log2(x)): the error of the exponent, which is as large as the result's logarithm."""
    size = _finite(result)
    return 2 * UNIT["f64"] * np.abs(np.log2(np.where(size > 0, size, 1.0))) * size


def zeta_error(order: Array, x: Array, result: Array) -> Array:
    """Powers, added up; below 0 they are largest near the poles and cancel."""
    distance = np.abs(x - np.rint(x))
    largest = np.where((x < 0) & (distance > 0), np.power(np.where(distance > 0, distance, 1.0), -order - 1), 0.0)
    return _SPECIAL_UNITS * (logarithm_error(result) + UNIT["f64"] * (_finite(result) + _finite(largest)))


def _finite(x: Array) -> Array:
    return np.where(np.isfinite(x), np.abs(x), 0.0)
