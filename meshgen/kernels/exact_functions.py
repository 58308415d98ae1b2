"""Triton functions with exact results; see `functions.py`."""

from __future__ import annotations

EXACT: dict[str, str] = {
    "next_after": '''
@triton.jit
def next_after(x, y, integers: tl.constexpr):
    """Return the float next to x in the direction of y: the bits without the sign count the floats from 0."""
    x, y = tl.broadcast(x, y)
    bits = x.to(integers, bitcast=True)
    one = bits * 0 + 1
    moved = tl.where((y > x) == (x > 0), bits + one, bits - one)
    least = tl.where(y < 0, (one << (integers.primitive_bitwidth - 1)) + one, one)
    r = tl.where(x == 0, least, moved).to(x.dtype, bitcast=True)
    r = tl.where(x == y, y, r)
    return tl.where((x != x) | (y != y), float("nan"), r)
''',
    "float_remainder": '''
@triton.jit
def float_remainder(x, y, bits: tl.constexpr, steps: tl.constexpr):
    """Return x - y * trunc(x / y), exact for every quotient. Computes `bits` of it at a time, the high ones first.

    Scales |y| by powers of 2^bits up to the largest multiple that is not above |x|, and down again.
    """
    x, y = tl.broadcast(x, y)
    a = tl.abs(x)
    b = tl.abs(y)
    s = b
    for _ in range(steps):
        t = s * bits
        s = tl.where(t <= a, t, s)
    for _ in range(steps + 1):
        q = tl.floor(a / s)
        r = tl.fma(q * -1.0, s, a)
        r = tl.where(r < 0, r + s, r)
        r = tl.where(r >= s, r - s, r)
        a = tl.where(a >= s, r, a)
        s = tl.where(s > b, s / bits, s)
    a = tl.where((tl.abs(x) == float("inf")) | (b == 0) | (x != x) | (y != y), float("nan"), a)
    a = tl.where((b == float("inf")) & (tl.abs(x) < float("inf")), tl.abs(x), a)
    return tl.where(is_negative(x), a * -1.0, a)
''',
}
