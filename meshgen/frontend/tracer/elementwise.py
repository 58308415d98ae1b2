"""Traced element-wise operations: arithmetic, and functions of one operand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from meshgen.frontend.tracer.operands import aligned, broadcast, convert, dtype_of, emit, promote, tensor
from meshgen.frontend.tracer.recording import OPS, named, refuse, traced
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_complex, is_inexact, real_dtype


def unary(op: str, x: Operand) -> Tensor:
    """Emit the op `op` on one operand; the result has the dtype of the operand."""
    x = tensor(x)
    return emit(op, [x], x.type)


def _floatunary(op: str, x: Operand) -> Tensor:
    """Emit the op `op` on one operand. Integers and booleans are converted to f32 first."""
    return unary(op, as_float(x))


def as_float(x: Operand) -> Tensor:
    """Return the tensor if it is floating-point or complex; else convert it to f32."""
    x = tensor(x)
    return x if is_inexact(x.type.dtype) else convert(x, "f32")


def binary(op: str, x: Operand, y: Operand) -> Tensor:
    left, right = aligned(x, y)
    return emit(op, [left, right], left.type)


@traced
def add(x: Operand, y: Operand) -> Tensor:
    """Return x + y, or `x | y` for booleans."""
    return binary("or" if promote(x, y) == "i1" else "add", x, y)


@traced
def subtract(x: Operand, y: Operand) -> Tensor:
    """Return x - y."""
    require_not_boolean("subtract", x, y)
    return binary("subtract", x, y)


@traced
def multiply(x: Operand, y: Operand) -> Tensor:
    """Return x * y, or `x & y` for booleans."""
    return binary("and" if promote(x, y) == "i1" else "multiply", x, y)


@named("divide", "true_divide")
def divide(x: Operand, y: Operand) -> Tensor:
    """Return x / y; converts integers to f32 first, as `/` does in Python."""
    return _floatbinary("divide", x, y)


def _floatbinary(op: str, x: Operand, y: Operand) -> Tensor:
    dtype = promote(x, y)
    left, right = aligned(x, y, dtype=dtype if is_inexact(dtype) else "f32")
    return emit(op, [left, right], left.type)


@named("power", "pow")
def power(x: Operand, y: Operand) -> Tensor:
    """Return x ** y; a Python int y from 2 to 4 becomes multiplications."""
    if isinstance(y, int) and not isinstance(y, bool) and 2 <= y <= 4 and isinstance(x, Tensor):
        x = convert(x, promote(x, y))
        squared = multiply(x, x)
        return squared if y == 2 else multiply(squared, x if y == 3 else squared)
    return binary("power", bool_as_i8(x), bool_as_i8(y))


@traced
def square(x: Operand) -> Tensor:
    """Return x * x."""
    x = bool_as_i8(tensor(x))
    return multiply(x, x)


def bool_as_i8(x: Operand) -> Operand:
    """Convert booleans to i8, as NumPy does in powers and divisions. Other operands do not change."""
    return convert(x, "i8") if isinstance(x, Tensor) and x.type.dtype == "i1" else x


@traced
def maximum(x: Operand, y: Operand) -> Tensor:
    """Return the larger of x and y, or NaN if one of them is NaN."""
    refuse_complex_order(promote(x, y))
    return binary("maximum", x, y)


@traced
def minimum(x: Operand, y: Operand) -> Tensor:
    """Return the smaller of x and y, or NaN if one of them is NaN."""
    refuse_complex_order(promote(x, y))
    return binary("minimum", x, y)


def refuse_complex_order(dtype: str) -> None:
    """Raise ProgramError if `dtype` is complex, because complex numbers cannot be ordered."""
    if is_complex(dtype):
        refuse("complex numbers have no order", "compare their absolute values, meshgen.abs")


@traced
def negative(x: Operand) -> Tensor:
    """Return -x."""
    return unary("negate", require_not_boolean("negative", x))


@named("abs", "absolute")
def abs_(x: Operand) -> Tensor:
    """Return the absolute values. They are real, also for complex numbers."""
    x = tensor(x)
    return x if x.type.dtype == "i1" else emit("abs", [x], TensorType(x.shape, real_dtype(x.type.dtype)))


@traced
def sign(x: Operand) -> Tensor:
    """Return -1, 0 or 1; for complex numbers, x / abs(x)."""
    return unary("sign", require_not_boolean("sign", x))


def require_not_boolean(op: str, *operands: Operand) -> Operand:
    """Return the first operand. Raises ProgramError if all operands are booleans, for which NumPy does not define `op`."""
    if promote(*operands) == "i1":
        refuse(
            f"'{op}' is not defined for booleans (i1)",
            "use meshgen.logical_not or logical_xor, or astype an integer first",
        )
    return operands[0]


# Table of functions: (names, op, docstring).
_FUNCTIONS: tuple[tuple[str, str, str], ...] = (
    ("exp", "exponential", "Return e ** x."),
    ("expm1", "exponential_minus_one", "Return e ** x - 1, without cancellation."),
    ("log", "log", "Return the natural logarithm."),
    ("log1p", "log_plus_one", "Return log(1 + x), without cancellation."),
    ("sqrt", "sqrt", "Return the square root."),
    ("rsqrt", "rsqrt", "Return 1 / sqrt(x)."),
    ("cbrt", "cbrt", "Return the cube root."),
    ("sin", "sine", "Return the sine of an angle in radians."),
    ("cos", "cosine", "Return the cosine of an angle in radians."),
    ("tan", "tan", "Return the tangent of an angle in radians."),
    ("sinh", "sinh", "Return the hyperbolic sine."),
    ("cosh", "cosh", "Return the hyperbolic cosine."),
    ("tanh", "tanh", "Return the hyperbolic tangent."),
    ("asin arcsin", "asin", "Return the inverse sine, in radians."),
    ("acos arccos", "acos", "Return the inverse cosine, in radians."),
    ("asinh arcsinh", "asinh", "Return the inverse hyperbolic sine."),
    ("acosh arccosh", "acosh", "Return the inverse hyperbolic cosine."),
    ("atanh arctanh", "atanh", "Return the inverse hyperbolic tangent."),
    ("erf", "erf", "Return the error function erf(x)."),
    ("erfc", "erfc", "Return 1 - erf(x), without cancellation."),
    ("erf_inv", "erf_inv", "Return the inverse of the error function."),
    ("lgamma gammaln", "lgamma", "Return log(abs(gamma(x))), for the gamma function."),
    ("digamma", "digamma", "Return the derivative of lgamma(x)."),
    ("sigmoid expit", "logistic", "Return 1 / (1 + exp(-x))."),
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
    """Return the inverse tangent, in radians."""
    x = as_float(x)
    if not is_complex(x.type.dtype):
        return atan2(x, 1)
    rotated = OPS["atanh"](emit("complex", [-x.imag, x.real], x.type))  # atan(x) = -i atanh(i x)
    return emit("complex", [rotated.imag, -rotated.real], x.type)


@named("atan2", "arctan2")
def atan2(y: Operand, x: Operand) -> Tensor:
    """Return the angle of the point (x, y), in radians."""
    return _floatbinary("atan2", y, x)


@traced
def exp2(x: Operand) -> Tensor:
    """Return 2 ** x."""
    return exp(as_float(x) * math.log(2))


@traced
def log2(x: Operand) -> Tensor:
    """Return the logarithm to base 2."""
    return _log_to_base(2, x)


@traced
def log10(x: Operand) -> Tensor:
    """Return the logarithm to base 10."""
    return _log_to_base(10, x)


def _log_to_base(base: int, x: Operand) -> Tensor:
    """Return log(x) / log(base).

    The real and imaginary parts of a complex number are divided separately, because in a complex division, an infinite
    part would make the other part NaN.
    """
    natural_log = log(x)
    if not is_complex(natural_log.type.dtype):
        return natural_log / math.log(base)
    return emit("complex", [natural_log.real / math.log(base), natural_log.imag / math.log(base)], natural_log.type)


@traced
def clip(x: Operand, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Clamp x to [min, max]. A bound None means no bound."""
    x = tensor(x)
    x = x if min is None else maximum(x, min)
    return x if max is None else minimum(x, max)


