"""PyTorch element-wise operations: arithmetic, comparisons and unary functions."""

from __future__ import annotations

import math

from meshgen.frontend.torch import promotion
from meshgen.frontend.torch.ops.table import aten, enter_rows, enter_traced
from meshgen.frontend.torch.promotion import in_common_type, in_floats, promoted, result_type, rounded_once, wide
from meshgen.frontend.tracer import elementwise, logic, rounding
from meshgen.frontend.tracer.operands import broadcast, convert, emit, tensor
from meshgen.frontend.tracer.recording import OPS
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_complex, is_inexact

enter_traced("floor ceil trunc fix=trunc round isfinite")
enter_traced(
    "neg=negative negative _neg_view=negative abs absolute sign sgn=sign logical_not bitwise_not isnan isinf isposinf isneginf real imag square conj "
    "conj_physical=conj _conj=conj _conj_physical=conj positive signbit",
    promotion.in_tensors,
)
enter_traced(
    "exp expm1 log log1p sqrt rsqrt sin cos tan sinh cosh tanh asin arcsin acos arccos atan arctan asinh acosh atanh erf erfc erfinv=erf_inv lgamma "
    "digamma sigmoid reciprocal exp2 log2 log10 deg2rad rad2deg special_expit=sigmoid special_exp2=exp2 special_gammaln=lgamma special_psi=digamma "
    "arcsinh=asinh arccosh=acosh arctanh=atanh",
    in_floats,
)
enter_traced(
    "eq=equal equal ne=not_equal not_equal lt=less less le=less_equal less_equal gt=greater greater ge=greater_equal greater_equal "
    "bitwise_and __and__=bitwise_and bitwise_or __or__=bitwise_or bitwise_xor __xor__=bitwise_xor logical_and logical_or logical_xor "
    "bitwise_left_shift=left_shift __lshift__=left_shift bitwise_right_shift=right_shift __rshift__=right_shift "
    "maximum max.other=maximum minimum min.other=minimum remainder fmod hypot mul=multiply multiply floor_divide",
    in_common_type,
)
enter_traced("atan2 arctan2=atan2 logaddexp copysign nextafter", promotion.in_common_floats)


@aten("div", "divide", "true_divide")
def div(x: Operand, y: Operand, rounding_mode: str | None = None) -> Tensor:
    left, right = promoted(x, y, floats=rounding_mode is None)
    if rounding_mode is None:
        return left / right
    if rounding_mode == "floor":
        return rounding.floor_divide(left, right)
    if is_inexact(left.type.dtype):
        return rounding.trunc(left / right)
    return elementwise.binary("divide", left, right)  # Torch's `trunc` division of integers truncates toward zero.


@aten("pow")
def power(x: Operand, y: Operand) -> Tensor:
    if isinstance(y, (int, float)) and not isinstance(y, bool):
        base = convert(tensor(x), result_type(x, y))
        if y in (1, 2, 3, 4):
            return base if y == 1 else elementwise.power(base, int(y))
        if y in (0.5, -0.5, -1) and is_inexact(base.type.dtype):
            return {0.5: elementwise.sqrt, -0.5: elementwise.rsqrt, -1: elementwise.reciprocal}[y](base)
    return elementwise.binary("power", *promoted(x, y))


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(condition: Operand, x: Operand, y: Operand) -> Tensor:
    dtype = result_type(x, y)
    return logic.where(condition, tensor(x, dtype), tensor(y, dtype))


