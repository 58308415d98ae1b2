"""PyTorch's element-wise operations: arithmetic, comparisons, functions of one number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from meshgen.frontend.torch.ops.table import aten, enter
from meshgen.frontend.torch.promotion import floats, promoted, result_type, wide
from meshgen.frontend.tracer import elementwise, logic, rounding
from meshgen.frontend.tracer.operands import broadcast, convert, emit, tensor
from meshgen.frontend.tracer.recording import OPS
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType, is_complex, is_inexact

_SAME = "neg negative abs absolute sign sgn logical_not bitwise_not isnan isinf isposinf isneginf real imag square conj conj_physical _conj _conj_physical _neg_view positive signbit"
_FLOATS = (
    "exp expm1 log log1p sqrt rsqrt sin cos tan sinh cosh tanh asin arcsin acos arccos atan arctan asinh acosh atanh erf erfc erfinv lgamma "
    "digamma sigmoid reciprocal exp2 log2 log10 deg2rad rad2deg special_expit special_exp2 special_gammaln special_psi arcsinh arccosh arctanh"
)
_NAMES = {"neg": "negative", "_neg_view": "negative", "sgn": "sign", "erfinv": "erf_inv", "conj_physical": "conj", "_conj": "conj", "_conj_physical": "conj", "special_expit": "sigmoid", "special_exp2": "exp2", "special_gammaln": "lgamma", "special_psi": "digamma", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh"}  # fmt: skip


_WIDEST = {bool: "i1", int: "i64", float: "f64", complex: "c128"}  # tensors that torch makes of numbers


def _of_one(name: str, is_float: bool) -> Callable[..., Tensor]:
    function = OPS[_NAMES.get(name, name)]

    def computed(x: Operand) -> Tensor:
        x = tensor(x, _WIDEST.get(type(x)))
        return function(floats(x) if is_float else x)

    return computed


for _names, _is_float in ((_SAME, False), (_FLOATS, True)):
    for _name in _names.split():
        enter((_name,), _of_one(_name, _is_float))


def _of_two(function: Callable[..., Tensor], **how: bool) -> Callable[..., Tensor]:
    return lambda x, y: function(*promoted(x, y, **how))


for _name in ["eq", "ne", "lt", "le", "gt", "ge"]:
    _long = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}[_name]  # fmt: skip
    enter((_name, _long), _of_two(OPS[_long]))
for _name in ["bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum", "remainder", "fmod", "hypot"]:
    enter((_name,), _of_two(OPS[_name]))
for _name in ["logical_and", "logical_or", "logical_xor"]:
    enter((_name,), _of_two(OPS[_name]))
for _name in ["atan2", "logaddexp", "copysign", "nextafter"]:
    enter((_name,), _of_two(OPS[_name], floats=True))
enter(("arctan2",), _of_two(OPS["atan2"], floats=True))
enter(("__and__", "__or__", "__xor__"), _of_two(logic.bitwise_and))
enter(("__or__",), _of_two(logic.bitwise_or))
enter(("__xor__",), _of_two(logic.bitwise_xor))
enter(("fmax",), _of_two(lambda x, y: logic.where(logic.isnan(x), y, logic.where(logic.isnan(y), x, elementwise.maximum(x, y)))))  # fmt: skip
enter(("fmin",), _of_two(lambda x, y: logic.where(logic.isnan(x), y, logic.where(logic.isnan(y), x, elementwise.minimum(x, y)))))  # fmt: skip
enter(("bitwise_left_shift", "__lshift__"), _of_two(logic.left_shift))
enter(("bitwise_right_shift", "__rshift__"), _of_two(logic.right_shift))


@aten("add")
def add(x: Operand, y: Operand, alpha: complex = 1) -> Tensor:
    left, right = promoted(x, y)
    return elementwise.add(left, right if alpha == 1 else right * alpha)


@aten("sub", "subtract")
def sub(x: Operand, y: Operand, alpha: complex = 1) -> Tensor:
    left, right = promoted(x, y)
    return left - (right if alpha == 1 else right * alpha)


@aten("rsub")
def rsub(x: Operand, y: Operand, alpha: complex = 1) -> Tensor:
    return sub(y, x, alpha)


@aten("mul", "multiply")
def mul(x: Operand, y: Operand) -> Tensor:
    return elementwise.multiply(*promoted(x, y))


@aten("div", "divide", "true_divide")
def div(x: Operand, y: Operand, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode is None:
        left, right = promoted(x, y, floats=True)
        return left / right
    if rounding_mode == "floor":
        return rounding.floor_divide(*promoted(x, y))
    left, right = promoted(x, y)
    if is_inexact(left.type.dtype):
        return rounding.trunc(left / right)
    return elementwise.binary("divide", left, right)  # integers are cut off towards zero


@aten("floor_divide")
def floor_divide(x: Operand, y: Operand) -> Tensor:
    return rounding.floor_divide(*promoted(x, y))


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


@aten("clamp", "clip")
def clamp(x: Operand, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    bounds = [each for each in (min, max) if each is not None]
    found = convert(tensor(x), result_type(x, *bounds))
    found = found if min is None else elementwise.maximum(*promoted(found, min))
    return found if max is None else elementwise.minimum(*promoted(found, max))


@aten("clamp_min")
def clamp_min(x: Operand, min: Operand) -> Tensor:
    return clamp(x, min)


@aten("clamp_max")
def clamp_max(x: Operand, max: Operand) -> Tensor:
    return clamp(x, None, max)


@aten("addcmul")
def addcmul(x: Operand, y: Operand, z: Operand, value: complex = 1) -> Tensor:
    return add(x, mul(y, z) if value == 1 else mul(mul(y, z), value))


@aten("addcdiv")
def addcdiv(x: Operand, y: Operand, z: Operand, value: complex = 1) -> Tensor:
    return add(x, div(y, z) if value == 1 else mul(div(y, z), value))


@aten("lerp")
def lerp(x: Operand, end: Operand, weight: Operand) -> Tensor:
    return add(x, mul(weight, sub(end, x)))


@aten("xlogy")
def xlogy(x: Operand, y: Operand) -> Tensor:
    left, right = promoted(x, y, floats=True)
    return logic.where(logic.isnan(right), right, logic.where(left == 0, 0.0, left * elementwise.log(right)))


@aten("isfinite")
def isfinite(x: Operand) -> Tensor:
    return logic.isfinite(x)


@aten("isclose")
def isclose(x: Operand, y: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    left, right = promoted(x, y)
    return logic.isclose(left, right, rtol, atol, equal_nan)


@aten("nan_to_num")
def nan_to_num(x: Operand, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:  # fmt: skip
    return logic.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


@aten("round")
def round_(x: Operand, decimals: int = 0) -> Tensor:
    return rounding.round_(x, decimals)


def _rounding(function: Callable[..., Tensor]) -> Callable[[Operand], Tensor]:
    """A rounding: integers are whole already."""
    return lambda x: function(x) if is_inexact(tensor(x).type.dtype) else tensor(x)


for _name, _function in (("floor", rounding.floor), ("ceil", rounding.ceil), ("trunc", rounding.trunc), ("fix", rounding.trunc)):  # fmt: skip
    enter((_name,), _rounding(_function))


@aten("frac")
def frac(x: Operand) -> Tensor:
    x = floats(x)
    return x - rounding.trunc(x)


@aten("view_as_real")
def view_as_real(x: Tensor) -> Tensor:
    return OPS["stack"]([elementwise.real(x), elementwise.imag(x)], -1)


@aten("view_as_complex")
def view_as_complex(x: Tensor) -> Tensor:
    return complex_(x[..., 0], x[..., 1])


@aten("complex")
def complex_(re: Tensor, im: Tensor) -> Tensor:
    """A complex tensor of its parts."""
    re, im = promoted(re, im)
    return emit("complex", [re, im], TensorType(re.shape, "c128" if re.type.dtype == "f64" else "c64"))


@aten("angle")
def angle(x: Tensor) -> Tensor:
    """The angle of complex numbers; 0 or pi of others."""
    if is_complex(x.type.dtype):
        return OPS["atan2"](elementwise.imag(x), elementwise.real(x))
    x = floats(x)
    return logic.where(x < 0, math.pi, logic.where(x == x, 0.0, x))


@aten("special_i1e")
def bessel_i1e(x: Tensor) -> Tensor:
    x = floats(x)
    return emit("bessel_i1e", [x], x.type)


@aten("special_i1")
def bessel_i1(x: Tensor) -> Tensor:
    x, dtype = wide(x)
    return convert(bessel_i1e(x) * elementwise.exp(elementwise.abs_(x)), dtype)


@aten("polygamma")
def polygamma(n: int, x: Tensor) -> Tensor:
    x = floats(x)
    return emit("polygamma", [broadcast(tensor(float(n), x.type.dtype), x.shape), x], x.type)


@aten("special_zeta")
def zeta(x: Operand, q: Operand) -> Tensor:
    left, right = promoted(x, q, floats=True)
    return emit("zeta", [left, right], left.type)


@aten("polar")
def polar(size: Tensor, angle: Tensor) -> Tensor:
    return complex_(size * OPS["cos"](angle), size * OPS["sin"](angle))


@aten("logit")
def logit(x: Operand, eps: float | None = None) -> Tensor:
    x, dtype = wide(x)
    x = x if eps is None else elementwise.clip(x, eps, 1 - eps)
    return convert(elementwise.log(x / (1 - x)), dtype)


@aten("sinc")
def sinc(x: Operand) -> Tensor:
    x = floats(x) * math.pi
    return logic.where(x == 0, 1.0, OPS["sin"](x) / logic.where(x == 0, 1.0, x))


@aten("copy", "fill", "fill.Scalar", "fill.Tensor")
def copy(x: Tensor, value: Operand, non_blocking: bool = False) -> Tensor:
    """The value at the shape and type of x."""
    return broadcast(tensor(value, x.type.dtype), x.shape)


@aten("zero")
def zero(x: Tensor) -> Any:
    return copy(x, 0)


@aten("fake_quantize_per_tensor_affine")
def fake_quantize(x: Tensor, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int) -> Tensor:
    """x as it is after it is quantized and dequantized."""
    scale, zero = convert(tensor(scale), x.type.dtype), convert(tensor(zero_point), x.type.dtype)
    return (elementwise.clip(rounding.round_(x / scale) + zero, quant_min, quant_max) - zero) * scale


@aten("fake_quantize_per_tensor_affine_cachemask")
def fake_quantize_with_mask(x: Tensor, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Beside it whether an element is within the range, as its gradient reads it."""
    number = rounding.round_(x / convert(tensor(scale), x.type.dtype)) + convert(tensor(zero_point), x.type.dtype)
    is_within = logic.logical_and(number >= quant_min, number <= quant_max)
    return fake_quantize(x, scale, zero_point, quant_min, quant_max), is_within


