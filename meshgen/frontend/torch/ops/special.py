"""PyTorch special functions: Bessel and gamma functions, normal quantiles, orthogonal polynomials.

Bessel functions and quantiles are piecewise polynomials; `special_fits.py` has the coefficients, ranges and errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from meshgen.frontend.torch.ops import special_fits as fits
from meshgen.frontend.torch.ops.elementwise import bessel_i1e, sinc
from meshgen.frontend.torch.ops.table import enter_rows
from meshgen.frontend.torch.promotion import floats, promoted, rounded_once
from meshgen.frontend.tracer import control_flow, elementwise, logic, rounding
from meshgen.frontend.tracer.operands import broadcast, convert, tensor
from meshgen.frontend.tracer.recording import OPS
from meshgen.frontend.tracer.tensor import Operand, Tensor

_Function = Callable[[Tensor], Tensor]


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    value = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value


def _rational(x: Tensor, sides: tuple[Sequence[float], Sequence[float]]) -> Tensor:
    return _polynomial(x, sides[0]) / _polynomial(x, sides[1])


def bessel_i0e(x: Tensor) -> Tensor:
    """Return exp(-|x|) I0(x), with the modified Bessel function I0 of the first kind."""
    x = elementwise.abs_(x)
    near, far = elementwise.minimum(x, 8.0), elementwise.maximum(x, 8.0)
    tail = _polynomial(16 / far - 1, fits.I0_FAR) * elementwise.rsqrt(far)
    return logic.where(x > 8, tail, _polynomial(near / 4 - 1, fits.I0_NEAR))


def bessel_i0(x: Tensor) -> Tensor:
    return bessel_i0e(x) * elementwise.exp(elementwise.abs_(x))


def _bessel_k(x: Tensor, near: _Function, far: Sequence[float], is_scaled: bool) -> Tensor:
    """Return the modified Bessel function K of order 0 or 1, or exp(x) K(x) if `is_scaled`. It is NaN for negative `x`.

    `near` computes K for x <= 2; `far` has the coefficients for larger x.
    """
    small, large = logic.where(x > 0, elementwise.minimum(x, 2.0), 2.0), elementwise.maximum(x, 2.0)
    first, tail = near(small), _polynomial(4 / large - 1, far) * elementwise.rsqrt(large)
    first, tail = (first * elementwise.exp(small), tail) if is_scaled else (first, tail * elementwise.exp(-large))
    value = logic.where(x > 2, tail, first)
    return logic.where(x > 0, value, logic.where(x == 0, math.inf, math.nan))


def _k0(x: Tensor) -> Tensor:
    return _polynomial(x * x / 2 - 1, fits.K0_NEAR) - elementwise.log(x / 2) * bessel_i0(x)


def _k1(x: Tensor) -> Tensor:
    return _polynomial(x * x / 2 - 1, fits.K1_NEAR) / x + elementwise.log(x / 2) * bessel_i1e(x) * elementwise.exp(x)


def _waves(x: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Return the Bessel functions J and Y of order 0 or 1 for x >= 8."""
    x = elementwise.maximum(x, 8.0)
    square = 128 / (x * x) - 1
    even, odd = ((fits.P0, fits.Q0), (fits.P1, fits.Q1))[order]
    first, second = _polynomial(square, even), _polynomial(square, odd) * 8 / x
    # Computing x - pi / 4 would lose digits of a large x, so its cos and sin are computed from cos(x) and sin(x).
    cos, sin, sign = OPS["cos"](x), OPS["sin"](x), 1 - 2 * order
    near, far = sign * cos + sin, sign * sin - cos
    shift = elementwise.rsqrt(x * math.pi)
    return (first * near - second * far) * shift, (first * far + second * near) * shift


def _bessel_j(x: Tensor, order: int) -> Tensor:
    magnitude = elementwise.abs_(x)
    small = elementwise.minimum(magnitude, 8.0)
    near = _polynomial(small * small / 32 - 1, (fits.J0_NEAR, fits.J1_NEAR)[order])
    value = logic.where(magnitude > 8, _waves(magnitude, order)[0], near * small if order else near)
    return logic.where(x < 0, -value, value) if order else value


