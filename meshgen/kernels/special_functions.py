"""Triton functions for rarely used math, only in double precision; see `functions.py`.

Kernels convert other operands to f64 and round the result once, which is correct to the last place. On
devices whose f64 rate is half of their f32 rate, such a kernel is still bound by memory.
"""

from __future__ import annotations

from collections.abc import Sequence

# The polynomials below are least-squares fits of the relative error at Chebyshev points, highest power first. The first
# two fit (1 + 2x) exp(x^2) erfc(x) in the variable (x - 3) / (x + 3): for x from 0.5 to 10.1 with error 5e-10, and up
# to 28 with error 2e-15.
_ERFC_F32 = (
    -0.000189560942, -0.000696416577, 0.00195606496, 0.00250864633, -0.0237891701, 0.068310289, -0.119271545,
    0.129645053, -0.047562379, -0.135621104, 1.25300806,
)  # fmt: skip
_ERFC_F64 = (
    1.2107270172899954e-08, 6.87560739670197e-08, -9.480093350487159e-08, -5.760306481104192e-07, 3.159501677871963e-07,
    3.442028198248384e-06, -7.095216936176387e-07, -2.00856906087811e-05, 4.941856810085765e-06, 0.00012509451930121194,
    -0.00010515808574236567, -0.0007798312493913265, 0.0018886901206270391, 0.002529391681455177, -0.02377051490058419,
    0.06830802735411991, -0.11927366341580203, 0.12964515870238222, -0.04756229435345889, -0.1356211061245759,
    1.25300805826973,
)  # fmt: skip
# Polynomial for exp(-x) I1(x) / x in the variable x / 4 - 1: for x from 0 to 8, with error 1.2e-14.
_I1_NEAR = (
    -1.4618991545597928e-08, 6.16285360986913e-08, -1.191997973314706e-07, 3.0596482211274346e-07, -1.1207628399997116e-06,
    3.4072123773927815e-06, -9.173713052056235e-06, 2.411890750952757e-05, -6.137678732871975e-05, 0.00014849814283704547,
    -0.0003412106254794495, 0.0007444776962643733, -0.0015388582910097932, 0.003005772873319874, -0.005534572789908373,
    0.009583960094449258, -0.015571308294957517, 0.023686017207079982, -0.033671355629802474, 0.04467457260461287,
    -0.05528003922038428, 0.0637674037138653, -0.06848260620598844, 0.06805759990951003, -0.06112433802966566,
    0.0446877098756089,
)  # fmt: skip
# Polynomial for exp(-x) I1(x) sqrt(x) in the variable 16 / x - 1: for x from 8 on, with error 2e-15.
_I1_FAR = (
    8.879516383980938e-11, -2.469249527750282e-10, -6.718605010947184e-10, 1.4523984791287087e-09, 2.6064061530305076e-09,
    -3.620531766300634e-09, -7.080239302772797e-09, 3.4529184845863215e-09, 1.3784822602700876e-08, 7.70846675981441e-09,
    -8.357457341612998e-09, -2.3611053969470285e-08, -4.314117571127584e-08, -9.997895703375216e-08, -3.4838444734650766e-07,
    -1.8349126343415293e-06, -1.503854724916138e-05, -0.00021923576376186755, -0.009749577193235165, 0.38939845902587167,
)  # fmt: skip
# Bernoulli numbers B2, B4, ... for the asymptotic series below, which are accurate to double precision from 12 on.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
ZETA_TERMS = 24  # number of terms of zeta summed before the asymptotic series; sufficient for q from -12 on


def _horner(result: str, of: str, coefficients: Sequence[float]) -> str:
    """Return lines that evaluate a polynomial of `of` by Horner's scheme."""
    first, second, *rest = coefficients
    lines = [
        f"{result} = {first!r} * {of} + {second!r}",
        *(f"{result} = {result} * {of} + {coefficient!r}" for coefficient in rest),
    ]
    return "\n    ".join(lines)


def _series(factors: Sequence[float]) -> tuple[float, ...]:
    """Return the coefficients of a series in 1 / y^2 without a constant term, the highest power first."""
    return (*reversed(factors), 0.0)


_DIGAMMA = _series([b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)])
_LGAMMA = tuple(reversed([b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]))

