"""Traced element-wise operations: arithmetic, transcendental functions, activations."""

from __future__ import annotations

import math
from typing import Any

from meshgen.frontend.tracer.operands import aligned, convert, dtype_of, emit, promote, tensor
from meshgen.frontend.tracer.recording import refuse, traced
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_complex, is_inexact, real_dtype


def unary(op: str, x: Operand) -> Tensor:
    """An operation that keeps the element type."""
    x = tensor(x)
    return emit(op, [x], x.type)


def _floatunary(op: str, x: Operand) -> Tensor:
    """An operation on floats; integers become f32 first."""
    return unary(op, as_float(x))


def as_float(x: Operand) -> Tensor:
    """The tensor, as f32 where its elements are neither floats nor complex."""
    x = tensor(x)
    return x if is_inexact(x.type.dtype) else convert(x, "f32")


def binary(op: str, x: Operand, y: Operand) -> Tensor:
    left, right = aligned(x, y)
    return emit(op, [left, right], left.type)


@traced
def add(x: Operand, y: Operand) -> Tensor:
    return binary("or" if promote(x, y) == "i1" else "add", x, y)


@traced
def subtract(x: Operand, y: Operand) -> Tensor:
    _no_truth("subtract", x, y)
    return binary("subtract", x, y)


@traced
def multiply(x: Operand, y: Operand) -> Tensor:
    return binary("and" if promote(x, y) == "i1" else "multiply", x, y)


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
        x = convert(x, promote(x, y))
        squared = multiply(x, x)
        return squared if y == 2 else multiply(squared, x if y == 3 else squared)
    return binary("power", _bool_as_i8(x), _bool_as_i8(y))


@traced
def square(x: Operand) -> Tensor:
    x = _bool_as_i8(tensor(x))
    return multiply(x, x)


def _bool_as_i8(x: Operand) -> Operand:
    """Booleans as i8, as NumPy multiplies them."""
    return convert(x, "i8") if isinstance(x, Tensor) and x.type.dtype == "i1" else x


@traced
def maximum(x: Operand, y: Operand) -> Tensor:
    refuse_complex_order(promote(x, y))
    return binary("maximum", x, y)


@traced
def minimum(x: Operand, y: Operand) -> Tensor:
    refuse_complex_order(promote(x, y))
    return binary("minimum", x, y)


def refuse_complex_order(dtype: str) -> None:
    """Raise ProgramError for a comparison of complex numbers."""
    if is_complex(dtype):
        refuse("complex numbers have no order", "compare their absolute values, meshgen.abs")


@traced
def negative(x: Operand) -> Tensor:
    return unary("negate", _no_truth("negative", x))


@traced
def abs_(x: Operand) -> Tensor:
    """Absolute values, of complex numbers real ones."""
    x = tensor(x)
    return x if x.type.dtype == "i1" else emit("abs", [x], TensorType(x.shape, real_dtype(x.type.dtype)))


@traced
def sign(x: Operand) -> Tensor:
    return unary("sign", _no_truth("sign", x))


def _no_truth(op: str, *operands: Operand) -> Operand:
    """The first operand. Raises ProgramError where all are booleans, for which NumPy has no such operation either."""
    if promote(*operands) == "i1":
        refuse(
            f"'{op}' is not defined for booleans (i1)",
            "use meshgen.logical_not or logical_xor, or astype an integer first",
        )
    return operands[0]


@traced
def floor(x: Operand) -> Tensor:
    """The next whole number below; integers stay as they are."""
    return _rounded("floor", x)


@traced
def ceil(x: Operand) -> Tensor:
    """The next whole number above; integers stay as they are."""
    return _rounded("ceil", x)


def _rounded(op: str, x: Operand) -> Tensor:
    x = tensor(x)
    refuse_complex_order(x.type.dtype)
    return unary(op, x) if is_inexact(x.type.dtype) else x


@traced
def exp(x: Operand) -> Tensor:
    return _floatunary("exponential", x)


@traced
def expm1(x: Operand) -> Tensor:
    return _floatunary("exponential_minus_one", x)


@traced
def log(x: Operand) -> Tensor:
    return _floatunary("log", x)


@traced
def log1p(x: Operand) -> Tensor:
    return _floatunary("log_plus_one", x)


@traced
def tanh(x: Operand) -> Tensor:
    return _floatunary("tanh", x)


@traced
def sqrt(x: Operand) -> Tensor:
    return _floatunary("sqrt", x)


@traced
def rsqrt(x: Operand) -> Tensor:
    """1 / sqrt(x)."""
    return _floatunary("rsqrt", x)


@traced
def sin(x: Operand) -> Tensor:
    return _floatunary("sine", x)


@traced
def cos(x: Operand) -> Tensor:
    return _floatunary("cosine", x)


@traced
def erf(x: Operand) -> Tensor:
    return _floatunary("erf", x)


@traced
def clip(x: Operand, low: Operand, high: Operand) -> Tensor:
    """x clamped to [low, high]."""
    return minimum(maximum(x, low), high)


@traced
def astype(x: Operand, dtype: Any) -> Tensor:
    return convert(tensor(x), dtype_of(dtype))


@traced
def relu(x: Operand) -> Tensor:
    return maximum(x, 0)


@traced
def sigmoid(x: Operand) -> Tensor:
    return _floatunary("logistic", x)


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
