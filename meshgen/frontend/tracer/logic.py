"""Traced comparisons, logical and bitwise operations, and selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes

from meshgen.frontend.tracer.elementwise import abs_, as_float, binary, refuse_complex_order, unary
from meshgen.frontend.tracer.operands import aligned, broadcast, common_shape, dtype_of, emit, promote, tensor
from meshgen.frontend.tracer.recording import named, refuse, traced
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import DTYPES, TensorType, is_complex, is_float, is_inexact, real_dtype


@traced
def isfinite(x: Operand) -> Tensor:
    """Whether x is neither infinite nor NaN. A complex number is finite if both parts are."""
    x = as_float(x)
    if not is_complex(x.type.dtype):
        return emit("is_finite", [x], TensorType(x.shape, "i1"))
    part = TensorType(x.shape, real_dtype(x.type.dtype))
    return logical_and(isfinite(emit("real", [x], part)), isfinite(emit("imag", [x], part)))


def _compare(direction: str, x: Operand, y: Operand) -> Tensor:
    left, right = aligned(x, y)
    dtype = left.type.dtype
    if direction not in ("EQ", "NE"):
        refuse_complex_order(dtype)
    kind = "FLOAT" if is_inexact(dtype) else "UNSIGNED" if dtype == "i1" or dtype[0] == "u" else "SIGNED"
    return emit("compare", [left, right], TensorType(left.shape, "i1"), {"direction": direction, "compare_type": kind})


@traced
def equal(x: Operand, y: Operand) -> Tensor:
    """Whether x == y."""
    return _compare("EQ", x, y)


@traced
def not_equal(x: Operand, y: Operand) -> Tensor:
    """Whether x != y."""
    return _compare("NE", x, y)


@traced
def less(x: Operand, y: Operand) -> Tensor:
    """Whether x < y."""
    return _compare("LT", x, y)


@traced
def less_equal(x: Operand, y: Operand) -> Tensor:
    """Whether x <= y."""
    return _compare("LE", x, y)


@traced
def greater(x: Operand, y: Operand) -> Tensor:
    """Whether x > y."""
    return _compare("GT", x, y)


@traced
def greater_equal(x: Operand, y: Operand) -> Tensor:
    """Whether x >= y."""
    return _compare("GE", x, y)


@traced
def logical_and(x: Operand, y: Operand) -> Tensor:
    """Whether x and y are both nonzero."""
    return binary("and", truth(x), truth(y))


@traced
def logical_or(x: Operand, y: Operand) -> Tensor:
    """Whether x or y is nonzero."""
    return binary("or", truth(x), truth(y))


@traced
def logical_xor(x: Operand, y: Operand) -> Tensor:
    """Whether exactly one of x and y is nonzero."""
    return binary("xor", truth(x), truth(y))


@traced
def logical_not(x: Operand) -> Tensor:
    """Whether x is 0."""
    return unary("not", truth(x))


def truth(x: Operand) -> Tensor:
    """Whether x is nonzero; booleans are unchanged."""
    x = tensor(x)
    return x if x.type.dtype == "i1" else not_equal(x, 0)


@traced
def bitwise_and(x: Operand, y: Operand) -> Tensor:
    """Return `x & y`, bit by bit."""
    return _bitwise("and", x, y)


@traced
def bitwise_or(x: Operand, y: Operand) -> Tensor:
    """Return `x | y`, bit by bit."""
    return _bitwise("or", x, y)


@traced
def bitwise_xor(x: Operand, y: Operand) -> Tensor:
    """Return `x ^ y`, bit by bit."""
    return _bitwise("xor", x, y)


@named("invert", "bitwise_invert", "bitwise_not")
def invert(x: Operand) -> Tensor:
    """Return `~x`, bit by bit."""
    _refuse_bits("not", tensor(x).type.dtype)
    return unary("not", x)


@named("left_shift", "bitwise_left_shift")
def left_shift(x: Operand, y: Operand) -> Tensor:
    """Return `x << y`, or 0 if y is negative or at least the bit width of the dtype."""
    return _bitwise("shift_left", x, y)


@named("right_shift", "bitwise_right_shift")
def right_shift(x: Operand, y: Operand) -> Tensor:
    """Return `x >> y`. For signed integers, the sign bit fills the freed bits."""
    is_unsigned = promote(x, y).startswith("u")
    return _bitwise("shift_right_logical" if is_unsigned else "shift_right_arithmetic", x, y)


def _bitwise(op: str, x: Operand, y: Operand) -> Tensor:
    _refuse_bits(op, promote(x, y))
    return binary(op, x, y)


def _refuse_bits(op: str, dtype: str) -> None:
    if is_inexact(dtype):
        refuse(f"'{op}' works on i1 and integers, not on {dtype}", "compare with 0 first, or use meshgen.logical_" + op)


@traced
def isnan(x: Operand) -> Tensor:
    """Whether x is NaN; a complex number is NaN if its real or imaginary part is NaN."""
    x = tensor(x)
    return not_equal(x, x)


@traced
def isinf(x: Operand) -> Tensor:
    """Whether x is infinite; a complex number is infinite if its real or imaginary part is infinite."""
    x = tensor(x)
    if is_complex(x.type.dtype):
        return logical_or(isinf(x.real), isinf(x.imag))
    return equal(abs_(as_float(x)), float("inf"))


@traced
def isposinf(x: Operand) -> Tensor:
    """Whether x is positive infinity."""
    return equal(as_float(x), float("inf"))


@traced
def isneginf(x: Operand) -> Tensor:
    """Whether x is negative infinity."""
    return equal(as_float(x), -float("inf"))


@traced
def isclose(x: Operand, y: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether abs(x - y) <= atol + rtol * abs(y). Equal infinities are close, and with `equal_nan` also two NaN."""
    x, y = as_float(x), as_float(y)
    within_tolerance = logical_and(isfinite(y), less_equal(abs_(x - y), atol + rtol * abs_(y)))
    close = logical_or(within_tolerance, equal(x, y))
    return logical_or(close, logical_and(isnan(x), isnan(y))) if equal_nan else close