@aten("hardshrink")
def hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    return logic.where(elementwise.abs_(x) > lambd, x, logic.where(logic.isnan(x), x, 0))


@aten("softshrink")
def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    return elementwise.sign(x) * elementwise.maximum(elementwise.abs_(x) - lambd, 0)


@aten("heaviside")
def heaviside(x: Tensor, values: Tensor) -> Tensor:
    left, right = promoted(x, values)
    return logic.where(left == 0, right, convert(left > 0, left.type.dtype))


@aten("special_ndtr")
def normal_distribution(x: Operand) -> Tensor:
    x = floats(x)
    return OPS["erfc"](x * -math.sqrt(0.5)) * 0.5


@aten("special_entr")
def entropy(x: Operand) -> Tensor:
    """-x log(x); 0 at 0, and minus infinity below."""
    x = floats(x)
    found = -x * elementwise.log(logic.where(x > 0, x, 1))
    return logic.where(x >= 0, found, logic.where(logic.isnan(x), x, -math.inf))


@aten("frexp.Tensor")
def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mantissa, from 0.5 to 1, and the exponent of 2; of zeros, infinities and NaN themselves and 0."""
    wide_x, dtype = wide(x)
    bits, mantissa_bits, bias = ("i64", 52, 1022) if wide_x.type.dtype == "f64" else ("i32", 23, 126)
    is_small = elementwise.abs_(wide_x) < 2.0 ** (1 - bias)  # its exponent is in the mantissa
    pattern = logic.bitcast_convert_type(logic.where(is_small, wide_x * 2.0**mantissa_bits, wide_x), bits)
    exponent = logic.bitwise_and(pattern >> mantissa_bits, 2 * bias + 3)
    rest = pattern - ((exponent - bias) << mantissa_bits)
    exponent = exponent - bias - logic.where(is_small, mantissa_bits, 0)
    is_plain = logic.logical_and(logic.isfinite(wide_x), wide_x != 0)
    mantissa = logic.where(is_plain, logic.bitcast_convert_type(rest, wide_x.type.dtype), wide_x)
    return convert(mantissa, dtype), convert(logic.where(is_plain, exponent, 0), "i32")


def _shrunk_backward(grad: Tensor, x: Tensor, lambd: float) -> Tensor:
    return logic.where(elementwise.abs_(x) <= lambd, 0, grad)


enter(("softshrink_backward", "hardshrink_backward"), _shrunk_backward)
