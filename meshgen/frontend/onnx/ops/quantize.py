"""Quantised numbers: scales and zero points of a tensor, of the rows of a dim, or of blocks of these."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from meshgen.frontend.onnx.ops.casts import converted, kind_named
from meshgen.frontend.onnx.ops.convolutions import convolution, with_bias
from meshgen.frontend.onnx.ops.products import less_zero
from meshgen.frontend.onnx.ops.table import Call, dim_of, kind_of, op, rank_of, shape_of
from meshgen.frontend.tracer.elementwise import clip
from meshgen.frontend.tracer.joining import repeat
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.rounding import round_
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import DTYPES, is_float


def _beside(given: Operand, x: Operand, call: Call) -> Tensor:
    """A scale or zero point at a shape that broadcasts with x."""
    given = tensor(given)
    axis = dim_of(1 if call["axis"] is None else call["axis"], max(rank_of(x), 1) if rank_of(x) != 1 else 2) if given.ndim else 0  # fmt: skip
    if given.ndim == 1 and given.shape[0] > 0 and rank_of(x) > 1 and not call["block_size"]:
        return expand_dims(given, tuple(d for d in range(rank_of(x)) if d != axis))
    if call["block_size"]:
        rows = repeat(given, call["block_size"], axis)
        size = shape_of(x)[axis]
        return rows if rows.shape[axis] == size else rows[(slice(None),) * axis + (slice(size),)]
    return given


@op("DequantizeLinear")
def dequantize_linear(call: Call, x: Operand, scale: Operand, zero: Operand = None) -> Tensor:
    """(x - zero) * scale, of the type of the scale."""
    factor = _beside(scale, x, call)
    kind = kind_named(call["output_dtype"]) if call["output_dtype"] else factor.type.dtype
    wide = "f32" if kind in ("f16", "bf16") else kind
    number = tensor(x, wide) if is_float(kind_of(x)) else tensor(tensor(x, "i32"), wide)
    if zero is not None:
        point = _beside(zero, x, call)
        number = number - tensor(point if is_float(point.type.dtype) else tensor(point, "i32"), wide)
    return convert(number * tensor(factor, wide), kind)


@op("QuantizeLinear")
def quantize_linear(call: Call, x: Operand, scale: Operand, zero: Operand = None) -> Tensor:
    """x / scale + zero, rounded to even, within the range of the type."""
    kind = kind_of(zero) if zero is not None else kind_named(call["output_dtype"]) if call["output_dtype"] else "ui8"
    point = None if zero is None else _beside(zero, x, call)
    return quantized(x, _beside(scale, x, call), point, kind, call)


def quantized(x: Operand, scale: Operand, point: Operand, kind: str, call: Call) -> Tensor:
    """A tensor at a quantised type; scale and zero point broadcast with it."""
    wide = "f32" if kind_of(x) in ("f16", "bf16", "i32") else kind_of(x)
    ratio = tensor(x, wide) / tensor(scale, wide)
    if is_float(kind):
        shifted = ratio if point is None else ratio + tensor(point, wide)
        return converted(shifted, kind, call)
    whole = round_(ratio)
    whole = whole if point is None else whole + tensor(tensor(point, "i32"), wide)
    info = ml_dtypes.iinfo(DTYPES[kind])
    return convert(convert(clip(whole, float(info.min), float(info.max)), "i32"), kind)


@op("QLinearMatMul")
def q_linear_mat_mul(call: Call, a: Operand, a_scale: Operand, a_zero: Operand, b: Operand, b_scale: Operand, b_zero: Operand,
                     y_scale: Operand, y_zero: Operand) -> Tensor:  # fmt: skip
    """The product of quantised matrices, exact in i32, quantised again."""
    total = matmul(less_zero(a, a_zero, -2), less_zero(b, b_zero, -1))
    scale = tensor(_scale_per_row(a_scale), "f32") * tensor(b_scale, "f32") / tensor(y_scale, "f32")
    return quantized(convert(total, "f32") * scale, np.ones((), np.float32), y_zero, kind_of(y_zero), call)


def _scale_per_row(scale: Operand) -> Tensor:
    """A scale per row, beside a matrix."""
    scale = tensor(scale)
    return expand_dims(scale, 1) if scale.ndim == 1 and scale.shape[0] > 1 else scale


@op("QLinearConv")
def q_linear_conv(call: Call, x: Operand, x_scale: Operand, x_zero: Operand, w: Operand, w_scale: Operand, w_zero: Operand,
                  y_scale: Operand, y_zero: Operand, bias: Operand = None) -> Tensor:  # fmt: skip
    image, kernel = (convert(each, "f64") for each in (less_zero(x, x_zero, None), less_zero(w, w_zero, 0)))
    total = with_bias(convolution(call, image, kernel), None if bias is None else tensor(bias, "f64"))
    per_feature = tensor(w_scale, "f32")
    if per_feature.ndim:
        per_feature = expand_dims(per_feature, tuple(range(1, rank_of(x) - 1)))
    scale = tensor(x_scale, "f32") * per_feature / tensor(y_scale, "f32")
    return quantized(convert(total, "f32") * scale, np.ones((), np.float32), y_zero, kind_of(y_zero), call)