@aten("clamp", "clip", "clamp_min")
def clamp(x: Operand, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    bounds = [bound for bound in (min, max) if bound is not None]
    clamped = convert(tensor(x), result_type(x, *bounds))
    clamped = clamped if min is None else elementwise.maximum(*promoted(clamped, min))
    return clamped if max is None else elementwise.minimum(*promoted(clamped, max))


@aten("complex")
def complex_(re: Tensor, im: Tensor) -> Tensor:
    """Return a complex tensor with real part `re` and imaginary part `im`."""
    re, im = promoted(re, im)
    return emit("complex", [re, im], TensorType(re.shape, "c128" if re.type.dtype == "f64" else "c64"))


@aten("angle")
def angle(x: Tensor) -> Tensor:
    """Return the angle of complex numbers. The angle of real numbers is pi if they are negative, NaN for NaN, else 0."""
    if is_complex(x.type.dtype):
        return OPS["atan2"](x.imag, x.real)
    x = elementwise.as_float(x)
    return logic.where(x < 0, math.pi, logic.where(x == x, 0.0, x))


@aten("copy", "fill", "fill.Scalar", "fill.Tensor")
def copy(x: Tensor, value: Operand, non_blocking: bool = False) -> Tensor:
    """Return the value of `x` after `x.copy_(value)`: `value` with the dtype and the shape of `x`."""
    return broadcast(tensor(value, x.type.dtype), x.shape)


@aten("view_as_real")
def view_as_real(x: Tensor) -> Tensor:
    return OPS["stack"]([x.real, x.imag], -1)


@aten("view_as_complex")
def view_as_complex(x: Tensor) -> Tensor:
    return complex_(x[..., 0], x[..., 1])


@aten("fake_quantize_per_tensor_affine")
def fake_quantize(x: Tensor, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int) -> Tensor:
    """Quantize `x` to integers from `quant_min` to `quant_max`, and convert the result back."""
    scale, zero = convert(tensor(scale), x.type.dtype), convert(tensor(zero_point), x.type.dtype)
    return (elementwise.clip(rounding.round_(x / scale) + zero, quant_min, quant_max) - zero) * scale


@aten("fake_quantize_per_tensor_affine_cachemask")
def fake_quantize_with_mask(x: Tensor, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return `fake_quantize` of `x`, and a mask of the elements inside the quantized range, which the gradient needs."""
    quantized = rounding.round_(x / convert(tensor(scale), x.type.dtype)) + convert(tensor(zero_point), x.type.dtype)
    is_within = (quantized >= quant_min) & (quantized <= quant_max)
    return fake_quantize(x, scale, zero_point, quant_min, quant_max), is_within


def _times(x: Operand, factor: complex) -> Operand:
    return x if factor == 1 else x * factor


mul = in_common_type(elementwise.multiply)
add = in_common_type(lambda x, y, alpha=1: x + _times(y, alpha))
sub = in_common_type(lambda x, y, alpha=1: x - _times(y, alpha))
enter_rows({
    "add": add,
    "sub subtract": sub,
    "rsub": lambda x, y, alpha=1: sub(y, x, alpha),
    "clamp_max": lambda x, max: clamp(x, None, max),
    "addcmul": lambda x, y, z, value=1: add(x, mul(y, z) if value == 1 else mul(mul(y, z), value)),
    "addcdiv": lambda x, y, z, value=1: add(x, div(y, z) if value == 1 else mul(div(y, z), value)),
    "lerp": lambda x, end, weight: add(x, mul(weight, sub(end, x))),
    "nan_to_num": lambda x, nan=None, posinf=None, neginf=None: logic.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf),
    "polar": lambda size, angle: complex_(size * OPS["cos"](angle), size * OPS["sin"](angle)),
    "zero": lambda x: copy(x, 0),
    "hardshrink": lambda x, lambd=0.5: logic.where(elementwise.abs_(x) > lambd, x, logic.where(logic.isnan(x), x, 0)),
    "softshrink": lambda x, lambd=0.5: elementwise.sign(x) * elementwise.maximum(elementwise.abs_(x) - lambd, 0),
    "softshrink_backward hardshrink_backward": lambda grad, x, lambd: logic.where(elementwise.abs_(x) <= lambd, 0, grad),
})  # fmt: skip


def _ignore_nan(x: Tensor, y: Tensor, extreme: Tensor) -> Tensor:
    """Return `extreme`, the maximum or minimum of x and y. If only one of x and y is NaN, return the other one."""
    return logic.where(logic.isnan(x), y, logic.where(logic.isnan(y), x, extreme))


enter_rows({
    "fmax": lambda x, y: _ignore_nan(x, y, elementwise.maximum(x, y)),
    "fmin": lambda x, y: _ignore_nan(x, y, elementwise.minimum(x, y)),
    "isclose": logic.isclose,
    "heaviside": lambda x, values: logic.where(x == 0, values, convert(x > 0, x.type.dtype)),
}, in_common_type)  # fmt: skip
enter_rows({
    "xlogy": lambda x, y: logic.where(logic.isnan(y), y, logic.where(x == 0, 0.0, x * elementwise.log(y))),
    "special_zeta": lambda x, q: emit("zeta", [x, q], x.type),
}, promotion.in_common_floats)  # fmt: skip


def bessel_i1e(x: Tensor) -> Tensor:
    return emit("bessel_i1e", [x], x.type)


def sinc(x: Tensor) -> Tensor:
    x = x * math.pi
    return logic.where(x == 0, 1.0, OPS["sin"](x) / logic.where(x == 0, 1.0, x))


def _entropy(x: Tensor) -> Tensor:
    """Return -x log(x), with 0 at 0 and minus infinity for negative `x`."""
    entropy = -x * elementwise.log(logic.where(x > 0, x, 1))
    return logic.where(x >= 0, entropy, logic.where(logic.isnan(x), x, -math.inf))


def _logit(x: Tensor, eps: float | None = None) -> Tensor:
    x = x if eps is None else elementwise.clip(x, eps, 1 - eps)
    return elementwise.log(x / (1 - x))


enter_rows({
    "frac": lambda x: x - rounding.trunc(x),
    "sinc": sinc,
    "special_i1e": bessel_i1e,
    "special_ndtr": lambda x: OPS["erfc"](x * -math.sqrt(0.5)) * 0.5,
    "special_entr": _entropy,
}, in_floats)  # fmt: skip
enter_rows({"logit": _logit}, rounded_once)


@aten("polygamma")
def polygamma(n: int, x: Tensor) -> Tensor:
    x = elementwise.as_float(x)
    return emit("polygamma", [broadcast(tensor(float(n), x.type.dtype), x.shape), x], x.type)


@aten("frexp.Tensor")
def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """Split `x` into (mantissa, exponent) with x = mantissa * 2**exponent and 0.5 <= abs(mantissa) < 1.

    For zeros, infinities and NaN, the mantissa is the number itself, and the exponent is 0.
    """
    wide_x, dtype = wide(x)
    bits, mantissa_bits, bias = ("i64", 52, 1022) if wide_x.type.dtype == "f64" else ("i32", 23, 126)
    # Scale up subnormal numbers, whose leading bit is not implicit but inside the mantissa bits.
    is_subnormal = elementwise.abs_(wide_x) < 2.0 ** (1 - bias)
    pattern = logic.bitcast_convert_type(logic.where(is_subnormal, wide_x * 2.0**mantissa_bits, wide_x), bits)
    exponent = logic.bitwise_and(pattern >> mantissa_bits, 2 * bias + 3)
    mantissa_pattern = pattern - ((exponent - bias) << mantissa_bits)
    exponent = exponent - bias - logic.where(is_subnormal, mantissa_bits, 0)
    is_nonzero_finite = logic.isfinite(wide_x) & (wide_x != 0)
    mantissa = logic.where(is_nonzero_finite, logic.bitcast_convert_type(mantissa_pattern, wide_x.type.dtype), wide_x)
    return convert(mantissa, dtype), convert(logic.where(is_nonzero_finite, exponent, 0), "i32")
