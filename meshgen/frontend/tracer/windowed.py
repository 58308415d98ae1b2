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


def _per_dim(given: int | Sequence[int] | None, count: int, what: str) -> list[int]:
    """A number per spatial dim. Raises ProgramError for a wrong number of them."""
    found = [1 if given is None else given] * count if given is None or isinstance(given, int) else list(given)
    if len(found) != count or any(each < 1 for each in found):
        refuse(f"{what} {given}: give a positive number, or one for each of the {count} spatial dims")
    return found


def padding_pairs(padding: Padding, sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:  # fmt: skip
    """How much is added before and after each spatial dim. `SAME`: so many windows as strides fit into it."""
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
    return [(each, each) if isinstance(each, int) else (int(each[0]), int(each[1])) for each in pairs]


@traced
def conv_general_dilated(lhs: Operand, rhs: Operand, window_strides: int | Sequence[int], padding: Padding,
                         lhs_dilation: int | Sequence[int] | None = None, rhs_dilation: int | Sequence[int] | None = None,
                         dimension_numbers: Sequence[str] | None = None, feature_group_count: int = 1,
                         batch_group_count: int = 1) -> Tensor:  # fmt: skip
    """A convolution, as `jax.lax.conv_general_dilated`.

    `dimension_numbers` name the dims of image, kernel and result, as ("NHWC", "HWIO", "NHWC"): N batch, C features, I and O features in
    and out, others spatial; ("NCHW", "OIHW", "NCHW") unless given. `lhs_dilation` puts zeros between the image's elements.
    """
    dtype = promote(lhs, rhs)
    image, kernel = tensor(lhs, dtype), tensor(rhs, dtype)
    count = image.ndim - 2
    letters = "DHW"[-count:] if 0 < count <= 3 else ""
    ins, taps, outs = dimension_numbers or (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    spatial = [c for c in taps if c not in "OI"]
    named = [(ins, "NC", image), (taps, "OI", kernel), (outs, "NC", image)]
    if count < 1 or any(
        sorted(text) != sorted([*two, *spatial]) or len(text) != each.ndim for text, two, each in named
    ):
        refuse(f"the dims {ins}, {taps}, {outs} do not fit an image {image.type} and a kernel {kernel.type}")
    strides, apart = _per_dim(window_strides, count, "strides"), _per_dim(rhs_dilation, count, "dilation")
    between = _per_dim(lhs_dilation, count, "dilation")
    sizes = [max(0, (image.shape[ins.index(c)] - 1) * d + 1) for c, d in zip(spatial, between, strict=True)]
    spans = [(kernel.shape[taps.index(c)] - 1) * d + 1 for c, d in zip(spatial, apart, strict=True)]
    pads = padding_pairs(padding, sizes, spans, strides)
    features, wanted = image.shape[ins.index("C")], kernel.shape[taps.index("I")] * feature_group_count
    if features != wanted or kernel.shape[taps.index("O")] % (feature_group_count * batch_group_count):
        refuse(f"an image of {features} features does not fit a kernel {kernel.type} in {feature_group_count} groups, which takes {wanted}")  # fmt: skip
    extent = {c: max(0, (n + a + b - span) // step + 1) for c, n, (a, b), span, step in zip(spatial, sizes, pads, spans, strides, strict=True)}  # fmt: skip
    extent |= {"N": image.shape[ins.index("N")] // batch_group_count, "C": kernel.shape[taps.index("O")]}
    attrs: dict[str, Any] = {
        "window_strides": tuple(strides), "lhs_dilation": tuple(between), "rhs_dilation": tuple(apart),
        "window_reversal": (0,) * count, "low": tuple(a for a, _ in pads), "high": tuple(b for _, b in pads),
        "feature_group_count": feature_group_count, "batch_group_count": batch_group_count, "precision": ("DEFAULT", "DEFAULT"),
        "input_batch": ins.index("N"), "input_feature": ins.index("C"), "input_spatial": tuple(ins.index(c) for c in spatial),
        "kernel_output_feature": taps.index("O"), "kernel_input_feature": taps.index("I"),
        "kernel_spatial": tuple(taps.index(c) for c in spatial),
        "output_batch": outs.index("N"), "output_feature": outs.index("C"), "output_spatial": tuple(outs.index(c) for c in spatial),
    }  # fmt: skip
    return emit("convolution", [image, kernel], TensorType(tuple(extent[c] for c in outs), image.type.dtype), attrs)


def conv_transposed(x: Tensor, kernel: Tensor, strides: Sequence[int], cropped: Sequence[tuple[int, int]], added: Sequence[int],
                    dilation: Sequence[int], groups: int, dimension_numbers: Sequence[str] | None = None) -> Tensor:  # fmt: skip
    """The adjoint of a convolution: zeros between the elements of the image, and the kernel [features in, features out / groups, ...] reversed.

    `cropped` rows are cut off before and after each dim of the whole result, and `added` rows are put after it.
    """
    ins, outs, *taps = kernel.shape
    parts = flip(kernel, tuple(range(2, kernel.ndim))).reshape(groups, ins // groups, outs, *taps)
    turned = parts.transpose(0, 2, 1, *range(3, parts.ndim)).reshape(groups * outs, ins // groups, *taps)
    edges = [(k - 1) * d for k, d in zip(taps, dilation, strict=True)]
    around = [(edge - a, edge - b + more) for edge, (a, b), more in zip(edges, cropped, added, strict=True)]
    return conv_general_dilated(x, turned, 1, around, strides, dilation, dimension_numbers, groups)


@traced
def conv(x: Operand, kernel: Operand, strides: int | Sequence[int] = 1, padding: Padding = "SAME", *,
         dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """A convolution with features last: x [n, ..., features in], kernel [..., features in / groups, features out], as in flax."""
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
    """The largest element of each window over the middle dims of x [n, ..., features]; windows 1 apart unless `strides` says otherwise."""
    x = tensor(x)
    return _pooled("maximum", x, window, strides, padding, extreme("maximum", x.type.dtype))


@traced
def min_pool(x: Operand, window: Sequence[int], strides: int | Sequence[int] | None = None, padding: Padding = "VALID") -> Tensor:  # fmt: skip
    """The smallest element of each window over the middle dims of x [n, ..., features]; windows 1 apart unless `strides` says otherwise."""
    x = tensor(x)
    return _pooled("minimum", x, window, strides, padding, extreme("minimum", x.type.dtype))


@traced
def avg_pool(x: Operand, window: Sequence[int], strides: int | Sequence[int] | None = None, padding: Padding = "VALID",
             count_include_pad: bool = True) -> Tensor:  # fmt: skip
    """The mean of each window over the middle dims of x [n, ..., features]; padding counts as 0, or not at all."""
    x = as_float(x)
    wide = widened(x)
    total = _pooled("add", wide, window, strides, padding, 0)
    if count_include_pad:
        return convert(total / math.prod(window), x.type.dtype)
    counts = _pooled("add", ones((1, *x.shape[1:-1], 1), wide.type.dtype), window, strides, padding, 0)
    return convert(total / counts, x.type.dtype)
