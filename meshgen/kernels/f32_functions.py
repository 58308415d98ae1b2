"""Triton functions in single precision with an error of at most 4 ulp over the entire range; see `functions.py`.

The device's own functions are less accurate: `ex2.approx` of a rounded product is off by 20 ulp, and
several flush numbers below 2^-126 to 0.
"""

from __future__ import annotations

F32: dict[str, str] = {
    "accurate_exp": '''
@triton.jit
def accurate_exp(x):
    """Return exp(x) in single precision to 2 ulp. A factor corrects the rounding error of x log2(e).

    Devices flush results below 2^-126 to 0, so these are scaled.
    """
    t = tl.fma(x, 1.4426950216293335, 0.0)  # the compiler could contract a plain product with the sum below
    small = t < -100
    e = tl.exp2(tl.where(small, t + 64, t))
    lost = tl.fma(x, 1.4426950216293335, t * -1.0) + x * 1.925963033500e-8
    r = tl.where((e < float("inf")) & (x > -200), tl.fma(e, lost * 0.6931471805599453, e), e)
    return tl.where(small, r * 5.421010862427522e-20, r)
''',
    "accurate_expm1": '''
@triton.jit
def accurate_expm1(x):
    """Return exp(x) - 1 in single precision, without cancellation (Kahan)."""
    u = accurate_exp(x)
    near = tl.where(u == 1, x, (u - 1) * x / tl.log(tl.where((u == 1) | (u == 0), 2, u)))
    return tl.where(tl.abs(x) < 1, near, u - 1)
''',
    "accurate_logistic": '''
@triton.jit
def accurate_logistic(x):
    """Return 1 / (1 + exp(-x)) in single precision."""
    e = accurate_exp(tl.abs(x) * -1.0)
    return tl.where(x < 0, e, 1.0) / (1 + e)
''',
    "narrow_logistic": '''
@triton.jit
def narrow_logistic(x):
    """Return 1 / (1 + exp(-x)) for 16-bit results. Where exp(-x) may overflow, it is scaled and the 1 is left out."""
    small = x < -64
    e = tl.exp(tl.where(small, x + 44.3614195558365, x) * -1.0)
    return tl.where(small, 5.421010862427522e-20, 1.0) / (tl.where(small, 0.0, 1.0) + e)
''',
    "square_root": '''
@triton.jit
def square_root(x):
    """Return sqrt(x) in single precision. Devices flush operands below 2^-126 to 0, so these are scaled."""
    small = x < 1.1754943508222875e-38
    r = tl.sqrt(tl.where(small, x * 16777216.0, x))
    return tl.where(small, r * 0.000244140625, r)
''',
    "inverse_root": '''
@triton.jit
def inverse_root(x):
    """Return 1 / sqrt(x) in single precision, scaled as in `square_root`."""
    small = x < 1.1754943508222875e-38
    r = tl.rsqrt(tl.where(small, x * 16777216.0, x))
    return tl.where(small, r * 4096.0, r)
''',
    "sine": '''
@triton.jit
def sine(x):
    """Return sin(x) in single precision, x itself near 0: devices flush operands below 2^-126 to 0."""
    return tl.where(tl.abs(x) < 0.0001, x, tl.sin(x))
''',
    "error_function": '''
@triton.jit
def error_function(x):
    """Return erf(x) in single precision, linear near 0: devices flush operands below 2^-126 to 0."""
    return tl.where(tl.abs(x) < 0.0001, x * 1.1283791670955126, tl.erf(x))
''',
}
