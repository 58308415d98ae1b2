"""Special functions on float64 arrays, accurate to a few ulp of f32 or better. SciPy's are used if available."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
_SHIFT = 12.0  # From this argument on, the asymptotic series below are accurate to double precision.
_erf: Callable[[Any], Any] = np.frompyfunc(math.erf, 1, 1)
_erfc: Callable[[Any], Any] = np.frompyfunc(math.erfc, 1, 1)
Function = Callable[[Array], Array]


def by_scipy(name: str) -> Callable[[Function], Function]:
    """Decorate a fallback implementation: SciPy's function `name` is used if SciPy is installed.

    The fallbacks are up to 100 times slower. Arguments are converted to float64.
    """

    def decorate(fallback: Function) -> Function:
        @functools.wraps(fallback)
        def function(x: Array) -> Array:
            with np.errstate(all="ignore"):  # Poles give infinity or NaN without a warning.
                return np.asarray((_scipy(name) or fallback)(np.asarray(x, np.float64)))

        return function

    return decorate


@functools.cache
def _scipy(name: str) -> Function | None:
    """Import a function of `scipy.special`, or return None if SciPy is missing."""
    try:
        return getattr(import_module("scipy.special"), name)
    except ImportError:
        return None


@by_scipy("erf")
def erf(x: Array) -> Array:
    """Return the error function, computed in double precision."""
    return np.asarray(_erf(x)).astype(np.float64)


def erfc(x: Array) -> Array:
    """Return 1 - erf, accurate also for tiny results; SciPy's `erfc` is off by up to 511 ulp at x = 23."""
    return np.asarray(_erfc(np.asarray(x, np.float64))).astype(np.float64)


# Starting values for Newton's method, highest power first. Source: M. Giles, "Approximating the erfinv
# function", 2011.
_CENTER = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
           -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
         0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


@by_scipy("erfinv")
def erf_inv(y: Array) -> Array:
    """Return the inverse error function on [-1, 1]: infinite at the ends, NaN outside."""
    w = -np.log((1 - y) * (1 + y))
    x = y * np.where(w < 5, np.polyval(_CENTER, w - 2.5), np.polyval(_TAIL, np.sqrt(np.maximum(w, 5)) - 3))
    for _ in range(2):  # The starting value is accurate to 1e-7, and each Newton step squares the error.
        step = (erf(np.nan_to_num(x, posinf=0, neginf=0)) - y) * (math.sqrt(math.pi) / 2) * np.exp(x * x)
        x = x - np.where(np.isfinite(step), step, 0)
    return np.where(np.abs(y) == 1, np.copysign(np.inf, y), x)


def _log_gamma(x: float) -> float:
    if math.isnan(x):
        return x
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


_lgamma: Callable[[Any], Any] = np.frompyfunc(_log_gamma, 1, 1)


@by_scipy("gammaln")
def lgamma(x: Array) -> Array:
    """Return log |gamma(x)|; infinite at the poles 0, -1, ..."""
    return np.asarray(_lgamma(x)).astype(np.float64)


@np.errstate(all="ignore")
def digamma(x: Array) -> Array:
    """Return the derivative of log gamma; NaN at the poles, as in XLA.

    The recurrence raises the argument to 12, where the asymptotic series applies. This is faster than SciPy's
    function.
    """
    x = x.astype(np.float64)
    reflected = x < 0.5
    pole = (x <= 0) & (x == np.floor(x))
    y = np.where(reflected, 1 - x, x)
    total = np.zeros(x.shape)
    for _ in range(int(_SHIFT)):
        small = y < _SHIFT
        total = total - np.where(small, 1 / y, 0)
        y = np.where(small, y + 1, y)
    series = sum(b / (2 * k * y ** (2 * k)) for k, b in enumerate(_BERNOULLI, 1))
    total = total + np.log(y) - 0.5 / y - series
    # tan has period pi: subtracting the nearest integer first makes its argument exact.
    total = np.where(reflected, total - np.pi / np.tan(np.pi * (x - np.rint(x))), total)
    return np.where(pole, np.nan, total)


def zeta(s: Array, q: Array) -> Array:
    """Return Hurwitz's zeta, the sum of (q + k)^-s over k >= 0, by the Euler-Maclaurin formula.

    As in XLA: infinite for s = 1, and at a pole (q = 0, -1, ...) for even s. NaN for s < 1, at a pole for other
    s, and for q < 0 with a non-integer s.
    """
    s, q = np.broadcast_arrays(s.astype(np.float64), q.astype(np.float64))
    terms = int(np.clip(np.ceil(_SHIFT - np.min(q, initial=0.0, where=np.isfinite(q))), _SHIFT, 1000))
    total = sum((np.power(q + k, -s) for k in range(terms)), np.zeros(s.shape))
    end = q + terms
    total = total + np.power(end, 1 - s) / (s - 1) + 0.5 * np.power(end, -s)
    rising = s
    for k, b in enumerate(_BERNOULLI, 1):
        total = total + b / math.factorial(2 * k) * rising * np.power(end, -s - 2 * k + 1)
        rising = rising * (s + 2 * k - 1) * (s + 2 * k)
    pole = (q <= 0) & (q == np.floor(q))
    total = np.where(pole, np.where(np.mod(s, 2) == 0, np.inf, np.nan), total)
    outside = (s < 1) | ((q <= 0) & (s != np.floor(s)))
    return np.where(s == 1, np.inf, np.where(outside, np.nan, total))


def polygamma(n: Array, x: Array) -> Array:
    """Return the n-th derivative of digamma; NaN if n is negative or not an integer."""
    n, x = np.broadcast_arrays(n.astype(np.float64), x.astype(np.float64))
    sign = np.where(np.mod(n, 2) == 1, 1.0, -1.0)
    higher = sign * np.exp(lgamma(n + 1)) * zeta(n + 1, x)
    valid = (n >= 0) & (n == np.floor(n))
    return np.where(valid, np.where(n == 0, digamma(x), higher), np.nan)


def bessel_i1e(x: Array) -> Array:
    """Return exp(-|x|) I1(x), with the sign of x also for a zero."""
    return np.copysign(_i1e(x), x)


@by_scipy("i1e")
def _i1e(x: Array) -> Array:
    """Compute `bessel_i1e` from the integral over a period of exp(|x| (cos t - 1)) cos t, or from a series.

    The trapezoidal rule converges faster than any power for a periodic integrand. For |x| < 1, where the
    integral cancels, the power series of I1 is used; for |x| >= 60 the asymptotic series.
    """
    size = np.abs(x)
    low = np.minimum(size, 1.0)
    quarter, power, near = low**2 / 4, np.ones(x.shape), np.ones(x.shape)
    for k in range(1, 12):
        power = power * quarter / (k * (k + 1))
        near = near + power
    small = np.minimum(size, 60.0)
    nodes = np.arange(96) * (2 * np.pi / 96)
    total = sum((np.exp(small * (np.cos(t) - 1)) * np.cos(t) for t in nodes), np.zeros(x.shape)) / 96
    large = np.maximum(size, 60.0)
    term, series = np.ones(x.shape), np.ones(x.shape)
    for k in range(1, 12):
        term = term * -(4 - (2 * k - 1) ** 2) / (k * 8 * large)
        series = series + term
    middle = np.where(size < 60, total, series / (np.sqrt(2 * np.pi) * np.sqrt(large)))
    return np.copysign(np.where(size < 1, np.exp(-low) * low / 2 * near, middle), x)
