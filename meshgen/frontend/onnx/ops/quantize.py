"""Quantized numbers: scales and zero points of a tensor, of the rows of a dim, or of blocks of these."""

from __future__ import annotations

import ml_dtypes

from meshgen.frontend.onnx.ops.casts import converted, kind_named
from meshgen.frontend.onnx.ops.products import convolution, with_bias
from meshgen.frontend.onnx.ops.table import Call, dim_of, op
from meshgen.frontend.tracer.elementwise import clip
from meshgen.frontend.tracer.joining import repeat
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.rounding import round_
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import DTYPES, is_float


def _beside(given: Tensor, x: Tensor, call: Call) -> Tensor:
    """A scale or zero point at a shape that broadcasts with x."""
    axis = dim_of(1 if call["axis"] is None else call["axis"], max(x.ndim, 1) if x.ndim != 1 else 2) if given.ndim else 0  # fmt: skip
    if given.ndim == 1 and given.shape[0] > 0 and x.ndim > 1 and not call["block_size"]:
        return expand_dims(given, tuple(d for d in range(x.ndim) if d != axis))
    if call["block_size"]:
        rows = repeat(given, call["block_size"], axis)
        size = x.shape[axis]
        return rows if rows.shape[axis] == size else rows[(slice(None),) * axis + (slice(size),)]
    return given


@op("DequantizeLinear")
def dequantize_linear(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """(x - zero) * scale, of the type of the scale."""
    factor = _beside(scale, x, call)
    kind = kind_named(call["output_dtype"]) if call["output_dtype"] else factor.type.dtype
    wide = "f32" if kind in ("f16", "bf16") else kind
    number = x.astype(wide) if is_float(x.type.dtype) else x.astype("i32").astype(wide)
    if zero is not None:
        point = _beside(zero, x, call)
        number = number - (point if is_float(point.type.dtype) else point.astype("i32")).astype(wide)
    return (number * factor.astype(wide)).astype(kind)


@op("QuantizeLinear")
def quantize_linear(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """x / scale + zero, rounded to even, within the range of the type."""
    kind = zero.type.dtype if zero is not None else kind_named(call["output_dtype"]) if call["output_dtype"] else "ui8"
    wide = "f32" if x.type.dtype in ("f16", "bf16", "i32") else x.type.dtype
    ratio = x.astype(wide) / _beside(scale, x, call).astype(wide)
    return _quantized(call, ratio, None if zero is None else _beside(zero, x, call), kind)


def _quantized(call: Call, ratio: Tensor, point: Tensor | None, kind: str) -> Tensor:
    """ratio + point at a quantized type; the zero point broadcasts with the ratio."""
    wide = ratio.type.dtype
    if is_float(kind):
        return converted(ratio if point is None else ratio + point.astype(wide), kind, call)
    whole = round_(ratio)
    whole = whole if point is None else whole + point.astype("i32").astype(wide)
    info = ml_dtypes.iinfo(DTYPES[kind])
    return clip(whole, float(info.min), float(info.max)).astype("i32").astype(kind)


def _less_zero(x: Tensor, zero: Tensor | None, dim: int | None) -> Tensor:
    """A quantized tensor as i32, less its zero point: one number, or one per row of a dim."""
    x = x.astype("i32")
    if zero is None:
        return x
    zero = zero.astype("i32")
    if zero.ndim == 1 and dim is not None:
        zero = expand_dims(zero, tuple(d for d in range(x.ndim) if d != dim % x.ndim))
    return x - zero


@op("MatMulInteger")
def matmul_integer(call: Call, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:  # fmt: skip
    """Exact, in i32; a zero point per row of the first, and per column of the second."""
    return matmul(_less_zero(a, a_zero, -2), _less_zero(b, b_zero, -1))


@op("ConvInteger")
def conv_integer(call: Call, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, bias: Tensor | None = None) -> Tensor:  # fmt: skip
    """Computed in f64, in which sums of products of bytes are exact."""
    image, kernel = (each.astype("f64") for each in (_less_zero(x, x_zero, None), _less_zero(w, w_zero, 0)))
    return with_bias(convolution(call, image, kernel), None if bias is None else bias.astype("f64")).astype("i32")


@op("QLinearMatMul")
def q_linear_mat_mul(call: Call, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
                     y_scale: Tensor, y_zero: Tensor) -> Tensor:  # fmt: skip
    """The product of quantized matrices, exact in i32, quantized again."""
    per_row = expand_dims(a_scale, 1) if a_scale.ndim == 1 and a_scale.shape[0] > 1 else a_scale
    scale = per_row.astype("f32") * b_scale.astype("f32") / y_scale.astype("f32")
    total = matmul_integer(call, a, b, a_zero, b_zero)
    return _quantized(call, total.astype("f32") * scale, y_zero, y_zero.type.dtype)


@op("QLinearConv")
def q_linear_conv(call: Call, x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
                  y_scale: Tensor, y_zero: Tensor, bias: Tensor | None = None) -> Tensor:  # fmt: skip
    per_feature = expand_dims(w_scale, tuple(range(1, x.ndim - 1))) if w_scale.ndim else w_scale
    scale = x_scale.astype("f32") * per_feature.astype("f32") / y_scale.astype("f32")
    total = conv_integer(call, x, w, x_zero, w_zero, bias)
    return _quantized(call, total.astype("f32") * scale, y_zero, y_zero.type.dtype)