SPECIAL: dict[str, str] = {
    "erfc_f32": f'''
@triton.jit
def erfc_f32(x):
    """Return 1 - erf(x) to 4 ulp, far from 0 as a polynomial times exp(-x^2), corrected for the rounding of x^2."""
    a = tl.minimum(tl.abs(x), 30.0)
    t = (a - 3) / (a + 3)
    {_horner("p", "t", _ERFC_F32)}
    s = a * a
    e = accurate_exp(s * -1.0)
    far = (e - e * tl.fma(a, a, s * -1.0)) * (p / (1 + 2 * a))
    r = tl.where(a < 0.5, 1 - tl.erf(x), tl.where(x < 0, 2 - far, far))
    return tl.where(x == x, r, x)
''',
    "erfc_f64": f'''
@triton.jit
def erfc_f64(x):
    """Return 1 - erf(x), far from 0 as in `erfc_f32`, but with x^2 split into an exact part and a remainder."""
    a = tl.minimum(tl.abs(x), 30.0)
    t = (a - 3) / (a + 3)
    {_horner("p", "t", _ERFC_F64)}
    high = a.to(tl.float32).to(tl.float64)
    e = tl.exp(high * high * -1.0) * tl.exp((a - high) * (a + high) * -1.0)
    far = e * (p / (1 + 2 * a))
    r = tl.where(a < 0.5, 1 - tl.erf(x), tl.where(x < 0, 2 - far, far))
    return tl.where(x == x, r, x)
''',
    "sinh": '''
@triton.jit
def sinh(x):
    """Return sinh(x), far from 0 by the square of exp(x / 2), which does not overflow before the result."""
    a = tl.abs(x)
    e = expm1(tl.minimum(a, 30.0))
    h = tl.exp(a * 0.5)
    r = tl.where(a < 20, 0.5 * (e + e / (e + 1)), 0.5 * h * h)
    return tl.where(x < 0, r * -1.0, tl.where(a > 0, r, x))
''',
    "cosh": '''
@triton.jit
def cosh(x):
    """Return cosh(x), by the square of exp(x / 2)."""
    h = tl.exp(tl.abs(x) * 0.5)
    return 0.5 * h * h + 0.5 / h / h
''',
    "asinh": '''
@triton.jit
def asinh(x):
    """Return log(|x| + sqrt(x^2 + 1)) with the sign of x, without cancellation."""
    a = tl.abs(x)
    s = tl.minimum(a, 1e8)
    near = log1p(s + s * s / (1 + tl.sqrt(s * s + 1)))
    r = tl.where(a < 1e8, near, tl.log(a) + 0.6931471805599453)
    return tl.where(x < 0, r * -1.0, tl.where(a > 0, r, x))
''',
    "acosh": '''
@triton.jit
def acosh(x):
    """Return log(x + sqrt(x^2 - 1)), without cancellation near 1."""
    t = x - 1
    near = log1p(t + tl.sqrt(t * (t + 2)))
    return tl.where(x < 1, float("nan"), tl.where(x < 1e8, near, tl.log(x) + 0.6931471805599453))
''',
    "atanh": '''
@triton.jit
def atanh(x):
    """Return log((1 + x) / (1 - x)) / 2."""
    a = tl.abs(x)
    r = 0.5 * log1p(2 * a / (1 - a))
    return tl.where(x < 0, r * -1.0, tl.where(a > 0, r, x))
''',
    "asin": '''
@triton.jit
def asin(x):
    """Return the angle of (sqrt(1 - x^2), x)."""
    return arc_tangent_f64(x, tl.sqrt((1 - x) * (1 + x)))
''',
    "acos": '''
@triton.jit
def acos(x):
    """Return the angle of (x, sqrt(1 - x^2))."""
    return arc_tangent_f64(tl.sqrt((1 - x) * (1 + x)), x)
''',
    "lgamma": f'''
@triton.jit
def lgamma(x):
    """Return log |gamma(x)|, by Stirling's series from 12 on, recurrence below, and reflection below 0.5."""
    reflected = x < 0.5
    y = tl.where(reflected, 1 - x, x)
    product = y * 0 + 1
    z = y
    for _ in range(12):
        small = z < 12
        product = tl.where(small, product * z, product)
        z = tl.where(small, z + 1, z)
    w = 1 / (z * z)
    {_horner("p", "w", _LGAMMA)}
    r = ((z - 0.5) * (tl.log(z) - 1) + (p / z + 0.4189385332046727)) - tl.log(product)
    f = tl.abs(x - tl.floor(x + 0.5))
    mirrored = (1.1447298858494002 - tl.log(tl.sin(3.141592653589793 * f))) - r
    r = tl.where(reflected, mirrored, r)
    return tl.where((tl.abs(x) == float("inf")) | ((f == 0) & (x <= 0)), float("inf"), r)
''',
    "digamma": f'''
@triton.jit
def digamma(x):
    """Return the derivative of log gamma, by a series from 12 on, recurrence below, and reflection below 0.5."""
    reflected = x < 0.5
    y = tl.where(reflected, 1 - x, x)
    r = y * 0
    for _ in range(12):
        small = y < 12
        r = tl.where(small, r - 1 / y, r)
        y = tl.where(small, y + 1, y)
    w = 1 / (y * y)
    {_horner("p", "w", _DIGAMMA)}
    r = tl.where(y == float("inf"), y, r + tl.log(y) - 0.5 / y - p)
    f = x - tl.floor(x + 0.5)
    angle = 3.141592653589793 * f
    mirrored = r - 3.141592653589793 * tl.cos(angle) / tl.sin(angle)
    r = tl.where(reflected, mirrored, r)
    return tl.where((f == 0) & (x <= 0), float("nan"), r)
''',
    "zeta": f'''
@triton.jit
def zeta(s, q):
    """Return Hurwitz's zeta by the Euler-Maclaurin formula for q from -12 on, and NaN below."""
    s, q = tl.broadcast(s, q)
    total = q * 0
    end = q
    for _ in range({ZETA_TERMS}):
        total += power(end, s * -1.0)
        end += 1
    last = power(end, s * -1.0)
    total += last * (end / (s - 1) + 0.5)
    rising = s * last / end
    w = 1 / (end * end)
{{_zeta_series}}
    pole = (q <= 0) & (q == tl.floor(q))
    even = tl.floor(s * 0.5) * 2 == s
    total = tl.where(pole, tl.where(even, float("inf"), float("nan")), total)
    total = tl.where((s < 1) | ((q <= 0) & (s != tl.floor(s))) | (q < -12), float("nan"), total)
    total = tl.where((s > 1) & (q == float("inf")), 0.0, total)
    return tl.where((s == 1) & (q == q), float("inf"), total)
''',
    "polygamma": '''
@triton.jit
def polygamma(n, x):
    """Return the n-th derivative of digamma, or NaN if n is negative or not an integer."""
    n, x = tl.broadcast(n, x)
    r = tl.exp(lgamma(n + 1)) * zeta(n + 1, x)
    r = tl.where(tl.floor(n * 0.5) * 2 == n, r * -1.0, r)
    r = tl.where(n == 0, digamma(x), r)
    return tl.where((n >= 0) & (n == tl.floor(n)), r, float("nan"))
''',
    "bessel_i1e": f'''
@triton.jit
def bessel_i1e(x):
    """Return exp(-|x|) I1(x), by polynomials of x and of 1 / x."""
    a = tl.abs(x)
    t = tl.minimum(a, 8.0) * 0.25 - 1
    {_horner("near", "t", _I1_NEAR)}
    t = 16 / tl.maximum(a, 8.0) - 1
    {_horner("far", "t", _I1_FAR)}
    r = tl.where(a < 8, near * a, far / tl.sqrt(a))
    return tl.where(x < 0, r * -1.0, tl.where(a > 0, r, x))
''',
}


def _zeta_series() -> str:
    """Return lines that add the terms B2k / (2k)! s (s + 1) ... (s + 2k - 2) end^(-s - 2k + 1) of the asymptotic
    series of zeta.
    """
    lines, factorial = list[str](), 1.0
    for k, bernoulli_number in enumerate(_BERNOULLI, 1):
        factorial *= (2 * k - 1) * (2 * k)
        lines += [
            f"total += {bernoulli_number / factorial!r} * rising",
            f"rising = rising * (s + {2 * k - 1}) * (s + {2 * k}) * w",
        ]
    return "\n".join(f"    {line}" for line in lines[:-1])


SPECIAL["zeta"] = SPECIAL["zeta"].replace("{_zeta_series}", _zeta_series())
SPECIAL_NEEDS: dict[str, tuple[str, ...]] = {
    "erfc_f32": ("accurate_exp",), "sinh": ("expm1",), "asinh": ("log1p",), "acosh": ("log1p",), "atanh": ("log1p",),
    "asin": ("arc_tangent_f64",), "acos": ("arc_tangent_f64",), "zeta": ("power",),
    "polygamma": ("lgamma", "digamma", "zeta"),
}  # fmt: skip