def _bessel_y(x: Tensor, order: int) -> Tensor:
    """Return the Bessel function Y of order 0 or 1. It is minus infinity at 0 and NaN for negative `x`."""
    small = logic.where(x > 0, elementwise.minimum(x, 8.0), 8.0)
    rest, log = _polynomial(small * small / 32 - 1, (fits.Y0_NEAR, fits.Y1_NEAR)[order]), elementwise.log(small)
    product = log * _bessel_j(small, order)
    near = (product - 1 / small) * (2 / math.pi) + rest * small if order else product * (2 / math.pi) + rest
    value = logic.where(x > 8, _waves(x, order)[1], near)
    return logic.where(x > 0, value, logic.where(x == 0, -math.inf, math.nan))


def erfcx(x: Tensor) -> Tensor:
    """Return exp(x^2) erfc(x)."""
    large, small = elementwise.maximum(x, 0.5), elementwise.minimum(x, 0.5)
    far = _polynomial((7 * (large - 3) / (large + 3) - 1) / 6, fits.ERFCX) / (1 + 2 * large)
    return logic.where(x > 0.5, far, elementwise.exp(small * small) * OPS["erfc"](small))


def ndtri(p: Tensor) -> Tensor:
    """Return the quantile of the standard normal distribution."""
    middle = p - 0.5
    center = middle * _rational(0.180625 - middle * middle, fits.CENTER)
    root = elementwise.sqrt(-elementwise.log(elementwise.minimum(p, 1 - p)))
    tail = logic.where(root > 5, _rational(root - 5, fits.FAR_TAIL), _rational(root - 1.6, fits.TAIL))
    tail = logic.where(root == math.inf, math.inf, tail)
    return logic.where(elementwise.abs_(middle) <= 0.425, center, logic.where(middle < 0, -tail, tail))


enter_rows({
    "special_i0e": bessel_i0e,
    "i0 special_i0 special_modified_bessel_i0": bessel_i0,
    "special_i1 special_modified_bessel_i1": lambda x: bessel_i1e(x) * elementwise.exp(elementwise.abs_(x)),
    "special_modified_bessel_k0": lambda x: _bessel_k(x, _k0, fits.K0_FAR, is_scaled=False),
    "special_modified_bessel_k1": lambda x: _bessel_k(x, _k1, fits.K1_FAR, is_scaled=False),
    "special_scaled_modified_bessel_k0": lambda x: _bessel_k(x, _k0, fits.K0_FAR, is_scaled=True),
    "special_scaled_modified_bessel_k1": lambda x: _bessel_k(x, _k1, fits.K1_FAR, is_scaled=True),
    "special_bessel_j0": lambda x: _bessel_j(x, 0),
    "special_bessel_j1": lambda x: _bessel_j(x, 1),
    "special_bessel_y0": lambda x: _bessel_y(x, 0),
    "special_bessel_y1": lambda x: _bessel_y(x, 1),
    "special_spherical_bessel_j0": lambda x: sinc(x / math.pi),
    "special_erfcx": erfcx,
    "special_ndtri": ndtri,
}, rounded_once)  # fmt: skip


# The recurrence of a family of polynomials p: (k, x, p[k], p[k - 1]) -> p[k + 1].
_Recurrence = Callable[[Operand, Tensor, Tensor, Tensor], Tensor]
# All four kinds of Chebyshev polynomials have the same recurrence.
_CHEBYSHEV: _Recurrence = lambda k, x, now, before: 2 * x * now - before  # noqa: E731  # a table of formulas
_POLYNOMIALS: dict[str, tuple[_Function, _Recurrence]] = {
    "chebyshev_polynomial_t": (lambda x: x, _CHEBYSHEV),
    "chebyshev_polynomial_u": (lambda x: 2 * x, _CHEBYSHEV),
    "chebyshev_polynomial_v": (lambda x: 2 * x - 1, _CHEBYSHEV),
    "chebyshev_polynomial_w": (lambda x: 2 * x + 1, _CHEBYSHEV),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda k, x, now, before: 2 * x * now - 2 * k * before),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, now, before: x * now - k * before),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda k, x, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1)),
    "legendre_polynomial_p": (lambda x: x, lambda k, x, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1)),
}  # fmt: skip