@traced
def nan_to_num(x: Operand, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:  # fmt: skip
    """Replace NaN by `nan`, and infinities by `posinf` and `neginf` (default: the largest finite numbers of the dtype)."""
    x = tensor(x)
    if not is_float(x.type.dtype):
        return x
    largest = float(ml_dtypes.finfo(x.dtype).max)
    x = where(isnan(x), nan, x)
    x = where(isposinf(x), largest if posinf is None else posinf, x)
    return where(isneginf(x), -largest if neginf is None else neginf, x)


@traced
def where(condition: Operand, x: Operand = None, y: Operand = None) -> Tensor:
    """Return x where `condition` is true, else y. All three broadcast."""
    if x is None or y is None:
        refuse("where needs both values: the number of selected elements depends on data", "use nonzero(x, size=...)")
    dtype = promote(x, y)
    operands = [truth(condition), tensor(x, dtype), tensor(y, dtype)]
    shape = common_shape(*operands)
    return emit("select", [broadcast(t, shape) for t in operands], TensorType(shape, dtype))


@traced
def select(conditions: Sequence[Operand], choices: Sequence[Operand], default: Operand = 0) -> Tensor:
    """Return for each element the first of `choices` whose condition is true, else `default`."""
    if not conditions or len(conditions) != len(choices):
        refuse(f"select needs a choice for each condition, not {len(choices)} for {len(conditions)}")
    selected = default
    for condition, choice in list(zip(conditions, choices, strict=True))[::-1]:
        selected = where(condition, choice, selected)
    return tensor(selected)


@traced
def bitcast_convert_type(x: Operand, dtype: Any) -> Tensor:
    """Reinterpret the bits of the elements as another dtype of the same width."""
    x, kind = tensor(x), dtype_of(dtype)
    if DTYPES[kind].itemsize != DTYPES[x.type.dtype].itemsize:
        refuse(f"{x.type} has elements of another width than {kind}")
    return emit("bitcast_convert", [x], TensorType(x.shape, kind))


@traced
def population_count(x: Operand) -> Tensor:
    """Count the bits that are 1."""
    return unary("popcnt", x)


@traced
def clz(x: Operand) -> Tensor:
    """Count the leading zero bits."""
    return unary("count_leading_zeros", x)
