"""PyTorch's convolutions, pooling and resizing, of images [n, features, ...]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.torch.promotion import wide
from meshgen.frontend.tracer import elementwise, searching
from meshgen.frontend.tracer.indexing import getitem
from meshgen.frontend.tracer.joining import flip
from meshgen.frontend.tracer.linear import tensordot
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.reduce import extreme, mean
from meshgen.frontend.tracer.scans import windows
from meshgen.frontend.tracer.shapes import moveaxis, reshape, transpose
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.frontend.tracer.windowed import conv_general_dilated

Sizes = int | Sequence[int]


def _per_spatial_dim(given: Sizes, count: int) -> list[int]:
    """A number per spatial dim; PyTorch gives one for all, alone or as a list."""
    found = [given] if isinstance(given, int) else list(given)
    return found * count if len(found) == 1 else found


def _with_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + reshape(bias, (1, -1) + (1,) * (x.ndim - 2))


@aten("conv1d", "conv2d", "conv3d")
def conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1,
         groups: int = 1) -> Tensor:  # fmt: skip
    count = weight.ndim - 2
    if x.ndim == count + 1:  # without a batch
        return reshape(found := conv(reshape(x, (1, *x.shape)), weight, bias, stride, padding, dilation, groups), found.shape[1:])  # fmt: skip
    steps, apart = _per_spatial_dim(stride, count), _per_spatial_dim(dilation, count)
    if isinstance(padding, str):  # the larger half comes last
        totals = [d * (k - 1) if padding == "same" else 0 for d, k in zip(apart, weight.shape[2:], strict=True)]
        pads = [(each // 2, each - each // 2) for each in totals]
    else:
        pads = [(each, each) for each in _per_spatial_dim(padding, count)]
    found = conv_general_dilated(x, weight, steps, pads, None, apart, None, groups)
    return _with_bias(found, bias)


@aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0,
                   output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1) -> Tensor:  # fmt: skip
    """The gradient of a convolution towards its image: zeros between the rows, and the weight [in, out / groups, ...] reversed."""
    count = weight.ndim - 2
    steps, apart, pads, more = (_per_spatial_dim(each, count) for each in (stride, dilation, padding, output_padding))
    features, out = weight.shape[0], weight.shape[1]
    kernel = flip(weight, list(range(2, weight.ndim)))
    kernel = reshape(kernel, (groups, features // groups, *kernel.shape[1:]))
    kernel = reshape(transpose(kernel, (0, 2, 1, *range(3, kernel.ndim))), (groups * out, features // groups, *weight.shape[2:]))  # fmt: skip
    edges = [d * (k - 1) - p for d, k, p in zip(apart, weight.shape[2:], pads, strict=True)]
    low_high = [(edge, edge + extra) for edge, extra in zip(edges, more, strict=True)]
    return _with_bias(conv_general_dilated(x, kernel, 1, low_high, steps, apart, None, groups), bias)


@aten("convolution", "_convolution")
def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes, dilation: Sizes, transposed: bool,
                output_padding: Sizes, groups: int, *_: Any) -> Tensor:  # fmt: skip
    if transposed:
        return conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(x, weight, bias, stride, padding, dilation, groups)


@aten("convolution_backward")
def convolution_backward(grad: Tensor, x: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None, stride: Sizes, padding: Sizes,
                         dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int, wanted: Sequence[bool]) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of image, weight and bias, as far as they are wanted."""
    if transposed:
        refuse("the gradient of a transposed convolution is not supported", "", "MG0103")
    count = weight.ndim - 2
    steps, pads, apart = (_per_spatial_dim(each, count) for each in (stride, padding, dilation))
    spans = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], apart, strict=True)]
    left = [(n + 2 * p - span) % s for n, p, span, s in zip(x.shape[2:], pads, spans, steps, strict=True)]
    found_x = conv_transpose(grad, weight, None, steps, pads, left, groups, apart) if wanted[0] else None
    found_weight = None
    if wanted[1]:
        letters = "DHW"[-count:]
        dims = (f"CN{letters}", f"IO{letters}", f"NC{letters}")
        ends = [(p, p - rest) for p, rest in zip(pads, left, strict=True)]
        found_weight = conv_general_dilated(x, grad, apart, ends, None, steps, dims, 1, groups)
        found_weight = transpose(found_weight, (1, 0, *range(2, weight.ndim)))
    bias = grad.sum([0, *range(2, grad.ndim)]) if wanted[2] else None
    return found_x, found_weight, bias


