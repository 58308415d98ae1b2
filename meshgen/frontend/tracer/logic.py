"""Traced comparisons, booleans, bitwise operations and selection."""

from __future__ import annotations

from meshgen.frontend.tracer.elementwise import as_float, binary, refuse_complex_order, unary
from meshgen.frontend.tracer.operands import aligned, broadcast, common_shape, emit, promote, tensor
from meshgen.frontend.tracer.recording import refuse, traced
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_complex, is_inexact, real_dtype


@traced
def isfinite(x: Operand) -> Tensor:
    """Whether it is neither infinite nor NaN; of complex numbers both parts."""
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
    return _compare("EQ", x, y)


@traced
def not_equal(x: Operand, y: Operand) -> Tensor:
    return _compare("NE", x, y)


@traced
def less(x: Operand, y: Operand) -> Tensor:
    return _compare("LT", x, y)


@traced
def less_equal(x: Operand, y: Operand) -> Tensor:
    return _compare("LE", x, y)


@traced
def greater(x: Operand, y: Operand) -> Tensor:
    return _compare("GT", x, y)


@traced
def greater_equal(x: Operand, y: Operand) -> Tensor:
    return _compare("GE", x, y)


@traced
def logical_and(x: Operand, y: Operand) -> Tensor:
    """Whether both are not 0."""
    return binary("and", truth(x), truth(y))


@traced
def logical_or(x: Operand, y: Operand) -> Tensor:
    """Whether one of them is not 0."""
    return binary("or", truth(x), truth(y))


@traced
def logical_xor(x: Operand, y: Operand) -> Tensor:
    """Whether exactly one of them is not 0."""
    return binary("xor", truth(x), truth(y))


@traced
def logical_not(x: Operand) -> Tensor:
    """Whether it is 0."""
    return unary("not", truth(x))


def truth(x: Operand) -> Tensor:
    """Whether numbers are not 0."""
    x = tensor(x)
    return x if x.type.dtype == "i1" else not_equal(x, 0)


@traced
def bitwise_and(x: Operand, y: Operand) -> Tensor:
    """`x & y`, bit by bit."""
    return _bitwise("and", x, y)


@traced
def bitwise_or(x: Operand, y: Operand) -> Tensor:
    """`x | y`, bit by bit."""
    return _bitwise("or", x, y)


@traced
def bitwise_xor(x: Operand, y: Operand) -> Tensor:
    """`x ^ y`, bit by bit."""
    return _bitwise("xor", x, y)


@traced
def invert(x: Operand) -> Tensor:
    """`~x`, bit by bit."""
    _refuse_bits("not", tensor(x).type.dtype)
    return unary("not", x)


def _bitwise(op: str, x: Operand, y: Operand) -> Tensor:
    _refuse_bits(op, promote(x, y))
    return binary(op, x, y)


def _refuse_bits(op: str, dtype: str) -> None:
    if is_inexact(dtype):
        refuse(f"'{op}' works on i1 and integers, not on {dtype}", "compare with 0 first, or use meshgen.logical_" + op)


@traced
def where(condition: Operand, x: Operand, y: Operand) -> Tensor:
    """x where `condition` holds, else y; all three broadcast."""
    dtype = promote(x, y)
    operands = [truth(condition), tensor(x, dtype), tensor(y, dtype)]
    shape = common_shape(*operands)
    return emit("select", [broadcast(t, shape) for t in operands], TensorType(shape, dtype))
