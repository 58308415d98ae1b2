"""Evaluation of element-wise ops. Every function here broadcasts, so that a region can run on entire arrays.

Narrow floats are computed in f32 and rounded once per op. Where StableHLO leaves a result implementation-defined
(division by zero, conversions out of range), the result is the same as in XLA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from meshgen.ir.graph import DTYPES, Node, dtype_name, is_complex, is_float, is_inexact
from meshgen.ops.evaluate.bitcast import bitcast
from meshgen.ops.evaluate.common import Array, Handler, RunRegion, bits, integer_range, narrow, widen

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def sign(x: Array) -> Array:
    return np.where(x == 0, x, np.sign(x))  # Keep -0.0.


def rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def cbrt(x: Array) -> Array:
    return np.power(x, 1 / 3) if x.dtype.kind == "c" else np.cbrt(x)


def round_away(x: Array) -> Array:
    whole = np.trunc(x)  # Adding 0.5 instead would round 0.49999997 up.
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), np.copysign(whole, x))


def _unsigned(x: Array) -> Array:
    return x if x.dtype == np.bool_ else x.view(_UNSIGNED[x.dtype.itemsize])


def invert(x: Array) -> Array:
    return np.logical_not(x) if x.dtype == np.bool_ else np.invert(x)


def popcnt(node: Node, args: list[Array]) -> Array:
    raw = args[0].astype(np.int64).view(np.uint64)
    return np.bitwise_count(raw & np.uint64((1 << bits(_operand_dtype(node))) - 1))


def count_leading_zeros(node: Node, args: list[Array]) -> Array:
    width = bits(_operand_dtype(node))
    rest = args[0].astype(np.int64).view(np.uint64) & np.uint64((1 << width) - 1)
    length = np.zeros(rest.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        high = rest >> np.uint64(step)
        length = np.where(high > 0, length + step, length)
        rest = np.where(high > 0, high, rest)
    return width - (length + (rest > 0))


def divide(x: Array, y: Array) -> Array:
    """Divide floats with rounding and integers with truncation. As in XLA, x / 0 is -1 (all ones) and least / -1 is
    least.
    """
    if x.dtype.kind in "fc":
        return x / y
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    if x.dtype.kind == "u":
        return np.where(y == 0, np.iinfo(x.dtype).max, x // safe)
    wrap = y == -1
    safe = np.where(wrap, 1, safe).astype(x.dtype)
    quotient = x // safe
    quotient = quotient + ((x % safe != 0) & ((x < 0) != (safe < 0)))
    return np.where(y == 0, -1, np.where(wrap, np.negative(x), quotient))


def remainder(x: Array, y: Array) -> Array:
    """Return the remainder with the sign of the dividend; x % 0 = x for integers, as in XLA."""
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    safe = np.where((y == 0) | (y + 1 == 0), 1, y).astype(x.dtype) if x.dtype.kind == "i" else np.where(y == 0, 1, y)
    return np.where(y == 0, x, np.fmod(x, safe))


def power(x: Array, y: Array) -> Array:
    if x.dtype.kind in "fc":
        return np.power(x, y)
    negative = y < 0
    powers = np.power(x, np.where(negative, 0, y).astype(x.dtype))
    odd = (y & 1) == 1
    inverse = np.where(x == 1, 1, np.where(x + 1 == 0, np.where(odd, -1, 1), 0)) if x.dtype.kind == "i" else 0
    return np.where(negative, inverse, powers)


def _signed(x: Array, width: int) -> Array:
    """Sign-extend the lowest `width` bits, so that an arithmetic shift copies the top bit of unsigned integers too."""
    rest = 64 - width
    return (x.astype(np.int64) << rest) >> rest


def _shifted_bits(x: Array, y: Array, width: int, arithmetic: bool, left: bool) -> Array:
    """Shift as StableHLO defines it.

    A shift amount outside [0, width) gives 0, or copies of the sign bit for an arithmetic right shift.
    """
    outside = (y < 0) | (y >= width)
    amount = np.where(outside, 0, y).astype(x.dtype)
    if left:
        return np.where(outside, 0, x << amount)
    if arithmetic:
        return _signed(x, width) >> np.where(outside, width - 1, y).astype(np.int64)
    mask = (1 << width) - 1
    logical = (x.astype(np.int64).view(np.uint64) & np.uint64(mask)) >> amount.astype(np.uint64)
    return np.where(outside, np.uint64(0), logical)


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": np.equal, "NE": np.not_equal, "GE": np.greater_equal,
    "GT": np.greater, "LE": np.less_equal, "LT": np.less,
}  # fmt: skip


def total_order(x: Array) -> Array:
    """Return integers that sort as the floats do in IEEE total order: -NaN < -inf < ... < -0 < +0 < ... < NaN."""
    if x.dtype.itemsize == 1:  # Some 8-bit types have no sign, or encode their only NaN as -0.
        x = x.astype(np.float32)
    signed = x.view(_SIGNED[x.dtype.itemsize])
    return np.where(signed < 0, np.bitwise_xor(signed, np.iinfo(signed.dtype).max), signed)


def compare(node: Node, args: list[Array]) -> Array:
    left, right = args
    how = node.attrs.compare_type
    if how == "TOTALORDER":
        left, right = total_order(left), total_order(right)
    elif how == "UNSIGNED":
        left, right = (_unsigned(x) for x in args)
    else:
        left, right = (widen(x, _operand_dtype(node)) for x in args)
    return _COMPARISONS[node.attrs.direction](left, right)


def convert(x: Array, target: str) -> Array:
    """Convert `x` to another element type.

    Integers are truncated and clamped, and NaN becomes 0. For i1 the result is whether the element is nonzero. Complex
    numbers lose their imaginary part first, also for i1.
    """
    if x.dtype.kind == "c" and not is_complex(target):
        x = x.real
    if target == "i1":
        return x != np.zeros((), x.dtype)
    x = widen(x, dtype_name(x.dtype))  # This is exact. NumPy cannot convert all narrow types directly to each other.
    if x.dtype.kind == "f" and not is_inexact(target):
        low, high = integer_range(target)
        wide = np.trunc(x.astype(np.float64))
        inside = np.nan_to_num(np.clip(wide, low, high), nan=0.0)
        # f64 cannot represent 2^63 - 1 and 2^64 - 1, so clipped values bypass the cast.
        cast = np.where((inside >= high) | (inside <= low), 0, inside).astype(np.uint64 if low == 0 else np.int64)
        return np.where(wide >= high, high, np.where(wide <= low, low, cast)).astype(DTYPES[target])
    if is_float(target) and x.dtype == np.bool_:
        x = x.astype(np.float32)
    return x.astype(DTYPES[target], copy=False)


def complex_number(node: Node, args: list[Array]) -> Array:
    result = np.empty(np.broadcast_shapes(args[0].shape, args[1].shape), node.result.type.numpy_dtype)
    result.real, result.imag = args  # The formula x + 1j * y would compute 0 * inf, which is NaN.
    return result


def next_after(node: Node, args: list[Array]) -> Array:
    """Return the next representable value of x's type after x towards y, by adding or subtracting 1 from the bit
    pattern.
    """
    x, y = args
    wide_x, wide_y = widen(x, _operand_dtype(node)), widen(y, _operand_dtype(node))
    signed = np.ascontiguousarray(x).reshape(x.shape).view(_SIGNED[x.dtype.itemsize])
    away = (wide_y > wide_x) == (wide_x > 0)  # The magnitude grows, because x moves away from zero.
    moved = (signed + np.where(away, 1, -1).astype(signed.dtype)).view(x.dtype)
    least = np.asarray(1, signed.dtype).view(x.dtype)
    moved = np.where(wide_x == 0, np.where(wide_y > 0, least, -least), moved)
    unordered = np.where(np.isnan(wide_x), x, y)
    return np.where(np.isnan(wide_x) | np.isnan(wide_y), unordered, np.where(wide_x == wide_y, y, moved))


def reduce_precision(node: Node, args: list[Array]) -> Array:
    """Round to nearest even to a float type with the node's `exponent_bits` and `mantissa_bits`.

    A result below the smallest normal number of this type becomes 0. If the type has as many exponent bits as the
    operand, subnormal numbers are kept, with their mantissas rounded to `mantissa_bits` like all others. Without
    mantissa bits, a tie rounds to an even (biased) exponent.
    """
    x, limits = args[0].astype(np.float64), ml_dtypes.finfo(DTYPES[_operand_dtype(node)])
    exponent_bits, mantissa_bits = node.attrs.exponent_bits, min(node.attrs.mantissa_bits, int(limits.nmant))
    exponent = np.maximum(np.frexp(x)[1], int(limits.minexp) + 1)
    scaled = np.ldexp(x, mantissa_bits + 1 - exponent)
    integral = np.rint(scaled)
    if mantissa_bits == 0:  # The neighbors of 1.5 are 1, with this exponent, and 2, with the next exponent.
        has_even_exponent = (
            exponent - int(limits.minexp)
        ) % 2 == 0  # The smallest normal number has the biased exponent 1.
        integral = np.where((np.abs(scaled) == 1.5) & has_even_exponent, np.trunc(scaled), integral)
    rounded = np.ldexp(integral, exponent - mantissa_bits - 1)
    if exponent_bits < int(limits.nexp):
        bias = (1 << exponent_bits - 1) - 1
        greatest = np.ldexp(2.0 - 2.0**-mantissa_bits, bias)
        rounded = np.where(np.abs(rounded) > greatest, np.copysign(np.inf, x), rounded)
        rounded = np.where(np.abs(rounded) < np.ldexp(1.0, 1 - bias), np.copysign(0.0, x), rounded)
    return np.where(np.isfinite(x), rounded, x)


def bitcast_convert(node: Node, args: list[Array]) -> Array:
    return bitcast(args[0], node.result.type.dtype)


def clamp(node: Node, args: list[Array]) -> Array:
    low, x, high = (widen(a, _operand_dtype(node)) for a in args)
    return np.minimum(np.maximum(x, low), high)


def _operand_dtype(node: Node) -> str:
    return node.operands[0].type.dtype


OfNode = Callable[[Node, list[Array]], Array]


def of_node(function: OfNode) -> Handler:
    """Return a handler that calls `function(node, operands)` and rounds the result to the node's element type."""

    def handle(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        return [narrow(function(node, args), node.result.type.dtype)]

    return handle


def of_numbers(function: Callable[..., Any]) -> Handler:
    """Return a handler that calls `function(*operands)` in the operands' compute type and rounds the result once."""
    return of_node(lambda node, args: function(*(widen(x, _operand_dtype(node)) for x in args)))


def shift(*, arithmetic: bool = False, left: bool = False) -> Handler:
    def shifted(node: Node, args: list[Array]) -> Array:
        x, y = (widen(a, _operand_dtype(node)) for a in args)
        return _shifted_bits(x, y, bits(_operand_dtype(node)), arithmetic, left)

    return of_node(shifted)


def choose(node: Node, args: list[Array]) -> Array:
    return np.where(args[0], args[1], args[2])


def converted(node: Node, args: list[Array]) -> Array:
    return convert(args[0], node.result.type.dtype)


def spread(node: Node, args: list[Array]) -> Array:
    """Return the value of a constant. A splat is returned as a broadcast view."""
    return np.broadcast_to(node.attrs.value, node.result.type.sizes)


def same(node: Node, args: list[Array]) -> Array:
    return args[0]