def _pooled(kind: str, x: Tensor, size: Sizes, stride: Sizes | None, padding: Sizes, ceil_mode: bool, dilation: Sizes, count: int) -> Tensor:  # fmt: skip
    sizes, apart, pads = (_per_spatial_dim(each, count) for each in (size, dilation, padding))
    steps = _per_spatial_dim(stride, count) if stride else sizes
    lead = x.ndim - count
    if ceil_mode:  # of a window that is larger than the image only its beginning has rows
        sizes = [min(size, (n + 2 * p - 1) // d + 1) for size, n, p, d in zip(sizes, x.shape[lead:], pads, apart, strict=True)]  # fmt: skip
    spans = [(n - 1) * d + 1 for n, d in zip(sizes, apart, strict=True)]
    more = [_ceil_rows(n, span, p, step) if ceil_mode else 0 for n, span, p, step in zip(x.shape[lead:], spans, pads, steps, strict=True)]  # fmt: skip
    combine = elementwise.maximum if kind == "maximum" else lambda a, b: a + b
    neutral = extreme("maximum", x.type.dtype) if kind == "maximum" else 0
    ones, zeros = [1] * lead, [0] * lead
    high = [p + extra for p, extra in zip(pads, more, strict=True)]
    return windows(combine, x, neutral, ones + sizes, ones + steps, zeros + pads, zeros + high, ones + apart)


def _ceil_rows(size: int, span: int, padding: int, step: int) -> int:
    """Rows to add at the end so that a last window that begins inside, or in the padding before, is whole."""
    count = -(-(size + 2 * padding - span) // step) + 1
    count -= (count - 1) * step >= size + padding
    return max(0, (count - 1) * step + span - size - 2 * padding)


@aten("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(x: Tensor, size: Sequence[int], stride: Sizes = (), padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False) -> Tensor:  # fmt: skip
    return _pooled("maximum", x, size, stride, padding, ceil_mode, dilation, x.ndim - 2)


@aten("max_pool2d_with_indices")
def max_pool_with_indices(x: Tensor, size: Sequence[int], stride: Sizes = (), padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The maxima, and their places in the image, which the gradient reads: the first of equal ones."""
    sizes, steps = _per_spatial_dim(size, 2), _per_spatial_dim(stride, 2) if stride else _per_spatial_dim(size, 2)
    found = max_pool(x, size, stride, padding, dilation, ceil_mode)
    apart, pads = _per_spatial_dim(dilation, 2), _per_spatial_dim(padding, 2)
    rows = [np.arange(found.shape[2 + d])[:, None] * steps[d] - pads[d] + np.arange(sizes[d]) * apart[d] for d in range(2)]  # fmt: skip
    height, width = x.shape[2:]
    at = rows[0][:, None, :, None] * width + rows[1][None, :, None, :]
    inside = ((rows[0] >= 0) & (rows[0] < height))[:, None, :, None] & ((rows[1] >= 0) & (rows[1] < width))[None, :, None, :]  # fmt: skip
    flat = (*found.shape[2:], sizes[0] * sizes[1])
    at, inside = np.where(inside, at, 0).reshape(flat).astype(np.int32), inside.reshape(flat)
    seen = getitem(reshape(x, (*x.shape[:2], height * width)), (slice(None), slice(None), tensor(at)))
    from meshgen.frontend.tracer.logic import where

    number = searching.argmax(where(tensor(inside), seen, extreme("maximum", x.type.dtype)), -1)
    starts = number // sizes[1] * (apart[0] * width) + number % sizes[1] * apart[1]
    first = (np.arange(flat[0])[:, None] * steps[0] - pads[0]) * width + np.arange(flat[1]) * steps[1] - pads[1]
    return found, convert(starts + tensor(first.astype(np.int32)), "i64")


@aten("max_pool2d_with_indices_backward")
def max_pool_backward(grad: Tensor, x: Tensor, size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: Tensor) -> Tensor:  # fmt: skip
    from meshgen.frontend.torch.ops.indexing import scatter_add
    from meshgen.frontend.tracer.creation import zeros_like

    lead = x.shape[:2]
    into = reshape(zeros_like(x, grad.type.dtype), (*lead, -1))
    return reshape(scatter_add(into, 2, reshape(indices, (*lead, -1)), reshape(grad, (*lead, -1))), x.shape)


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(x: Tensor, size: Sequence[int], stride: Sizes = (), padding: Sizes = 0, ceil_mode: bool = False, count_include_pad: bool = True,
             divisor_override: int | None = None) -> Tensor:  # fmt: skip
    widened, dtype = wide(x)
    count = x.ndim - 2
    total = _pooled("add", widened, size, stride, padding, ceil_mode, 1, count)
    if divisor_override:
        return convert(total / divisor_override, dtype)
    pads = _per_spatial_dim(padding, count)
    if (count_include_pad and not ceil_mode) or (not any(pads) and not ceil_mode):
        return convert(total / math.prod(_per_spatial_dim(size, count)), dtype)
    ones = np.ones((1, 1, *x.shape[2:]), np.float32)
    if count_include_pad:
        ones = np.pad(ones, [(0, 0), (0, 0), *((p, p) for p in pads)], constant_values=1)
    seen = _pooled(
        "add", tensor(ones), size, stride, [0] * count if count_include_pad else padding, ceil_mode, 1, count
    )
    return convert(total / convert(seen, widened.type.dtype), dtype)


def _bins(old: int, new: int) -> np.ndarray[Any, Any]:
    """Which rows are in each window of an adaptive pool: truth values [new, old]."""
    begins, ends = np.arange(new) * old // new, -(-(np.arange(new) + 1) * old // new)
    rows = np.arange(old)
    return (begins[:, None] <= rows) & (rows < ends[:, None])


def _adaptive(x: Tensor, size: Sizes, count: int) -> tuple[list[int], list[int] | None]:
    """The size of each spatial dim of the result, and the windows if all are equal."""
    old = x.shape[-count:]
    new = [s or n for s, n in zip(_per_spatial_dim(size, count), old, strict=True)]
    return new, [n // s for s, n in zip(new, old, strict=True)] if not any(
        n % s for s, n in zip(new, old, strict=True)
    ) else None


def _adaptive_avg(count: int) -> Any:
    def pooled(x: Tensor, size: Sizes) -> Tensor:
        new, windows = _adaptive(x, size, count)
        if all(each == 1 for each in new):
            return mean(x, list(range(-count, 0)), True)
        if windows is not None:
            return avg_pool(x, windows)
        found, dtype = wide(x)
        for d, size_ in enumerate(new, start=x.ndim - count):
            bins = _bins(x.shape[d], size_)
            found = _mixed_by_table(found, d, bins / bins.sum(1, keepdims=True))
        return convert(found, dtype)

    return pooled


def _adaptive_max(count: int) -> Any:
    def pooled(x: Tensor, size: Sizes) -> tuple[Tensor, Tensor]:
        new, windows = _adaptive(x, size, count)
        if windows is None:
            old = list(x.shape[-count:])
            refuse(f"adaptive_max_pool of {old} to {new} has windows of several sizes", "give sizes that divide", "MG0103")  # fmt: skip
        return max_pool_with_indices(x, windows)

    return pooled


for _count in (1, 2, 3):
    aten(f"adaptive_avg_pool{_count}d", f"_adaptive_avg_pool{_count}d")(_adaptive_avg(_count))
aten("adaptive_max_pool2d")(_adaptive_max(2))


def _mixed_by_table(x: Tensor, dim: int, table: np.ndarray[Any, Any]) -> Tensor:
    """x with a dim mixed by a table [new rows, old rows]."""
    return moveaxis(tensordot(x, tensor(table.astype(np.float32)), ([dim], [1])), -1, dim)


def _output_sizes(x: Tensor, output_size: Sequence[int] | None, scales: Sequence[float | None] | None) -> list[tuple[int, float]]:  # fmt: skip
    """Per spatial dim the new size, and how far apart its rows are in the old one."""
    found: list[tuple[int, float]] = []
    for d, size in enumerate(x.shape[2:]):
        scale = None if not scales else scales[d]
        new = output_size[d] if output_size else math.floor(size * (scale or 1))
        found.append((new, 1 / scale if scale else size / new))
    return found


def _scales_of(args: Sequence[Any]) -> Sequence[float | None] | None:
    """The scale factors: a list of the overload `vec`, else a number or None per dim."""
    if not args or all(each is None for each in args):
        return None
    return args[0] if isinstance(args[0], list | tuple) else list(args)


@aten("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def upsample_nearest(x: Tensor, output_size: Sequence[int] | None = None, *scales: Any) -> Tensor:
    for d, (new, step) in enumerate(_output_sizes(x, output_size, _scales_of(scales)), start=2):
        old = x.shape[d]
        if new % old == 0 and step == old / new:
            from meshgen.frontend.tracer.joining import repeat

            x = repeat(x, new // old, d)
        else:
            rows = np.minimum((np.arange(new) * step).astype(np.int32), old - 1)
            x = getitem(x, (slice(None),) * d + (tensor(rows.astype(np.int32)),))
    return x


@aten("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def upsample_linear(x: Tensor, output_size: Sequence[int] | None = None, align_corners: bool = False, *scales: Any) -> Tensor:  # fmt: skip
    """Between neighbouring rows, dim by dim."""
    found, dtype = wide(x)
    for d, (new, step) in enumerate(_output_sizes(x, output_size, _scales_of(scales)), start=2):
        old = x.shape[d]
        places = np.arange(new) * ((old - 1) / max(new - 1, 1)) if align_corners else np.maximum((np.arange(new) + 0.5) * step - 0.5, 0)  # fmt: skip
        low = np.minimum(places.astype(int), old - 1)
        share = (places - low)[:, None]
        rows = np.eye(old)
        found = _mixed_by_table(found, d, rows[low] * (1 - share) + rows[np.minimum(low + 1, old - 1)] * share)
    return convert(found, dtype)
