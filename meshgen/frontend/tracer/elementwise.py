"""Traced element-wise operations: arithmetic, and functions of one number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from meshgen.frontend.tracer.operands import aligned, broadcast, convert, dtype_of, emit, promote, tensor
from meshgen.frontend.tracer.recording import OPS, named, refuse, traced
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
    """x + y; of truth values, whether one of them holds."""
    return binary("or" if promote(x, y) == "i1" else "add", x, y)


@traced
def subtract(x: Operand, y: Operand) -> Tensor:
    """x - y."""
    no_truth("subtract", x, y)
    return binary("subtract", x, y)


@traced
def multiply(x: Operand, y: Operand) -> Tensor:
    """x * y; of truth values, whether both hold."""
    return binary("and" if promote(x, y) == "i1" else "multiply", x, y)


@named("divide", "true_divide")
def divide(x: Operand, y: Operand) -> Tensor:
    """True division: integers become f32 first, as `/` on them does in Python."""
    return _floatbinary("divide", x, y)


def _floatbinary(op: str, x: Operand, y: Operand) -> Tensor:
    dtype = promote(x, y)
    left, right = aligned(x, y, dtype=dtype if is_inexact(dtype) else "f32")
    return emit(op, [left, right], left.type)


@named("power", "pow")
def power(x: Operand, y: Operand) -> Tensor:
    """x ** y; a whole Python exponent from 2 to 4 becomes products."""
    if isinstance(y, int) and not isinstance(y, bool) and 2 <= y <= 4 and isinstance(x, Tensor):
        x = convert(x, promote(x, y))
        squared = multiply(x, x)
        return squared if y == 2 else multiply(squared, x if y == 3 else squared)
    return binary("power", bool_as_i8(x), bool_as_i8(y))


@traced
def square(x: Operand) -> Tensor:
    """x * x."""
    x = bool_as_i8(tensor(x))
    return multiply(x, x)


def bool_as_i8(x: Operand) -> Operand:
    """Booleans as i8, as NumPy multiplies them."""
    return convert(x, "i8") if isinstance(x, Tensor) and x.type.dtype == "i1" else x


@traced
def maximum(x: Operand, y: Operand) -> Tensor:
    """The larger of two elements; NaN if one of them is."""
    refuse_complex_order(promote(x, y))
    return binary("maximum", x, y)


@traced
def minimum(x: Operand, y: Operand) -> Tensor:
    """The smaller of two elements; NaN if one of them is."""
    refuse_complex_order(promote(x, y))
    return binary("minimum", x, y)


def refuse_complex_order(dtype: str) -> None:
    """Raise ProgramError for a comparison of complex numbers."""
    if is_complex(dtype):
        refuse("complex numbers have no order", "compare their absolute values, meshgen.abs")


@traced
def negative(x: Operand) -> Tensor:
    """-x."""
    return unary("negate", no_truth("negative", x))


@named("abs", "absolute")
def abs_(x: Operand) -> Tensor:
    """Absolute values, of complex numbers real ones."""
    x = tensor(x)
    return x if x.type.dtype == "i1" else emit("abs", [x], TensorType(x.shape, real_dtype(x.type.dtype)))


@traced
def sign(x: Operand) -> Tensor:
    """-1, 0 or 1; of complex numbers x / abs(x)."""
    return unary("sign", no_truth("sign", x))


def no_truth(op: str, *operands: Operand) -> Operand:
    """The first operand. Raises ProgramError where all are booleans, for which NumPy has no such operation either."""
    if promote(*operands) == "i1":
        refuse(
            f"'{op}' is not defined for booleans (i1)",
            "use meshgen.logical_not or logical_xor, or astype an integer first",
        )
    return operands[0]


# Names (several for one function), the op, and what it computes.
_FUNCTIONS: tuple[tuple[str, str, str], ...] = (
    ("exp", "exponential", "e ** x."),
    ("expm1", "exponential_minus_one", "e ** x - 1, without cancellation."),
    ("log", "log", "The natural logarithm."),
    ("log1p", "log_plus_one", "log(1 + x), without cancellation."),
    ("sqrt", "sqrt", "The square root."),
    ("rsqrt", "rsqrt", "1 / sqrt(x)."),
    ("cbrt", "cbrt", "The cube root."),
    ("sin", "sine", "The sine, of radians."),
    ("cos", "cosine", "The cosine, of radians."),
    ("tan", "tan", "The tangent, of radians."),
    ("sinh", "sinh", "The hyperbolic sine."),
    ("cosh", "cosh", "The hyperbolic cosine."),
    ("tanh", "tanh", "The hyperbolic tangent."),
    ("asin arcsin", "asin", "The inverse sine, in radians."),
    ("acos arccos", "acos", "The inverse cosine, in radians."),
    ("asinh arcsinh", "asinh", "The inverse hyperbolic sine."),
    ("acosh arccosh", "acosh", "The inverse hyperbolic cosine."),
    ("atanh arctanh", "atanh", "The inverse hyperbolic tangent."),
    ("erf", "erf", "The error function."),
    ("erfc", "erfc", "1 - erf(x), without cancellation."),
    ("erf_inv", "erf_inv", "The inverse of the error function."),
    ("lgamma gammaln", "lgamma", "The logarithm of the absolute gamma function."),
    ("digamma", "digamma", "The derivative of lgamma."),
    ("sigmoid expit", "logistic", "1 / (1 + exp(-x))."),
)


def _float_function(name: str, op: str, text: str) -> Callable[[Operand], Tensor]:
    def function(x: Operand) -> Tensor:
        return _floatunary(op, x)

    function.__name__, function.__doc__, function.__module__ = name, text, __name__
    return function


for _names, _op, _text in _FUNCTIONS:
    _ = named(*_names.split())(_float_function(_names.split()[0], _op, _text))
exp, expm1, log, log1p, sqrt, rsqrt, tanh, erf, erf_inv, sigmoid = map(
    OPS.__getitem__, ["exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "tanh", "erf", "erf_inv", "sigmoid"]
)


@named("atan", "arctan")
def atan(x: Operand) -> Tensor:
    """The inverse tangent, in radians."""
    x = as_float(x)
    if not is_complex(x.type.dtype):
        return atan2(x, 1)
    turned = OPS["atanh"](emit("complex", [-x.imag, x.real], x.type))  # atan(x) = -i atanh(i x)
    return emit("complex", [turned.imag, -turned.real], x.type)


@named("atan2", "arctan2")
def atan2(y: Operand, x: Operand) -> Tensor:
    """The angle of the point (x, y), in radians."""
    return _floatbinary("atan2", y, x)


@traced
def exp2(x: Operand) -> Tensor:
    """2 ** x."""
    return exp(as_float(x) * math.log(2))


@traced
def log2(x: Operand) -> Tensor:
    """The logarithm to base 2."""
    return _log_to_base(2, x)


@traced
def log10(x: Operand) -> Tensor:
    """The logarithm to base 10."""
    return _log_to_base(10, x)


def _log_to_base(base: int, x: Operand) -> Tensor:
    """Of complex numbers part by part: a product with an infinity would make the other part NaN."""
    found = log(x)
    if not is_complex(found.type.dtype):
        return found / math.log(base)
    return emit("complex", [found.real / math.log(base), found.imag / math.log(base)], found.type)


@traced
def clip(x: Operand, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """x clamped to [min, max]; without one of them it is open on that side."""
    x = tensor(x)
    x = x if min is None else maximum(x, min)
    return x if max is None else minimum(x, max)


@traced
def astype(x: Operand, dtype: Any, copy: bool = True, *, device: Any = None) -> Tensor:
    """The elements in another type; fractions are cut off where it is an integer."""
    return tensor(x, dtype_of(dtype))


@traced
def positive(x: Operand) -> Tensor:
    """x itself."""
    return tensor(x)


@traced
def reciprocal(x: Operand) -> Tensor:
    """1 / x."""
    return divide(1, x)


@traced
def real(x: Operand) -> Tensor:
    """The real parts; real numbers themselves."""
    return _part("real", tensor(x))


@traced
def imag(x: Operand) -> Tensor:
    """The imaginary parts; of real numbers zeros."""
    x = tensor(x)
    return _part("imag", x) if is_complex(x.type.dtype) else broadcast(tensor(0, x.type.dtype), x.shape)


def _part(op: str, x: Tensor) -> Tensor:
    return emit(op, [x], TensorType(x.shape, real_dtype(x.type.dtype))) if is_complex(x.type.dtype) else x


@named("conj", "conjugate")
def conj(x: Operand) -> Tensor:
    """The complex conjugate; real numbers themselves."""
    x = tensor(x)
    return emit("complex", [real(x), -imag(x)], x.type) if is_complex(x.type.dtype) else x


@traced
def clamp(min: Operand, x: Operand, max: Operand) -> Tensor:
    """x clamped to [min, max], as `jax.lax.clamp`."""
    return clip(x, min, max)


@named("deg2rad", "radians")
def deg2rad(x: Operand) -> Tensor:
    """Degrees in radians."""
    return as_float(x) * (math.pi / 180)


@named("rad2deg", "degrees")
def rad2deg(x: Operand) -> Tensor:
    """Radians in degrees."""
    return as_float(x) * (180 / math.pi)


@traced
def stop_gradient(x: Operand) -> Tensor:
    """x itself: traced programs have no gradients, which come from JAX."""
    return tensor(x)
