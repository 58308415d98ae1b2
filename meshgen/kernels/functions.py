"""Triton functions that generated kernels call, for math that Triton lacks without libdevice.

They are source text, because the module of each kernel contains a copy of the functions that it uses and
depends on nothing else.
"""

from __future__ import annotations

from meshgen.kernels.bit_functions import BIT_FUNCTIONS
from meshgen.kernels.exact_functions import EXACT
from meshgen.kernels.f32_functions import F32
from meshgen.kernels.special_functions import SPECIAL, SPECIAL_NEEDS

FUNCTIONS: dict[str, str] = {
    **BIT_FUNCTIONS,
    **EXACT,
    **F32,
    **SPECIAL,
    "tanh_f32": '''
@triton.jit
def tanh_f32(x):
    """Return tanh(x) to 2 ulp, near 0 by a polynomial (Cephes' tanhf): 1 - 2 / (exp(2x) + 1) cancels there."""
    s = x * x
    p = (((-5.70498872745e-3 * s + 2.06390887954e-2) * s - 5.37397155531e-2) * s + 1.33314422036e-1) * s - 3.33332819422e-1
    far = 2 * tl.sigmoid(2 * x) - 1
    return tl.where(tl.abs(x) < 0.625, p * s * x + x, far)
''',
    "expm1": '''
@triton.jit
def expm1(x):
    """Return exp(x) - 1 without cancellation (Kahan)."""
    u = tl.exp(x)
    near = tl.where(u == 1, x, (u - 1) * x / tl.log(tl.where((u == 1) | (u == 0), 2, u)))
    return tl.where(tl.abs(x) < 1, near, u - 1)
''',
    "log1p": '''
@triton.jit
def log1p(x):
    """Return log(1 + x) without cancellation (Kahan)."""
    u = 1 + x
    near = tl.where(u == 1, x, tl.log(u) * x / tl.where(u == 1, 1, u - 1))
    return tl.where(tl.abs(x) < 1, near, tl.log(u))
''',
    "tanh_f64": '''
@triton.jit
def tanh_f64(x):
    """Return tanh(x), computed from exp(-2|x|) - 1."""
    a = tl.abs(x)
    e = expm1(-2 * a)
    t = -e / (e + 2)
    return tl.where(x < 0, t * -1.0, t)
''',
    "cbrt": '''
@triton.jit
def cbrt(x):
    """Return the cube root, by one Newton step from exp(log(x) / 3)."""
    a = tl.abs(x)
    safe = tl.where(a == 0, 1, a)
    y = tl.exp(tl.log(safe) / 3)
    y = y - (y - safe / (y * y)) / 3
    y = tl.where((a == 0) | (a == float("inf")), a, y)
    return tl.where(x < 0, y * -1.0, y)
''',
    "round_even": '''
@triton.jit
def round_even(x, big):
    """Round to nearest, ties to even. Adding and subtracting `big` = 2^(mantissa bits) drops the fraction."""
    a = tl.abs(x)
    r = tl.where(a < big, (a + big) - big, a)
    return tl.where(x < 0, r * -1.0, r)
''',
    "round_away": '''
@triton.jit
def round_away(x):
    """Round to nearest, ties away from zero."""
    a = tl.abs(x)
    r = tl.floor(a)
    r = tl.where(a - r >= 0.5, r + 1, r)
    return tl.where(x < 0, r * -1.0, r)
''',
    "sign_of": '''
@triton.jit
def sign_of(x):
    """Return -1, 0 or 1, or NaN for NaN."""
    return tl.where(x > 0, x * 0 + 1, tl.where(x < 0, x * 0 - 1, x))
''',
    "sign_of_float": '''
@triton.jit
def sign_of_float(x):
    """Return -1, 0 or 1, or NaN for NaN. Unlike `sign_of`, this does not multiply infinity by 0."""
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, x))
''',
    "power": '''
@triton.jit
def power(x, y):
    """Return x ** y for floats as IEEE defines it. A negative base with a fractional exponent yields NaN."""
    x, y = tl.broadcast(x, y)
    a = tl.abs(x)
    r = tl.exp2(y * tl.log2(tl.where(a == 0, 1, a)))
    r = tl.where(a == 0, tl.where(y > 0, 0.0, float("inf")), r)
    r = tl.where(a == 1, 1.0, r)
    whole = tl.floor(y) == y
    odd = whole & (tl.floor(y * 0.5) * 2 != y)
    r = tl.where((x < 0) & (a != float("inf")) & (whole == 0), float("nan"), r)
    r = tl.where(is_negative(x) & odd, r * -1.0, r)
    r = tl.where((x != x) | (y != y), float("nan"), r)
    return tl.where((y == 0) | (x == 1), 1.0, r)
''',
    "integer_power": '''
@triton.jit
def integer_power(x, y):
    """Return x ** y for integers, by squaring. A negative exponent yields 0 unless x is -1 or 1."""
    r = x * 0 + y * 0 + 1
    base = x
    left = tl.where(y < 0, 0 - y, y)
    for _ in range(y.dtype.primitive_bitwidth):
        r = tl.where(left % 2 == 1, r * base, r)
        base = base * base
        left = left // 2
    inverse = tl.where(x == 1, x, tl.where(x + 1 == 0, tl.where(y % 2 == 0, x * x, x), x * 0))
    return tl.where(y < 0, inverse, r)
''',
    "erf_inv": '''
@triton.jit
def erf_inv(x):
    """Return the inverse error function in single precision (Giles, "Approximating the erfinv function", 2010)."""
    w = -tl.log((1 - x) * (1 + x))
    c = w - 2.5
    p = 2.81022636e-08 * c + 3.43273939e-07
    p = p * c - 3.5233877e-06
    p = p * c - 4.39150654e-06
    p = p * c + 0.00021858087
    p = p * c - 0.00125372503
    p = p * c - 0.00417768164
    p = p * c + 0.246640727
    p = p * c + 1.50140941
    t = tl.sqrt(tl.maximum(w, 5.0)) - 3
    q = -0.000200214257 * t + 0.000100950558
    q = q * t + 0.00134934322
    q = q * t - 0.00367342844
    q = q * t + 0.00573950773
    q = q * t - 0.0076224613
    q = q * t + 0.00943887047
    q = q * t + 1.00167406
    q = q * t + 2.83297682
    r = tl.where(w < 5, p, q) * x
    r = tl.where(tl.abs(x) == 1, x * float("inf"), r)
    return tl.where(tl.abs(x) > 1, float("nan"), r)
''',
    "erf_inv_f64": '''
@triton.jit
def erf_inv_f64(x):
    """Refine `erf_inv` by Newton steps: on erf, or near 1 on log(erfc) as a continued fraction."""
    a = tl.abs(x)
    near = a < 0.96
    safe = tl.where(a < 1, a, 0.5)
    r = erf_inv(safe)
    q = tl.log(1 - tl.where(near, 0.5, safe))
    for _ in range(4):
        step = (tl.erf(r) - safe) * 0.886226925452758 * tl.exp(tl.where(near, r * r, 0.0))
        far = tl.where(near, 2.0, r)
        t = far
        for n in range(120):
            t = far + (120 - n) * 0.5 / t
        r = tl.where(near, r - step, r - (far * far + tl.log(1.772453850905516 * t) + q) / (2 * t))
    r = tl.where(a < 1, r, erf_inv(a))
    return tl.where(x < 0, r * -1.0, r)
''',
    "is_negative": '''
@triton.jit
def is_negative(x):
    """Whether the sign bit is set, also for -0."""
    return (x < 0) | ((x == 0) & (1 / x < 0))
''',
    "steepness": '''
@triton.jit
def steepness(y, x):
    """Return the smaller of |x| and |y| over the larger, or NaN if either is NaN."""
    a = tl.abs(x)
    b = tl.abs(y)
    low = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    high = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    return tl.where(high == 0, low, tl.where(low == high, 1.0, low / tl.where(high == 0, 1.0, high)))
''',
    "octant": '''
@triton.jit
def octant(t):
    """Return atan(t) for t from 0 to 1 in single precision, by a polynomial (Cephes' atanf)."""
    steep = t > 0.4142135623730950
    z = tl.where(steep, (t - 1) / (t + 1), t)
    s = z * z
    p = ((8.05374449538e-2 * s - 1.38776856032e-1) * s + 1.99777106478e-1) * s - 3.33329491539e-1
    r = p * s * z + z
    return tl.where(steep, r + 0.7853981633974483, r)
''',
    "around": '''
@triton.jit
def around(r, y, x):
    """Return the angle of (x, y), given the angle `r` in its octant."""
    r = tl.where(tl.abs(y) > tl.abs(x), 1.5707963267948966 - r, r)
    r = tl.where(is_negative(x), 3.141592653589793 - r, r)
    return tl.where(is_negative(y), r * -1.0, r)
''',
    "arc_tangent": '''
@triton.jit
def arc_tangent(y, x):
    """Return the angle of (x, y) in single precision."""
    return around(octant(steepness(y, x)), y, x)
''',
    "arc_tangent_f64": '''
@triton.jit
def arc_tangent_f64(y, x):
    """Return the angle of (x, y): the single-precision angle, plus that of (x, y) rotated back by it."""
    t = steepness(y, x)
    r = octant(t)
    c = tl.cos(r)
    s = tl.sin(r)
    return around(r + (t * c - s) / (c + t * s), y, x)
''',
    "saturated": '''
@triton.jit
def saturated(x, low, high):
    """Clamp x to [low, high]. NaN becomes 0."""
    return tl.where(x == x, tl.minimum(tl.maximum(x, low), high), 0.0)
''',
    "to_f8e4m3fn": '''
@triton.jit
def to_f8e4m3fn(x):
    """Round to 8 bits. Results above 448 become NaN (a device's conversion saturates)."""
    return tl.where(tl.abs(x) > 464.0, float("nan"), x).to(tl.float8e4nv)
''',
    "to_f8e5m2": '''
@triton.jit
def to_f8e5m2(x):
    """Round to 8 bits. Results above 57344 become infinite (a device's conversion saturates)."""
    bits = x.to(tl.float8e5).to(tl.uint8, bitcast=True)
    infinite = tl.where(x < 0, 252, 124).to(tl.uint8)
    return tl.where(tl.abs(x) >= 61440.0, infinite, bits).to(tl.float8e5, bitcast=True)
''',
    "signed_quotient": '''
@triton.jit
def signed_quotient(x, y):
    """Return x / y rounded toward 0, or -1 for y = 0."""
    plain = (y != 0) & (y != -1)
    r = x // tl.where(plain, y, y * 0 + 1)
    return tl.where(y == 0, x * 0 - 1, tl.where(y == -1, 0 - x, r))
''',
    "signed_remainder": '''
@triton.jit
def signed_remainder(x, y):
    """Return x - y * (x / y) with the sign of x, or x for y = 0."""
    plain = (y != 0) & (y != -1)
    r = x % tl.where(plain, y, y * 0 + 1)
    return tl.where(y == 0, x, r)
''',
    "unsigned_quotient": '''
@triton.jit
def unsigned_quotient(x, y):
    """Return x / y rounded down, or the integer with all bits set for y = 0."""
    return tl.where(y == 0, x * 0 - 1, x // tl.where(y == 0, y + 1, y))
''',
    "unsigned_remainder": '''
@triton.jit
def unsigned_remainder(x, y):
    """Return x - y * (x / y), or x for y = 0."""
    return tl.where(y == 0, x, x % tl.where(y == 0, y + 1, y))
''',
    "nan_maximum": '''
@triton.jit
def nan_maximum(a, b):
    """Return the maximum, or NaN if an operand is NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "nan_minimum": '''
@triton.jit
def nan_minimum(a, b):
    """Return the minimum, or NaN if an operand is NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "product": """
@triton.jit
def product(a, b):
    return a * b
""",
    "both": """
@triton.jit
def both(a, b):
    return a & b
""",
    "either": """
@triton.jit
def either(a, b):
    return a | b
""",
}
# For each function, the functions that it calls.
NEEDS: dict[str, tuple[str, ...]] = {
    **SPECIAL_NEEDS, "accurate_expm1": ("accurate_exp",), "accurate_logistic": ("accurate_exp",), "float_remainder": ("is_negative",),
    "popcount_64": ("popcount",), "high_half": ("high_half_unsigned",),
    "tanh_f64": ("expm1",), "power": ("is_negative",), "erf_inv_f64": ("erf_inv",), "around": ("is_negative",),
    "arc_tangent": ("steepness", "octant", "around"), "arc_tangent_f64": ("steepness", "octant", "around"),
}  # fmt: skip
