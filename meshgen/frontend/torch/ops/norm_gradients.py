"""Gradients of PyTorch norms. A gradient that the output mask excludes is None."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.torch.promotion import wide
from meshgen.frontend.tracer import elementwise
from meshgen.frontend.tracer.normalize import normalized_gradient
from meshgen.frontend.tracer.operands import convert
from meshgen.frontend.tracer.tensor import Tensor

Optional = Tensor | None


def _gradients(grad: Tensor, x: Tensor, statistics: Sequence[Optional], scale: Optional, dims: Sequence[int], affine: Sequence[Optional],
               summed: Sequence[int], shape: Sequence[int], output_mask: Sequence[bool], *, is_constant: bool = False) -> tuple[Optional, ...]:  # fmt: skip
    """Return the gradients of a normalization with respect to `x`, weight and bias.

    Args:
        statistics: means (None if the norm subtracts none) and reciprocal standard deviations; they broadcast with `x`.
        scale: the weight, reshaped to broadcast with `x`.
        dims: dims over which the norm computes statistics.
        affine: (weight, bias). The gradient of each has its dtype; the gradient of a missing one has the dtype of `x`.
        summed: dims over which the gradients of weight and bias are summed.
        shape: shape of the gradients of weight and bias.
        is_constant: whether the statistics are independent of `x`, as in eval mode.
    """
    (widened, dtype), wide_grad = wide(x), wide(grad)[0]
    means, factor = (None if statistic is None else convert(statistic, widened.type.dtype) for statistic in statistics)
    assert factor is not None
    terms = wide_grad * ((widened if means is None else widened - means) * factor), wide_grad
    input_gradient = None
    if output_mask[0] and is_constant:
        input_gradient = convert((wide_grad if scale is None else wide_grad * scale) * factor, dtype)
    elif output_mask[0]:
        input_gradient = normalized_gradient(grad, x, dims, means, factor, scale)
    sums = [
        convert((term.sum(list(summed)) if summed else term).reshape(tuple(shape)), (x if like is None else like).type.dtype) if is_needed else None
        for term, like, is_needed in zip(terms, affine, output_mask[1:], strict=True)
    ]  # fmt: skip
    return input_gradient, *sums


@aten("native_layer_norm_backward")
def native_layer_norm_backward(grad: Tensor, x: Tensor, shape: Sequence[int], means: Optional, factor: Tensor, weight: Optional, bias: Optional,
                               output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    num_batch_dims = x.ndim - len(shape)
    return _gradients(grad, x, (means, factor), weight, range(num_batch_dims, x.ndim), (weight, bias), range(num_batch_dims), shape, output_mask)  # fmt: skip


@aten("_fused_rms_norm_backward")
def fused_rms_norm_backward(grad: Tensor, x: Tensor, shape: Sequence[int], factor: Tensor, weight: Optional, output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    return native_layer_norm_backward(grad, x, shape, None, factor, weight, None, (*output_mask, False))[:2]


@aten("native_group_norm_backward")
def native_group_norm_backward(grad: Tensor, x: Tensor, means: Tensor, factor: Tensor, weight: Optional, rows: int, channels: int, _size: int,
                               groups: int, output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    grouped = rows, groups, channels // groups, -1
    statistics = [statistic.reshape(rows, groups, 1, 1) for statistic in (means, factor)]
    scale = None if weight is None else weight.reshape(1, groups, channels // groups, 1)
    input_gradient, *sums = _gradients(grad.reshape(grouped), x.reshape(grouped), statistics, scale, [2, 3], (weight, weight), [0, 3], (channels,), output_mask)  # fmt: skip
    return None if input_gradient is None else input_gradient.reshape(x.shape), *sums


@aten("native_batch_norm_backward")
def native_batch_norm_backward(grad: Tensor, x: Tensor, weight: Optional, running_mean: Optional, running_var: Optional, means: Optional,
                               factor: Optional, training: bool, eps: float, output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    if not training and running_mean is not None and running_var is not None:
        means, factor = running_mean, elementwise.rsqrt(convert(running_var, wide(x)[0].type.dtype) + eps)
    per_feature = (1, -1) + (1,) * (x.ndim - 2)
    statistics = [statistic.reshape(per_feature) for statistic in (means, factor) if statistic is not None]
    scale = None if weight is None else weight.reshape(per_feature)
    dims = [d for d in range(x.ndim) if d != 1]
    return _gradients(grad, x, statistics, scale, dims, (weight, weight), dims, x.shape[1:2], output_mask, is_constant=not training)  # fmt: skip
