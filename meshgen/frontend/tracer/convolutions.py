"""Traced convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from meshgen.frontend.tracer.creation import ones
from meshgen.frontend.tracer.elementwise import as_float, maximum, minimum
from meshgen.frontend.tracer.joining import flip
from meshgen.frontend.tracer.operands import convert, emit, promote, tensor
from meshgen.frontend.tracer.recording import refuse, traced
from meshgen.frontend.tracer.reduce import extreme, widened
from meshgen.frontend.tracer.scans import windows
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType

Padding = str | int | Sequence[Any]


def _per_dim(value: int | Sequence[int] | None, count: int, what: str) -> list[int]:
    """Return a list with a number per spatial dim: `value` may be one number for all dims, or None for 1.

    Raises ProgramError for a list of another length, or a number below 1.
    """
    numbers = [1 if value is None else value] * count if value is None or isinstance(value, int) else list(value)
    if len(numbers) != count or any(number < 1 for number in numbers):
        refuse(f"{what} {value}: give a positive number, or one for each of the {count} spatial dims")
    return numbers


def padding_pairs(padding: Padding, sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:  # fmt: skip
    """Return (rows before, rows after) for each spatial dim.

    With `SAME`, ceil(size / stride) windows fit into the padded dim.
    """
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return [(0, 0)] * len(sizes)
        if padding.upper() not in ("SAME", "SAME_LOWER"):
            refuse(f"'{padding}' is not a padding", "the paddings are SAME, SAME_LOWER, VALID, a number, or pairs")
        total = [max(0, (math.ceil(n / step) - 1) * step + w - n) for n, w, step in zip(sizes, windows, strides, strict=True)]  # fmt: skip
        less, more = [t // 2 for t in total], [t - t // 2 for t in total]
        low, high = (less, more) if padding.upper() == "SAME" else (more, less)
        return list(zip(low, high, strict=True))
    pairs = [padding] * len(sizes) if isinstance(padding, int) else list(padding)
    if len(pairs) != len(sizes):
        refuse(f"padding {padding}: give a pair for each of the {len(sizes)} spatial dims")
    return [(pair, pair) if isinstance(pair, int) else (int(pair[0]), int(pair[1])) for pair in pairs]


@traced
def conv_general_dilated(lhs: Operand, rhs: Operand, window_strides: int | Sequence[int], padding: Padding,
                         lhs_dilation: int | Sequence[int] | None = None, rhs_dilation: int | Sequence[int] | None = None,
                         dimension_numbers: Sequence[str] | None = None, feature_group_count: int = 1,
                         batch_group_count: int = 1) -> Tensor:  # fmt: skip
    """Convolve an image with a kernel, with the arguments of `jax.lax.conv_general_dilated`.

    `dimension_numbers` names the dims of image, kernel and result (default: ("NCHW", "OIHW", "NCHW")): N batch, C
    features, I and O input and output features. `lhs_dilation` inserts zeros between the elements of the image.
    """
    dtype = promote(lhs, rhs)
    image, kernel = tensor(lhs, dtype), tensor(rhs, dtype)
    count = image.ndim - 2
    letters = "DHW"[-count:] if 0 < count <= 3 else ""
    image_dims, kernel_dims, result_dims = dimension_numbers or (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    spatial = [c for c in kernel_dims if c not in "OI"]
    named = [(image_dims, "NC", image), (kernel_dims, "OI", kernel), (result_dims, "NC", image)]
    if count < 1 or any(
        sorted(text) != sorted([*two, *spatial]) or len(text) != operand.ndim for text, two, operand in named
    ):
        refuse(
            f"the dims {image_dims}, {kernel_dims}, {result_dims} do not fit an image {image.type} and a kernel {kernel.type}"
        )
    strides, kernel_dilation = _per_dim(window_strides, count, "strides"), _per_dim(rhs_dilation, count, "dilation")
    image_dilation = _per_dim(lhs_dilation, count, "dilation")
    sizes = [
        max(0, (image.shape[image_dims.index(c)] - 1) * d + 1) for c, d in zip(spatial, image_dilation, strict=True)
    ]
    spans = [(kernel.shape[kernel_dims.index(c)] - 1) * d + 1 for c, d in zip(spatial, kernel_dilation, strict=True)]
    pads = padding_pairs(padding, sizes, spans, strides)
    features, kernel_features = (
        image.shape[image_dims.index("C")],
        kernel.shape[kernel_dims.index("I")] * feature_group_count,
    )
    if features != kernel_features or kernel.shape[kernel_dims.index("O")] % (feature_group_count * batch_group_count):
        refuse(f"an image of {features} features does not fit a kernel {kernel.type} in {feature_group_count} groups, which takes {kernel_features}")  # fmt: skip
    extent = {c: max(0, (n + a + b - span) // step + 1) for c, n, (a, b), span, step in zip(spatial, sizes, pads, spans, strides, strict=True)}  # fmt: skip
    extent |= {"N": image.shape[image_dims.index("N")] // batch_group_count, "C": kernel.shape[kernel_dims.index("O")]}
    attrs: dict[str, Any] = {
        "window_strides": tuple(strides), "lhs_dilation": tuple(image_dilation), "rhs_dilation": tuple(kernel_dilation),
        "window_reversal": (0,) * count, "low": tuple(a for a, _ in pads), "high": tuple(b for _, b in pads),
        "feature_group_count": feature_group_count, "batch_group_count": batch_group_count, "precision": ("DEFAULT", "DEFAULT"),
        "input_batch": image_dims.index("N"), "input_feature": image_dims.index("C"), "input_spatial": tuple(image_dims.index(c) for c in spatial),
        "kernel_output_feature": kernel_dims.index("O"), "kernel_input_feature": kernel_dims.index("I"),
        "kernel_spatial": tuple(kernel_dims.index(c) for c in spatial),
        "output_batch": result_dims.index("N"), "output_feature": result_dims.index("C"), "output_spatial": tuple(result_dims.index(c) for c in spatial),
    }  # fmt: skip
    return emit(
        "convolution", [image, kernel], TensorType(tuple(extent[c] for c in result_dims), image.type.dtype), attrs
    )


def conv_transposed(x: Tensor, kernel: Tensor, strides: Sequence[int], cropped: Sequence[tuple[int, int]], added: Sequence[int],
                    dilation: Sequence[int], groups: int, dimension_numbers: Sequence[str] | None = None) -> Tensor:  # fmt: skip
    """Apply a transposed convolution: dilate the image by `strides`, and convolve it with the reversed kernel.

    Args:
        kernel: [features in, features out / groups, ...].
        cropped: (rows to remove before, after) for each dim of the full result.
        added: rows to append to each dim of the result.
    """
    in_features, out_features, *kernel_sizes = kernel.shape
    grouped = flip(kernel, tuple(range(2, kernel.ndim))).reshape(
        groups, in_features // groups, out_features, *kernel_sizes
    )
    reversed_kernel = grouped.transpose(0, 2, 1, *range(3, grouped.ndim)).reshape(
        groups * out_features, in_features // groups, *kernel_sizes
    )
    edges = [(k - 1) * d for k, d in zip(kernel_sizes, dilation, strict=True)]
    padding = [(edge - a, edge - b + more) for edge, (a, b), more in zip(edges, cropped, added, strict=True)]
    return conv_general_dilated(x, reversed_kernel, 1, padding, strides, dilation, dimension_numbers, groups)


@traced
def conv(x: Operand, kernel: Operand, strides: int | Sequence[int] = 1, padding: Padding = "SAME", *,
         dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Convolve with features last, as in flax.

    The shapes are x [n, ..., features in] and kernel [..., features in / groups, features out].
    """
    letters = "DHW"[-(tensor(x).ndim - 2) :]
    dims = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    return conv_general_dilated(x, kernel, strides, padding, None, dilation, dims, groups)


