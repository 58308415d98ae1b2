"""PyTorch convolutions of images [n, features, ...] and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.tracer.convolutions import conv_general_dilated, conv_transposed
from meshgen.frontend.tracer.tensor import Tensor

Sizes = int | Sequence[int]


def per_spatial_dim(value: Sizes, count: int) -> list[int]:
    """Expand `value` to one number per spatial dim. PyTorch also accepts a single number, alone or in a list."""
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def _with_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + bias.reshape((1, -1) + (1,) * (x.ndim - 2))


@aten("conv1d", "conv2d", "conv3d")
def conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1,
         groups: int = 1) -> Tensor:  # fmt: skip
    count = weight.ndim - 2
    if x.ndim == count + 1:  # The image has no batch dim.
        batched = conv(x.reshape(1, *x.shape), weight, bias, stride, padding, dilation, groups)
        return batched.reshape(batched.shape[1:])
    steps, dilations = per_spatial_dim(stride, count), per_spatial_dim(dilation, count)
    if isinstance(padding, str):  # For an odd total, the padding after the dim is larger.
        totals = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilations, weight.shape[2:], strict=True)]
        pads = [(size // 2, size - size // 2) for size in totals]
    else:
        pads = [(size, size) for size in per_spatial_dim(padding, count)]
    return _with_bias(conv_general_dilated(x, weight, steps, pads, None, dilations, None, groups), bias)


@aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0,
                   output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1) -> Tensor:  # fmt: skip
    """Apply a transposed convolution: the gradient of a convolution with respect to its image."""
    count = weight.ndim - 2
    if x.ndim == count + 1:  # The image has no batch dim.
        batched = conv_transpose(
            x.reshape(1, *x.shape), weight, bias, stride, padding, output_padding, groups, dilation
        )
        return batched.reshape(batched.shape[1:])
    steps, dilations, pads, output_pads = (
        per_spatial_dim(value, count) for value in (stride, dilation, padding, output_padding)
    )
    cropped = [(value, value) for value in pads]
    return _with_bias(conv_transposed(x, weight, steps, cropped, output_pads, dilations, groups), bias)


@aten("convolution", "_convolution")
def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes, dilation: Sizes, transposed: bool,
                output_padding: Sizes, groups: int, *_: Any) -> Tensor:  # fmt: skip
    if transposed:
        return conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(x, weight, bias, stride, padding, dilation, groups)


@aten("convolution_backward")
def convolution_backward(grad: Tensor, x: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None, stride: Sizes, padding: Sizes,
                         dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int, output_mask: Sequence[bool]) -> tuple[Any, ...]:  # fmt: skip
    """Return the gradients with respect to image, weight and bias. Gradients that `output_mask` excludes are None.

    A transposed convolution is the image gradient of a convolution, so its own image gradient is that convolution.
    """
    count = weight.ndim - 2
    steps, pads, dilations = (per_spatial_dim(value, count) for value in (stride, padding, dilation))
    image, result = (grad, x) if transposed else (x, grad)
    spans = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    unused = [n + 2 * p - span - (rows - 1) * s
              for n, p, span, s, rows in zip(image.shape[2:], pads, spans, steps, result.shape[2:], strict=True)]  # fmt: skip
    ends = [(p, p - trailing) for p, trailing in zip(pads, unused, strict=True)]
    image_gradient = None
    if output_mask[0] and transposed:
        image_gradient = conv_general_dilated(grad, weight, steps, ends, None, dilations, None, groups)
    elif output_mask[0]:
        image_gradient = conv_transpose(grad, weight, None, steps, pads, unused, groups, dilations)
    weight_gradient = None
    if output_mask[1]:
        letters = "DHW"[-count:]
        dims = (f"CN{letters}", f"IO{letters}", f"NC{letters}")
        weight_gradient = conv_general_dilated(image, result, dilations, ends, None, steps, dims, 1, groups)
        weight_gradient = weight_gradient.transpose(1, 0, *range(2, weight.ndim))
    bias = grad.sum([0, *range(2, grad.ndim)]) if output_mask[2] else None
    return image_gradient, weight_gradient, bias