@traced
def astype(x: Operand, dtype: Any, copy: bool = True, *, device: Any = None) -> Tensor:
    """Convert x to another dtype; conversion to an integer truncates fractions."""
    return tensor(x, dtype_of(dtype))


@traced
def positive(x: Operand) -> Tensor:
    """Return x unchanged."""
    return tensor(x)


@traced
def reciprocal(x: Operand) -> Tensor:
    """Return 1 / x."""
    return divide(1, x)


@traced
def real(x: Operand) -> Tensor:
    """Return the real part; real numbers are unchanged."""
    return _part("real", tensor(x))


@traced
def imag(x: Operand) -> Tensor:
    """Return the imaginary part, which is 0 for real numbers."""
    x = tensor(x)
    return _part("imag", x) if is_complex(x.type.dtype) else broadcast(tensor(0, x.type.dtype), x.shape)


def _part(op: str, x: Tensor) -> Tensor:
    return emit(op, [x], TensorType(x.shape, real_dtype(x.type.dtype))) if is_complex(x.type.dtype) else x


@named("conj", "conjugate")
def conj(x: Operand) -> Tensor:
    """Return the complex conjugate; real numbers are unchanged."""
    x = tensor(x)
    return emit("complex", [real(x), -imag(x)], x.type) if is_complex(x.type.dtype) else x


@traced
def clamp(min: Operand, x: Operand, max: Operand) -> Tensor:
    """Clamp x to [min, max], with the argument order of `jax.lax.clamp`."""
    return clip(x, min, max)


@named("deg2rad", "radians")
def deg2rad(x: Operand) -> Tensor:
    """Convert degrees to radians."""
    return as_float(x) * (math.pi / 180)


@named("rad2deg", "degrees")
def rad2deg(x: Operand) -> Tensor:
    """Convert radians to degrees."""
    return as_float(x) * (180 / math.pi)


@traced
def stop_gradient(x: Operand) -> Tensor:
    """Return x unchanged, because JAX computes all gradients."""
    return tensor(x)