def _by_recurrence(first: _Function, step: _Recurrence, is_shifted: bool) -> Callable[[Operand, Operand], Tensor]:
    """Return the function (x, degree) for a family of polynomials. The degree is a number or a tensor.

    `first` is the polynomial of degree 1; `step` computes the next degree. Shifted polynomials are defined on [0, 1].
    """

    def polynomial(x: Operand, n: Operand) -> Tensor:
        if isinstance(n, Tensor):
            return _by_degree_tensor(first, step, is_shifted, *promoted(x, n, floats=True))
        x = floats(x)
        x = 2 * x - 1 if is_shifted else x
        constant = x * 0 + 1
        if n < 1:
            return constant if n >= 0 else constant * 0
        previous, current = constant, first(x)
        for k in range(1, int(n)):
            previous, current = current, step(k, x, current, previous)
        return current

    return polynomial


# Polynomial degrees in a tensor must be below this number. Chosen: a loop with more iterations would take minutes.
_MAX_DEGREE = 2.0**31


def _by_degree_tensor(first: _Function, step: _Recurrence, is_shifted: bool, x: Tensor, n: Tensor) -> Tensor:
    """Evaluate the polynomial of degree `n[i]` at `x[i]` for each i.

    The loop over the degrees ends at the largest one. The result is NaN for degrees that are NaN, or 2^31 or more.
    """
    x = 2 * x - 1 if is_shifted else x
    is_degree = elementwise.abs_(n) < _MAX_DEGREE
    # The loop counter is an integer, because f32 cannot count beyond 2^24.
    degrees = convert(rounding.trunc(logic.where(is_degree, n, 0.0)), "i64")
    ones_ = x * 0 + 1

    def iterate(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        k, current, previous = state
        is_below = k < degrees
        following = step(convert(k, x.type.dtype), x, current, previous)
        return k + 1, logic.where(is_below, following, current), logic.where(is_below, current, previous)

    start = (tensor(1, "i64"), broadcast(first(x), x.shape), ones_)
    _, top, _ = control_flow.while_loop(lambda state: state[0] < degrees.max(), iterate, start)
    return logic.where(is_degree, logic.where(n < 0, 0.0, logic.where(degrees == 0, ones_, top)), math.nan)


for _name, (_first, _step) in _POLYNOMIALS.items():
    enter_rows({f"special_{_name}": _by_recurrence(_first, _step, is_shifted=False)})
    if _step is _CHEBYSHEV:
        enter_rows({f"special_shifted_{_name}": _by_recurrence(_first, _step, is_shifted=True)})


# A term of a sum in f64 that is relatively smaller than this has no effect: half a unit in the last place (IEEE 754).
_F64_EPSILON = 2.0**-53
# The shape `a` above which a normal approximation replaces the series, which needs 30,000 terms there. Chosen: the
# approximation then differs from SciPy by at most 1e-8.
_LARGE_SHAPE = 1e7


def _gamma_series(a: Tensor, x: Tensor, scale: Tensor) -> Tensor:
    """Return the regularized lower incomplete gamma function P(a, x) by its power series.

    The series converges quickly for x < a + 1.
    """

    def has_converging_term(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        return (state[1] > state[2] * _F64_EPSILON).any()

    def add_term(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        n, term, total = state
        term = term * x / n
        return n + 1, term, total + term

    ones_ = x * 0 + 1
    return scale / a * control_flow.while_loop(has_converging_term, add_term, (a + 1, ones_, ones_))[2]


def _gamma_fraction(a: Tensor, x: Tensor, scale: Tensor) -> Tensor:
    """Return the regularized upper incomplete gamma function Q(a, x) by its continued fraction (modified Lentz method).

    The fraction converges quickly for x > a + 1.
    """
    tiny = 1e-30

    def avoid_zero(value: Tensor) -> Tensor:
        return logic.where(elementwise.abs_(value) < tiny, tiny, value)

    def is_unconverged(state: tuple[Tensor, ...]) -> Tensor:
        return (state[0] < 500) & (elementwise.abs_(state[4] - 1) > _F64_EPSILON).any()

    def refine(state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        i, b, c, d, _, h = state
        factor = -i * (i - a)
        b = b + 2
        d = 1 / avoid_zero(factor * d + b)
        c = avoid_zero(b + factor / c)
        return i + 1, b, c, d, c * d, h * (c * d)

    b = x + 1 - a
    d = 1 / avoid_zero(b)
    start = (tensor(1.0, x.type.dtype), b, x * 0 + 1 / tiny, d, x * 0 + 2, d)
    return scale * control_flow.while_loop(is_unconverged, refine, start)[5]


def _gamma_of_large_shape(a: Tensor, x: Tensor, is_upper: bool) -> Tensor:
    """Return P(a, x), or Q(a, x) with `is_upper`, for a large shape `a`.

    A gamma-distributed number with shape a, divided by a, has a nearly normal cube root. Source: Wilson and Hilferty,
    PNAS 17, 1931.
    """
    root = elementwise.expm1(elementwise.log1p((x - a) / a) / 3)
    z = 3 * elementwise.sqrt(a) * (root + 1 / (9 * a))
    return 0.5 * OPS["erfc"]((z if is_upper else -z) * math.sqrt(0.5))


def _regularized_gamma(is_upper: bool) -> Callable[[Operand, Operand], Tensor]:
    """Return the regularized incomplete gamma function P(a, x), or with `is_upper` Q(a, x) = 1 - P(a, x).

    It computes in f64, because the terms in the exponent of x^a e^-x / gamma(a) are of the size of a and cancel.
    """

    def function(a: Operand, x: Operand) -> Tensor:
        narrow_a, narrow_x = promoted(a, x, floats=True)
        dtype, a, x = narrow_a.type.dtype, convert(narrow_a, "f64"), convert(narrow_x, "f64")
        is_ordinary = ((a > 0) & (x > 0)) & ((a < math.inf) & (x < math.inf))
        is_large = is_ordinary & (a > _LARGE_SHAPE)
        has_moderate_shape = is_ordinary & (a <= _LARGE_SHAPE)
        is_low = x < a + 1
        base, low = logic.where(has_moderate_shape, a, 1.0), logic.where(has_moderate_shape & is_low, x, 1.0)
        high = logic.where(has_moderate_shape & ~is_low, x, base + 2)
        point = logic.where(is_low, low, high)
        scale = elementwise.exp(base * elementwise.log(point) - point - OPS["lgamma"](base))
        lower, upper = _gamma_series(base, low, scale), _gamma_fraction(base, high, scale)
        value = logic.where(is_low, 1 - lower, upper) if is_upper else logic.where(is_low, lower, 1 - upper)
        at_zero, at_infinity = (1.0, 0.0) if is_upper else (0.0, 1.0)
        edge = logic.where((a == 0) & (x > 0), at_infinity, logic.where(x == 0, at_zero, math.nan))
        edge = logic.where((x == math.inf) & (a < math.inf), at_infinity, edge)
        edge = logic.where((a == math.inf) & (x < math.inf), at_zero, edge)
        is_valid = (a >= 0) & (x >= 0)
        is_valid = is_valid & ~((a == x) & ((a == 0) | (a == math.inf)))
        large = _gamma_of_large_shape(logic.where(is_large, a, 1.0), logic.where(is_large, x, 1.0), is_upper)
        edge = logic.where(is_valid, edge, math.nan)
        return convert(logic.where(has_moderate_shape, value, logic.where(is_large, large, edge)), dtype)

    return function


enter_rows({
    "igamma special_gammainc": _regularized_gamma(is_upper=False),
    "igammac special_gammaincc": _regularized_gamma(is_upper=True),
})  # fmt: skip
