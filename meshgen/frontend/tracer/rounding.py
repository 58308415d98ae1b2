"""Traced rounding, division with a whole quotient, and functions of the signs and sizes of numbers."""

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
    """The next whole number below; integers stay as they are."""
    return _rounded("floor", x)


@traced
def ceil(x: Operand) -> Tensor:
    """The next whole number above; integers stay as they are."""
    return _rounded("ceil", x)


@traced
def trunc(x: Operand) -> Tensor:
    """The next whole number towards 0; integers stay as they are."""
    x = tensor(x)
    return where(x < 0, ceil(x), floor(x)) if is_inexact(x.type.dtype) else x


@named("round", "rint", "around")
def round_(x: Operand, decimals: int = 0) -> Tensor:
    """The nearest number with so many decimals, halves to the even one; of complex numbers both parts."""
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
    """floor_divide(x, y) and remainder(x, y)."""
    left, right = aligned(bool_as_i8(x), bool_as_i8(y))
    refuse_complex_order(left.type.dtype)
    rest = binary("remainder", left, right)
    if left.type.dtype.startswith("u"):
        return binary("divide", left, right), rest
    is_off = logical_and(rest != 0, (rest < 0) ^ (right < 0))
    positive = where(is_off, rest + right, rest)
    if not is_float(left.type.dtype):
        return binary("divide", left, right) - is_off, positive
    ratio = left / right
    quotient = round_((left - rest) / right) - is_off
    quotient = where(quotient == 0, ratio * 0, quotient)  # zeros have the sign of the ratio, and remainders that of y
    return where(right == 0, ratio, quotient), where(
        rest == 0, where(right < 0, tensor(-0.0, right.type.dtype), 0.0), positive
    )


@traced
def floor_divide(x: Operand, y: Operand) -> Tensor:
    """The whole number below x / y: `x // y`."""
    return divmod_(x, y)[0]


@named("remainder", "mod")
def remainder(x: Operand, y: Operand) -> Tensor:
    """x - y * floor(x / y), of y's sign: `x % y`."""
    return divmod_(x, y)[1]


@traced
def fmod(x: Operand, y: Operand) -> Tensor:
    """x - y * trunc(x / y), of x's sign, as in C."""
    left, right = aligned(bool_as_i8(x), bool_as_i8(y))
    return binary("remainder", left, right)


@traced
def signbit(x: Operand) -> Tensor:
    """Whether the sign is negative; that of -0.0 is."""
    x = tensor(x)
    if not is_float(x.type.dtype):
        return x < 0
    bits = f"i{DTYPES[x.type.dtype].itemsize * 8}"
    return emit("bitcast_convert", [x], TensorType(x.shape, bits)) < 0


@traced
def copysign(x: Operand, y: Operand) -> Tensor:
    """x with the sign of y."""
    left, right = aligned(as_float(x), as_float(y))
    return where(logical_xor(signbit(left), signbit(right)), -left, left)


@traced
def nextafter(x: Operand, y: Operand) -> Tensor:
    """The next number of the type from x towards y."""
    left, right = aligned(as_float(x), as_float(y))
    return emit("next_after", [left, right], left.type)


@traced
def hypot(x: Operand, y: Operand) -> Tensor:
    """sqrt(x ** 2 + y ** 2), without overflow of the squares."""
    left, right = aligned(as_float(x), as_float(y))
    left, right = abs_(left), abs_(right)
    low, high = minimum(left, right), maximum(left, right)
    ratio = low / where(high == 0, 1, high)
    found = high * sqrt(1 + ratio * ratio)
    infinite = float("inf")
    return where((left == infinite) | (right == infinite), infinite, found)


@traced
def logaddexp(x: Operand, y: Operand) -> Tensor:
    """log(exp(x) + exp(y)), without overflow."""
    left, right = aligned(as_float(x), as_float(y))
    apart = left - right  # NaN where both are the same infinity
    return where(isnan(apart), left + right, maximum(left, right) + log1p(exp(-abs_(apart))))


@traced
def heaviside(x: Operand, y: Operand) -> Tensor:
    """0 below 0, 1 above, y at 0."""
    left, right = aligned(as_float(x), as_float(y))
    return where(isnan(left), left, where(left == 0, right, maximum(sign(left), 0)))


@traced
def angle(z: Operand) -> Tensor:
    """The angle of complex numbers in radians; of real ones 0 or pi."""
    z = tensor(z)
    return atan2(z.imag, z.real)
