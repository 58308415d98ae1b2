"""PyTorch's special functions: Bessel's, of the normal distribution, and orthogonal polynomials.

Each is a few polynomials, chosen by `where`; `special_fits.py` has what they approximate, where, and how well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from meshgen.frontend.torch.ops import special_fits as fits
from meshgen.frontend.torch.ops.elementwise import bessel_i1, bessel_i1e, sinc
from meshgen.frontend.torch.ops.table import enter
from meshgen.frontend.torch.promotion import floats, wide
from meshgen.frontend.tracer import elementwise, logic
from meshgen.frontend.tracer.operands import convert
from meshgen.frontend.tracer.recording import OPS
from meshgen.frontend.tracer.tensor import Operand, Tensor

_Function = Callable[[Tensor], Tensor]


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    found = x * coefficients[0] + coefficients[1]
    for each in coefficients[2:]:
        found = found * x + each
    return found


def _rational(x: Tensor, sides: tuple[Sequence[float], Sequence[float]]) -> Tensor:
    return _polynomial(x, sides[0]) / _polynomial(x, sides[1])


def _in_wide(*names: str) -> Callable[[_Function], _Function]:
    """Register a function that is computed in f32 at least, for arguments of any type."""

    def register(function: _Function) -> _Function:
        def rounded(x: Tensor) -> Tensor:
            found, dtype = wide(x)
            return convert(function(found), dtype)

        enter(names, rounded)
        return function

    return register


@_in_wide("special_i0e")
def bessel_i0e(x: Tensor) -> Tensor:
    """exp(-|x|) I0(x)."""
    x = elementwise.abs_(x)
    near, far = elementwise.minimum(x, 8.0), elementwise.maximum(x, 8.0)
    tail = _polynomial(16 / far - 1, fits.I0_FAR) * elementwise.rsqrt(far)
    return logic.where(x > 8, tail, _polynomial(near / 4 - 1, fits.I0_NEAR))


@_in_wide("i0", "special_i0", "special_modified_bessel_i0")
def bessel_i0(x: Tensor) -> Tensor:
    return bessel_i0e(x) * elementwise.exp(elementwise.abs_(x))


enter(("special_modified_bessel_i1",), bessel_i1)


def _bessel_k(x: Tensor, near: _Function, far: Sequence[float], is_scaled: bool) -> Tensor:
    """K of 0 or 1, or exp(x) K; NaN below 0."""
    small, large = logic.where(x > 0, elementwise.minimum(x, 2.0), 2.0), elementwise.maximum(x, 2.0)
    first, tail = near(small), _polynomial(4 / large - 1, far) * elementwise.rsqrt(large)
    first, tail = (first * elementwise.exp(small), tail) if is_scaled else (first, tail * elementwise.exp(-large))
    found = logic.where(x > 2, tail, first)
    return logic.where(x > 0, found, logic.where(x == 0, math.inf, math.nan))


def _k0(x: Tensor) -> Tensor:
    return _polynomial(x * x / 2 - 1, fits.K0_NEAR) - elementwise.log(x / 2) * bessel_i0(x)


def _k1(x: Tensor) -> Tensor:
    return _polynomial(x * x / 2 - 1, fits.K1_NEAR) / x + elementwise.log(x / 2) * bessel_i1e(x) * elementwise.exp(x)


def _of_kind(near: _Function, far: Sequence[float], is_scaled: bool) -> _Function:
    return lambda x: _bessel_k(x, near, far, is_scaled)


for _suffix, _near, _far in (("k0", _k0, fits.K0_FAR), ("k1", _k1, fits.K1_FAR)):
    _in_wide(f"special_modified_bessel_{_suffix}")(_of_kind(_near, _far, is_scaled=False))
    _in_wide(f"special_scaled_modified_bessel_{_suffix}")(_of_kind(_near, _far, is_scaled=True))


def _waves(x: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """J and Y of order 0 or 1 for x from 8 on."""
    x = elementwise.maximum(x, 8.0)
    square = 128 / (x * x) - 1
    even, odd = ((fits.P0, fits.Q0), (fits.P1, fits.Q1))[order]
    first, second = _polynomial(square, even), _polynomial(square, odd) * 8 / x
    # x - pi / 4 loses digits of a large x; cos and sin of it are of those of x.
    cos, sin, sign = OPS["cos"](x), OPS["sin"](x), 1 - 2 * order
    near, far = sign * cos + sin, sign * sin - cos
    shift = elementwise.rsqrt(x * math.pi)
    return (first * near - second * far) * shift, (first * far + second * near) * shift


def _bessel_j(x: Tensor, order: int) -> Tensor:
    size = elementwise.abs_(x)
    small = elementwise.minimum(size, 8.0)
    near = _polynomial(small * small / 32 - 1, (fits.J0_NEAR, fits.J1_NEAR)[order])
    found = logic.where(size > 8, _waves(size, order)[0], near * small if order else near)
    return logic.where(x < 0, -found, found) if order else found


def _bessel_y(x: Tensor, order: int) -> Tensor:
    """Minus infinity at 0, NaN below."""
    small = logic.where(x > 0, elementwise.minimum(x, 8.0), 8.0)
    rest, log = _polynomial(small * small / 32 - 1, (fits.Y0_NEAR, fits.Y1_NEAR)[order]), elementwise.log(small)
    product = log * _bessel_j(small, order)
    near = (product - 1 / small) * (2 / math.pi) + rest * small if order else product * (2 / math.pi) + rest
    found = logic.where(x > 8, _waves(x, order)[1], near)
    return logic.where(x > 0, found, logic.where(x == 0, -math.inf, math.nan))


def _of_order(function: Callable[[Tensor, int], Tensor], order: int) -> _Function:
    return lambda x: function(x, order)


for _order in (0, 1):
    _in_wide(f"special_bessel_j{_order}")(_of_order(_bessel_j, _order))
    _in_wide(f"special_bessel_y{_order}")(_of_order(_bessel_y, _order))


@_in_wide("special_spherical_bessel_j0")
def spherical_bessel_j0(x: Tensor) -> Tensor:
    """sin(x) / x."""
    return sinc(x / math.pi)


@_in_wide("special_erfcx")
def erfcx(x: Tensor) -> Tensor:
    """exp(x^2) erfc(x)."""
    large, small = elementwise.maximum(x, 0.5), elementwise.minimum(x, 0.5)
    far = _polynomial((7 * (large - 3) / (large + 3) - 1) / 6, fits.ERFCX) / (1 + 2 * large)
    return logic.where(x > 0.5, far, elementwise.exp(small * small) * OPS["erfc"](small))


@_in_wide("special_ndtri")
def ndtri(p: Tensor) -> Tensor:
    """The quantile of the normal distribution."""
    middle = p - 0.5
    centre = middle * _rational(0.180625 - middle * middle, fits.CENTRE)
    root = elementwise.sqrt(-elementwise.log(elementwise.minimum(p, 1 - p)))
    tail = logic.where(root > 5, _rational(root - 5, fits.FAR_TAIL), _rational(root - 1.6, fits.TAIL))
    tail = logic.where(root == math.inf, math.inf, tail)
    return logic.where(elementwise.abs_(middle) <= 0.425, centre, logic.where(middle < 0, -tail, tail))


_Step = Callable[[int, Tensor, Tensor, Tensor], Tensor]  # of p[k + 1] from k, x, p[k] and p[k - 1]
_CHEBYSHEV: _Step = lambda k, x, now, before: 2 * x * now - before  # noqa: E731  # a table of formulas
_POLYNOMIALS: dict[str, tuple[_Function, _Step]] = {
    "chebyshev_polynomial_t": (lambda x: x, _CHEBYSHEV),
    "chebyshev_polynomial_u": (lambda x: 2 * x, _CHEBYSHEV),
    "chebyshev_polynomial_v": (lambda x: 2 * x - 1, _CHEBYSHEV),
    "chebyshev_polynomial_w": (lambda x: 2 * x + 1, _CHEBYSHEV),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda k, x, now, before: 2 * x * now - 2 * k * before),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, now, before: x * now - k * before),
    "laguerre_polynomial_l": (lambda x: 1 - x, lambda k, x, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1)),
    "legendre_polynomial_p": (lambda x: x, lambda k, x, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1)),
}  # fmt: skip


def _by_recurrence(first: _Function, step: _Step, is_shifted: bool) -> Callable[[Operand, float], Tensor]:
    """The polynomial of a degree that is a number; shifted ones are on [0, 1]."""

    def polynomial(x: Operand, n: float) -> Tensor:
        x = floats(x)
        x = 2 * x - 1 if is_shifted else x
        one = x * 0 + 1
        if n < 1:
            return one if n >= 0 else one * 0
        before, now = one, first(x)
        for k in range(1, int(n)):
            before, now = now, step(k, x, now, before)
        return now

    return polynomial


for _name, (_first, _step) in _POLYNOMIALS.items():
    enter((f"special_{_name}.n_scalar",), _by_recurrence(_first, _step, is_shifted=False))
    if _step is _CHEBYSHEV:
        enter((f"special_shifted_{_name}.n_scalar",), _by_recurrence(_first, _step, is_shifted=True))
