"""Triton functions on the bits of numbers: counting, ordering, and rounding to other formats."""

from __future__ import annotations

BIT_FUNCTIONS: dict[str, str] = {
    "popcount": '''
@triton.jit
def popcount(x):
    """Return the number of set bits of an unsigned 32-bit integer."""
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x * 0x01010101) >> 24
''',
    "smear": '''
@triton.jit
def smear(x):
    """Set all bits below the highest set bit of an unsigned 32-bit integer."""
    x = x | (x >> 1)
    x = x | (x >> 2)
    x = x | (x >> 4)
    x = x | (x >> 8)
    return x | (x >> 16)
''',
    "popcount_64": '''
@triton.jit
def popcount_64(x):
    """Return the number of set bits of an unsigned 64-bit integer."""
    return popcount((x >> 32).to(tl.uint32)) + popcount(x.to(tl.uint32))
''',
    "smear_64": '''
@triton.jit
def smear_64(x):
    """Set all bits below the highest set bit of an unsigned 64-bit integer."""
    x = x | (x >> 1)
    x = x | (x >> 2)
    x = x | (x >> 4)
    x = x | (x >> 8)
    x = x | (x >> 16)
    return x | (x >> 32)
''',
    "total_order": '''
@triton.jit
def total_order(x):
    """Return an integer per f32, ordered as IEEE's totalOrder: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    bits = x.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)
''',
    "total_order_f64": '''
@triton.jit
def total_order_f64(x):
    """Return an integer per f64, ordered as IEEE's totalOrder."""
    bits = x.to(tl.int64, bitcast=True)
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)
''',
    "comes_first": '''
@triton.jit
def comes_first(a, b):
    """Return 1 where `a` comes before `b` in descending order, else 0."""
    return (a > b).to(tl.int32)
''',
    "shortened": '''
@triton.jit
def shortened(bits, sign, dropped, greatest, least, infinity):
    """Round off the last `dropped` mantissa bits of a float: 0 below `least`, infinity above `greatest`."""
    one = bits * 0 + 1
    lower = bits & ((one << sign) - 1)
    last = tl.where(dropped > 0, (lower >> dropped) & 1, 0)
    kept = (lower + ((one << dropped) >> 1) - tl.where(dropped > 0, 1, 0) + last) & -(one << dropped)
    kept = tl.where(kept > greatest, infinity, tl.where(kept < least, 0, kept))
    return kept.to(bits.dtype) | (bits & (one << sign))
''',
    "high_half_unsigned": '''
@triton.jit
def high_half_unsigned(a, b):
    """Return the upper 64 bits of the product of unsigned 64-bit integers, from halves of 32 bits."""
    low, high = a & 0xFFFFFFFF, a >> 32
    low_b, high_b = b & 0xFFFFFFFF, b >> 32
    middle = high * low_b + ((low * low_b) >> 32)
    other = low * high_b + (middle & 0xFFFFFFFF)
    return high * high_b + (middle >> 32) + (other >> 32)
''',
    "high_half": '''
@triton.jit
def high_half(a, b):
    """Return the upper 64 bits of a signed product. As an unsigned integer, a negative factor is 2^64 larger."""
    whole = high_half_unsigned(a.to(tl.uint64), b.to(tl.uint64)).to(tl.int64)
    return whole - tl.where(a < 0, b, 0) - tl.where(b < 0, a, 0)
''',
}
"""Source of each function, by name."""
