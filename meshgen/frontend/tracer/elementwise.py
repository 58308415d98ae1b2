"""Traced element-wise operations: arithmetic, comparison, logic, transcendental functions, activations."""

from __future__ import annotations

import math
from typing import Any

from meshgen.frontend.tracer.operands import aligned, broadcast, common_shape, convert, dtype_of, emit, promote, tensor
from meshgen.frontend.tracer.recording import refuse, traced
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_float, is_inexact


def _unary(op: str, x: Operand) -> Tensor:
    """An operation that keeps the element type."""
    x = tensor(x)
    return emit(op, [x], x.type)


def _float_unary(op: str, x: Operand) -> Tensor:
    """An operation on floats; integers become f32 first."""
    return _unary(op, as_float(x))


def as_float(x: Operand) -> Tensor:
    """The tensor, as f32 where its elements are neither floats nor complex."""
    x = tensor(x)
    return x if is_inexact(x.dtype) else convert(x, "f32")


def _binary(op: str, x: Operand, y: Operand) -> Tensor:
    left, right = aligned(x, y)
    return emit(op, [left, right], left.type)


@traced
def add(x: Operand, y: Operand) -> Tensor:
    return _binary("or" if promote(x, y) == "i1" else "add", x, y)


@traced
def subtract(x: Operand, y: Operand) -> Tensor:
    return _binary("subtract", x, y)


@traced
def multiply(x: Operand, y: Operand) -> Tensor:
    return _binary("and" if promote(x, y) == "i1" else "multiply", x, y)


@traced
def divide(x: Operand, y: Operand) -> Tensor:
    """True division: integers become f32 first, as `/` on them does in Python."""
    dtype = promote(x, y)
    left, right = aligned(x, y, dtype=dtype if is_inexact(dtype) else "f32")
    return emit("divide", [left, right], left.type)


@traced
def power(x: Operand, y: Operand) -> Tensor:
    """x ** y; a whole Python exponent from 2 to 4 becomes products."""
    if isinstance(y, int) and not isinstance(y, bool) and 2 <= y <= 4 and isinstance(x, Tensor):
        squared = multiply(x, x)
        return squared if y == 2 else multiply(squared, x if y == 3 else squared)
    return _binary("power", x, y)


@traced
def square(x: Operand) -> Tensor:
    return multiply(x, x)


@traced
def maximum(x: Operand, y: Operand) -> Tensor:
    return _binary("maximum", x, y)


@traced
def minimum(x: Operand, y: Operand) -> Tensor:
    return _binary("minimum", x, y)


@traced
def negative(x: Operand) -> Tensor:
    return _unary("negate", x)


@traced
def abs_(x: Operand) -> Tensor:
    return _unary("abs", x)


@traced
def sign(x: Operand) -> Tensor:
    return _unary("sign", x)


@traced
def floor(x: Operand) -> Tensor:
    return _float_unary("floor", x)


@traced
def ceil(x: Operand) -> Tensor:
    return _float_unary("ceil", x)


@traced
def exp(x: Operand) -> Tensor:
    return _float_unary("exponential", x)


@traced
def expm1(x: Operand) -> Tensor:
    return _float_unary("exponential_minus_one", x)


@traced
def log(x: Operand) -> Tensor:
    return _float_unary("log", x)


@traced
def log1p(x: Operand) -> Tensor:
    return _float_unary("log_plus_one", x)


@traced
def tanh(x: Operand) -> Tensor:
    return _float_unary("tanh", x)


@traced
def sqrt(x: Operand) -> Tensor:
    return _float_unary("sqrt", x)


@traced
def rsqrt(x: Operand) -> Tensor:
    """1 / sqrt(x)."""
    return _float_unary("rsqrt", x)


@traced
def sin(x: Operand) -> Tensor:
    return _float_unary("sine", x)


@traced
def cos(x: Operand) -> Tensor:
    return _float_unary("cosine", x)


@traced
def erf(x: Operand) -> Tensor:
    return _float_unary("erf", x)


@traced
def isfinite(x: Operand) -> Tensor:
    x = as_float(x)
    return emit("is_finite", [x], TensorType(x.shape, "i1"))


def _compare(direction: str, x: Operand, y: Operand) -> Tensor:
    left, right = aligned(x, y)
    kind = "FLOAT" if is_float(left.dtype) else "UNSIGNED" if left.dtype == "i1" or left.dtype[0] == "u" else "SIGNED"
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
    """Bitwise on integers."""
    return _logical("and", x, y)


@traced
def logical_or(x: Operand, y: Operand) -> Tensor:
    """Bitwise on integers."""
    return _logical("or", x, y)


def _logical(op: str, x: Operand, y: Operand) -> Tensor:
    if is_float(promote(x, y)):
        refuse(f"'{op}' works on i1 and integers, not on {promote(x, y)}", "compare with 0 first")
    return _binary(op, x, y)


@traced
def logical_not(x: Operand) -> Tensor:
    """Bitwise on integers."""
    return _unary("not", x)


@traced
def where(condition: Operand, x: Operand, y: Operand) -> Tensor:
    """x where `condition` holds, else y; all three broadcast."""
    condition = tensor(condition)
    if condition.dtype != "i1":
        condition = not_equal(condition, 0)
    dtype = promote(x, y)
    operands = [condition, tensor(x, dtype), tensor(y, dtype)]
    shape = common_shape(*operands)
    return emit("select", [broadcast(t, shape) for t in operands], TensorType(shape, dtype))


@traced
def clip(x: Operand, low: Operand, high: Operand) -> Tensor:
    """x held between `low` and `high`."""
    return minimum(maximum(x, low), high)


@traced
def astype(x: Operand, dtype: Any) -> Tensor:
    return convert(tensor(x), dtype_of(dtype))


@traced
def relu(x: Operand) -> Tensor:
    return maximum(x, 0)


@traced
def sigmoid(x: Operand) -> Tensor:
    return _float_unary("logistic", x)


@traced
def silu(x: Operand) -> Tensor:
    """x * sigmoid(x)."""
    x = as_float(x)
    return x * sigmoid(x)


@traced
def gelu(x: Operand, approximate: bool = True) -> Tensor:
    """Gaussian error linear unit; `approximate` is the tanh form (Hendrycks & Gimpel, arXiv 1606.08415)."""
    x = as_float(x)
    if not approximate:
        return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0)
    return x * 0.5 * (tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1.0)
