"""Traced rounding, floor division, remainders, and related functions of two operands."""

from __future__ import annotations

from meshgen.frontend.tracer.elementwise import (
    abs_,
    as_float,
    atan2,
    binary,
    bool_as_i8,
    exp,
    log1p,
    maximum,
    minimum,
    refuse_complex_order,
    sign,
    sqrt,
    unary,
)
from meshgen.frontend.tracer.logic import isnan, logical_and, logical_xor, where
from meshgen.frontend.tracer.operands import aligned, emit, tensor
from meshgen.frontend.tracer.recording import named, traced
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import DTYPES, TensorType, is_float, is_inexact


@traced
def floor(x: Operand) -> Tensor:
    """Round down; integers are unchanged."""
    return _rounded("floor", x)


@traced
def ceil(x: Operand) -> Tensor:
    """Round up; integers are unchanged."""
    return _rounded("ceil", x)


@traced
def trunc(x: Operand) -> Tensor:
    """Round towards 0; integers are unchanged."""
    x = tensor(x)
    return where(x < 0, ceil(x), floor(x)) if is_inexact(x.type.dtype) else x


@named("round", "rint", "around")
def round_(x: Operand, decimals: int = 0) -> Tensor:
    """Round to a number of decimals, ties to even. The parts of complex numbers are rounded separately."""
    x = tensor(x)
    if x.type.dtype.startswith("c"):
        return emit("complex", [round_(x.real, decimals), round_(x.imag, decimals)], x.type)
    if not is_float(x.type.dtype):
        return x
    return round_(x * 10.0**decimals) / 10.0**decimals if decimals else unary("round_nearest_even", x)


def _rounded(op: str, x: Operand) -> Tensor:
    x = tensor(x)
    refuse_complex_order(x.type.dtype)
    return unary(op, x) if is_inexact(x.type.dtype) else x


@named("divmod")
def divmod_(x: Operand, y: Operand) -> tuple[Tensor, Tensor]:
    """Return the pair (floor_divide(x, y), remainder(x, y))."""
    left, right = aligned(bool_as_i8(x), bool_as_i8(y))
    refuse_complex_order(left.type.dtype)
    truncated_remainder = binary("remainder", left, right)
    if left.type.dtype.startswith("u"):
        return binary("divide", left, right), truncated_remainder
    signs_differ = logical_and(truncated_remainder != 0, (truncated_remainder < 0) ^ (right < 0))
    floor_remainder = where(signs_differ, truncated_remainder + right, truncated_remainder)
    if not is_float(left.type.dtype):
        return binary("divide", left, right) - signs_differ, floor_remainder
    ratio = left / right
    quotient = round_((left - truncated_remainder) / right) - signs_differ
    # A zero quotient gets the sign of x / y, and a zero remainder the sign of y.
    quotient = where(quotient == 0, ratio * 0, quotient)
    return where(right == 0, ratio, quotient), where(
        truncated_remainder == 0, where(right < 0, tensor(-0.0, right.type.dtype), 0.0), floor_remainder
    )


@traced
def floor_divide(x: Operand, y: Operand) -> Tensor:
    """Return floor(x / y): the operator `x // y`."""
    return divmod_(x, y)[0]


@named("remainder", "mod")
def remainder(x: Operand, y: Operand) -> Tensor:
    """Return x - y * floor(x / y), which has the sign of y: the operator `x % y`."""
    return divmod_(x, y)[1]


@traced
def fmod(x: Operand, y: Operand) -> Tensor:
    """Return x - y * trunc(x / y), which has the sign of x, as in C."""
    left, right = aligned(bool_as_i8(x), bool_as_i8(y))
    return binary("remainder", left, right)


@traced
def signbit(x: Operand) -> Tensor:
    """Whether x has the sign bit set. This holds for negative numbers and for -0.0."""
    x = tensor(x)
    if not is_float(x.type.dtype):
        return x < 0
    bits = f"i{DTYPES[x.type.dtype].itemsize * 8}"
    return emit("bitcast_convert", [x], TensorType(x.shape, bits)) < 0


@traced
def copysign(x: Operand, y: Operand) -> Tensor:
    """Return the magnitude of x with the sign of y."""
    left, right = aligned(as_float(x), as_float(y))
    return where(logical_xor(signbit(left), signbit(right)), -left, left)


@traced
def nextafter(x: Operand, y: Operand) -> Tensor:
    """Return the number next to x in the direction of y that the dtype can represent."""
    left, right = aligned(as_float(x), as_float(y))
    return emit("next_after", [left, right], left.type)


@traced
def hypot(x: Operand, y: Operand) -> Tensor:
    """Return sqrt(x ** 2 + y ** 2). The squares do not overflow."""
    left, right = aligned(as_float(x), as_float(y))
    left, right = abs_(left), abs_(right)
    low, high = minimum(left, right), maximum(left, right)
    ratio = low / where(high == 0, 1, high)
    length = high * sqrt(1 + ratio * ratio)
    infinity = float("inf")
    return where((left == infinity) | (right == infinity), infinity, length)


@traced
def logaddexp(x: Operand, y: Operand) -> Tensor:
    """Return log(exp(x) + exp(y)), without overflow."""
    left, right = aligned(as_float(x), as_float(y))
    difference = left - right  # The difference is NaN if x and y are the same infinity.
    return where(isnan(difference), left + right, maximum(left, right) + log1p(exp(-abs_(difference))))


@traced
def heaviside(x: Operand, y: Operand) -> Tensor:
    """Return 0 for negative x, 1 for positive x, and y for x == 0."""
    left, right = aligned(as_float(x), as_float(y))
    return where(isnan(left), left, where(left == 0, right, maximum(sign(left), 0)))


@traced
def angle(z: Operand) -> Tensor:
    """Return the angle of complex numbers in radians, which is 0 or pi for real numbers."""
    z = tensor(z)
    return atan2(z.imag, z.real)
