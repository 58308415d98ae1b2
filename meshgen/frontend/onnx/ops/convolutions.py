"""Convolutions, with features in dim 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshgen.frontend.onnx.ops.products import less_zero
from meshgen.frontend.onnx.ops.table import Call, enter_rows, op, rank_of, shape_of
from meshgen.frontend.tracer.joining import flip
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import reshape, transpose
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.frontend.tracer.windowed import conv_general_dilated

Pairs = list[tuple[int, int]]
_NAMED = {"SAME_UPPER": "SAME", "SAME_LOWER": "SAME_LOWER", "VALID": "VALID"}


def _dims(count: int) -> tuple[str, str, str]:
    """Batch and features first; kernels with features out first."""
    spatial = "0123456789"[:count]
    return f"NC{spatial}", f"OI{spatial}", f"NC{spatial}"


def padding_of(call: Call, count: int) -> str | Pairs:
    """The padding: by name, or rows before and after each spatial dim."""
    if (named := call["auto_pad"] or "NOTSET") != "NOTSET":
        return _NAMED[named]
    pads = call["pads"] or [0] * (2 * count)
    return list(zip(pads[:count], pads[count:], strict=True))


def _require_kernel(call: Call, x: Operand, w: Operand) -> None:
    """Raise ProgramError MG0104 for an image or weights of another rank or kernel than the attributes say."""
    taps = list(shape_of(w)[2:])
    if rank_of(x) != rank_of(w) or rank_of(x) < 3:
        refuse(f"an image of rank {rank_of(x)} does not fit weights of rank {rank_of(w)}")
    if call["kernel_shape"] and list(call["kernel_shape"]) != taps:
        refuse(f"kernel_shape is {list(call['kernel_shape'])}, but the weights have a kernel of {taps}")
    for name, count in (("strides", len(taps)), ("dilations", len(taps)), ("pads", 2 * len(taps))):
        if call[name] and len(call[name]) != count:
            refuse(f"{name} has {len(call[name])} numbers, but {len(taps)} spatial dims need {count}")


def convolution(call: Call, x: Operand, w: Operand) -> Tensor:
    _require_kernel(call, x, w)
    count = len(shape_of(x)) - 2
    strides, dilations = call["strides"] or [1] * count, call["dilations"] or [1] * count
    return conv_general_dilated(x, w, strides, padding_of(call, count), None, dilations, _dims(count), call["group"] or 1)  # fmt: skip


def with_bias(x: Tensor, bias: Operand) -> Tensor:
    """Plus a number per feature."""
    return x if bias is None else x + reshape(bias, (-1, *[1] * (x.ndim - 2)))


@op("ConvInteger")
def conv_integer(call: Call, x: Operand, w: Operand, x_zero: Operand = None, w_zero: Operand = None) -> Tensor:
    """Computed in f64, in which sums of products of bytes are exact."""
    image, kernel = (convert(each, "f64") for each in (less_zero(x, x_zero, None), less_zero(w, w_zero, 0)))
    return convert(convolution(call, image, kernel), "i32")


@op("ConvTranspose")
def conv_transpose(call: Call, x: Operand, w: Operand, bias: Operand = None) -> Tensor:
    """The adjoint of a convolution: one over the image with zeros between its elements, with the kernel reversed."""
    _require_kernel(call, x, w)
    count, group = len(shape_of(x)) - 2, call["group"] or 1
    ins, outs, *taps = shape_of(w)
    strides, dilations = call["strides"] or [1] * count, call["dilations"] or [1] * count
    spans = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    pads, more = _transposed_padding(call, shape_of(x)[2:], spans, strides)
    parts = reshape(tensor(w), (group, ins // group, outs, *taps))
    kernel = reshape(transpose(parts, (0, 2, 1, *range(3, 3 + count))), (group * outs, ins // group, *taps))
    kernel = flip(kernel, tuple(range(2, 2 + count)))
    around = [(s - 1 - a, s - 1 - b + m) for s, (a, b), m in zip(spans, pads, more, strict=True)]
    found = conv_general_dilated(x, kernel, [1] * count, around, strides, dilations, _dims(count), group)
    return with_bias(found, bias)


def _transposed_padding(call: Call, sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int]) -> tuple[Pairs, list[int]]:  # fmt: skip
    """What is cut off before and after each dim of the whole result, and the rows added to it."""
    count = len(sizes)
    more: list[int] = list(call["output_padding"] or [0] * count)
    named = call["auto_pad"] or "NOTSET"
    wanted: Any = call["output_shape"] or ([n * s for n, s in zip(sizes, strides, strict=True)] if "SAME" in named else None)  # fmt: skip
    if wanted is None:
        pads = padding_of(call, count)
        return ([(0, 0)] * count if isinstance(pads, str) else pads), more
    pairs: Pairs = []
    for n, step, span, extra, size in zip(sizes, strides, spans, more, wanted[-count:], strict=True):
        total = step * (n - 1) + extra + span - size
        half = total // 2 if named == "SAME_UPPER" else total - total // 2
        pairs.append((half, total - half))
    return pairs, more


enter_rows({"Conv": lambda call, x, w, bias=None: with_bias(convolution(call, x, w), bias)})
