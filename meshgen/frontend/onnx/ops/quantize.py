"""Quantization. Scales and zero points apply to a tensor, to a row of one dim, or to a block of rows."""

from __future__ import annotations

import ml_dtypes

from meshgen.frontend.onnx.ops.casts import converted, dtype_of_code
from meshgen.frontend.onnx.ops.matmul import convolution, with_bias
from meshgen.frontend.onnx.ops.table import Call, dim_of, op
from meshgen.frontend.tracer.elementwise import clip
from meshgen.frontend.tracer.joining import repeat
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.rounding import round_
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import DTYPES, is_float


def _broadcast_to(parameter: Tensor, x: Tensor, call: Call) -> Tensor:
    """Reshape or repeat `parameter`, a scale or zero point, so that it broadcasts with `x`."""
    axis = dim_of(1 if call["axis"] is None else call["axis"], max(x.ndim, 1) if x.ndim != 1 else 2) if parameter.ndim else 0  # fmt: skip
    if parameter.ndim == 1 and parameter.shape[0] > 0 and x.ndim > 1 and not call["block_size"]:
        return expand_dims(parameter, tuple(d for d in range(x.ndim) if d != axis))
    if call["block_size"]:
        rows = repeat(parameter, call["block_size"], axis)
        size = x.shape[axis]
        return rows if rows.shape[axis] == size else rows[(slice(None),) * axis + (slice(size),)]
    return parameter


@op("DequantizeLinear")
def dequantize_linear(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """Return (x - zero) * scale in the dtype of the scale."""
    factor = _broadcast_to(scale, x, call)
    kind = dtype_of_code(call["output_dtype"]) if call["output_dtype"] else factor.type.dtype
    wide = "f32" if kind in ("f16", "bf16") else kind
    value = x.astype(wide) if is_float(x.type.dtype) else x.astype("i32").astype(wide)
    if zero is not None:
        point = _broadcast_to(zero, x, call)
        value = value - (point if is_float(point.type.dtype) else point.astype("i32")).astype(wide)
    return (value * factor.astype(wide)).astype(kind)


@op("QuantizeLinear")
def quantize_linear(call: Call, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """Return x / scale + zero, rounded to nearest even and clamped to the range of the dtype."""
    kind = (
        zero.type.dtype if zero is not None else dtype_of_code(call["output_dtype"]) if call["output_dtype"] else "ui8"
    )
    wide = "f32" if x.type.dtype in ("f16", "bf16", "i32") else x.type.dtype
    ratio = x.astype(wide) / _broadcast_to(scale, x, call).astype(wide)
    return _quantize(call, ratio, None if zero is None else _broadcast_to(zero, x, call), kind)


def _quantize(call: Call, ratio: Tensor, point: Tensor | None, kind: str) -> Tensor:
    """Round `ratio`, add the zero point `point`, and clamp the sum to the range of the quantized dtype `kind`."""
    wide = ratio.type.dtype
    if is_float(kind):
        return converted(ratio if point is None else ratio + point.astype(wide), kind, call)
    rounded = round_(ratio)
    rounded = rounded if point is None else rounded + point.astype("i32").astype(wide)
    info = ml_dtypes.iinfo(DTYPES[kind])
    return clip(rounded, float(info.min), float(info.max)).astype("i32").astype(kind)


def _subtract_zero_point(x: Tensor, zero: Tensor | None, dim: int | None) -> Tensor:
    """Return `x` as i32, minus the zero point: a single number, or one number per row of the dim `dim`."""
    x = x.astype("i32")
    if zero is None:
        return x
    zero = zero.astype("i32")
    if zero.ndim == 1 and dim is not None:
        zero = expand_dims(zero, tuple(d for d in range(x.ndim) if d != dim % x.ndim))
    return x - zero


@op("MatMulInteger")
def matmul_integer(call: Call, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:  # fmt: skip
    """Multiply quantized matrices exactly, in i32.

    `a_zero` may have one number per row of `a`, `b_zero` one per column of `b`.
    """
    return matmul(_subtract_zero_point(a, a_zero, -2), _subtract_zero_point(b, b_zero, -1))


@op("ConvInteger")
def conv_integer(call: Call, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, bias: Tensor | None = None) -> Tensor:  # fmt: skip
    """Convolve quantized tensors in f64, which represents sums of products of 8-bit integers exactly."""
    image, kernel = (
        operand.astype("f64") for operand in (_subtract_zero_point(x, x_zero, None), _subtract_zero_point(w, w_zero, 0))
    )
    return with_bias(convolution(call, image, kernel), None if bias is None else bias.astype("f64")).astype("i32")


@op("QLinearMatMul")
def q_linear_mat_mul(call: Call, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor,
                     y_scale: Tensor, y_zero: Tensor) -> Tensor:  # fmt: skip
    """Multiply quantized matrices exactly, in i32, and quantize the result."""
    per_row = expand_dims(a_scale, 1) if a_scale.ndim == 1 and a_scale.shape[0] > 1 else a_scale
    scale = per_row.astype("f32") * b_scale.astype("f32") / y_scale.astype("f32")
    total = matmul_integer(call, a, b, a_zero, b_zero)
    return _quantize(call, total.astype("f32") * scale, y_zero, y_zero.type.dtype)


@op("QLinearConv")
def q_linear_conv(call: Call, x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor,
                  y_scale: Tensor, y_zero: Tensor, bias: Tensor | None = None) -> Tensor:  # fmt: skip
    per_feature = expand_dims(w_scale, tuple(range(1, x.ndim - 1))) if w_scale.ndim else w_scale
    scale = x_scale.astype("f32") * per_feature.astype("f32") / y_scale.astype("f32")
    total = conv_integer(call, x, w, x_zero, w_zero, bias)
    return _quantize(call, total.astype("f32") * scale, y_zero, y_zero.type.dtype)