def _pooled(kind: str, x: Tensor, window: Sequence[int], strides: int | Sequence[int] | None, padding: Padding, neutral: float) -> Tensor:  # fmt: skip
    count = len(window)
    if x.ndim != count + 2:
        refuse(f"pooling over {count} dims needs a tensor [n, {'...'}, features] of rank {count + 2}, not {x.type}")
    sizes, steps = _per_dim(window, count, "window"), _per_dim(strides, count, "strides")
    pads = [(0, 0), *padding_pairs(padding, x.shape[1:-1], sizes, steps), (0, 0)]
    combine = {"add": lambda a, b: a + b, "maximum": maximum, "minimum": minimum}[kind]
    low, high = [a for a, _ in pads], [b for _, b in pads]
    return windows(combine, x, neutral, [1, *sizes, 1], [1, *steps, 1], low, high)


@traced
def max_pool(x: Operand, window: Sequence[int], strides: int | Sequence[int] | None = None, padding: Padding = "VALID") -> Tensor:  # fmt: skip
    """Return the maximum of each window over the middle dims of x [n, ..., features]. The default stride is 1."""
    x = tensor(x)
    return _pooled("maximum", x, window, strides, padding, extreme("maximum", x.type.dtype))


@traced
def min_pool(x: Operand, window: Sequence[int], strides: int | Sequence[int] | None = None, padding: Padding = "VALID") -> Tensor:  # fmt: skip
    """Return the minimum of each window over the middle dims of x [n, ..., features]. The default stride is 1."""
    x = tensor(x)
    return _pooled("minimum", x, window, strides, padding, extreme("minimum", x.type.dtype))


@traced
def avg_pool(x: Operand, window: Sequence[int], strides: int | Sequence[int] | None = None, padding: Padding = "VALID",
             count_include_pad: bool = True) -> Tensor:  # fmt: skip
    """Return the mean of each window over the middle dims of x [n, ..., features]; padding counts as 0, or not at all."""
    x = as_float(x)
    wide = widened(x)
    total = _pooled("add", wide, window, strides, padding, 0)
    if count_include_pad:
        return convert(total / math.prod(window), x.type.dtype)
    counts = _pooled("add", ones((1, *x.shape[1:-1], 1), wide.type.dtype), window, strides, padding, 0)
    return convert(total / counts, x.type.dtype)
