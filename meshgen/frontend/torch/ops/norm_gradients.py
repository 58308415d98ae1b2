"""Batch norms at the level that `run_decompositions` leaves, and gradients of norms. Gradients outside of the output mask are None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshgen.frontend.torch.ops.nn import native_batch_norm
from meshgen.frontend.torch.ops.table import aten, enter
from meshgen.frontend.torch.promotion import wide
from meshgen.frontend.tracer import elementwise
from meshgen.frontend.tracer.operands import convert
from meshgen.frontend.tracer.reduce import mean
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Tensor

Optional = Tensor | None

enter(["_native_batch_norm_legit", "native_batch_norm"], native_batch_norm, mutates=(3, 4))


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(x: Tensor, weight: Optional, bias: Optional, training: bool, momentum: float, eps: float) -> tuple[Any, ...]:  # fmt: skip
    """Return the result, and the batch's means and factors, which are used in any mode."""
    return native_batch_norm(x, weight, bias, None, None, True, momentum, eps)[:3]


def _gradients(grad: Tensor, x: Tensor, statistics: Sequence[Tensor], weight: Optional, dims: Sequence[int], output_mask: Sequence[bool],
               *, is_constant: bool = False) -> tuple[Optional, Tensor, Tensor]:  # fmt: skip
    """Return the gradient of the normalized tensor, and the terms of the gradients of weight and bias before their sums.

    Args:
        statistics: the means and the factors, which broadcast to x as the weight does.
        dims: those that are normalized over.
        is_constant: the statistics do not depend on x, as in eval mode.
    """
    means, factor = statistics
    normal = (x - means) * factor
    by_bias, by_weight = grad, grad * normal
    if not output_mask[0]:
        return None, by_weight, by_bias
    grad = grad if weight is None else grad * weight
    if is_constant:
        return grad * factor, by_weight, by_bias
    centered = grad - mean(grad, dims, True) - normal * mean(grad * normal, dims, True)
    return centered * factor, by_weight, by_bias


def _summed(term: Tensor, dims: Sequence[int], shape: Sequence[int], dtype: str, is_needed: bool) -> Optional:
    return convert(reshape(term.sum(list(dims)) if dims else term, tuple(shape)), dtype) if is_needed else None


@aten("native_layer_norm_backward")
def native_layer_norm_backward(grad: Tensor, x: Tensor, shape: Sequence[int], means: Tensor, factor: Tensor, weight: Optional, bias: Optional,
                               output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    """Return the gradients of the tensor, the weight and the bias."""
    widened, dtype = wide(x)
    lead = [*range(x.ndim - len(shape))]
    scale = None if weight is None else convert(weight, widened.type.dtype)
    dims = [*range(len(lead), x.ndim)]
    found, by_weight, by_bias = _gradients(wide(grad)[0], widened, (means, factor), scale, dims, output_mask)
    return (
        None if found is None else convert(found, dtype),
        _summed(by_weight, lead, shape, dtype if weight is None else weight.type.dtype, output_mask[1]),
        _summed(by_bias, lead, shape, dtype if bias is None else bias.type.dtype, output_mask[2]),
    )


@aten("native_group_norm_backward")
def native_group_norm_backward(grad: Tensor, x: Tensor, means: Tensor, factor: Tensor, weight: Optional, rows: int, channels: int, _size: int,
                               groups: int, output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    """Return the gradients of the tensor, the weight and the bias."""
    widened, dtype = wide(x)
    shape = rows, groups, channels // groups, -1
    statistics = [convert(reshape(each, (rows, groups, 1, 1)), widened.type.dtype) for each in (means, factor)]
    scale = None if weight is None else convert(reshape(weight, (1, groups, channels // groups, 1)), widened.type.dtype)
    terms = _gradients(reshape(wide(grad)[0], shape), reshape(widened, shape), statistics, scale, [2, 3], output_mask)
    kind = dtype if weight is None else weight.type.dtype
    return (
        None if terms[0] is None else convert(reshape(terms[0], x.shape), dtype),
        _summed(terms[1], [0, 3], (channels,), kind, output_mask[1]),
        _summed(terms[2], [0, 3], (channels,), kind, output_mask[2]),
    )


@aten("native_batch_norm_backward")
def native_batch_norm_backward(grad: Tensor, x: Tensor, weight: Optional, running_mean: Optional, running_var: Optional, means: Optional,
                               factor: Optional, training: bool, eps: float, output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    """Return the gradients of the tensor, the weight and the bias."""
    widened, dtype = wide(x)
    if not training and running_mean is not None and running_var is not None:
        means, factor = running_mean, elementwise.rsqrt(convert(running_var, widened.type.dtype) + eps)
    per_feature = (1, -1) + (1,) * (x.ndim - 2)
    statistics = [
        convert(reshape(each, per_feature), widened.type.dtype) for each in (means, factor) if each is not None
    ]
    scale = None if weight is None else convert(reshape(weight, per_feature), widened.type.dtype)
    dims = [d for d in range(x.ndim) if d != 1]
    terms = _gradients(wide(grad)[0], widened, statistics, scale, dims, output_mask, is_constant=not training)
    kind = dtype if weight is None else weight.type.dtype
    return (
        None if terms[0] is None else convert(terms[0], dtype),
        _summed(terms[1], dims, x.shape[1:2], kind, output_mask[1]),
        _summed(terms[2], dims, x.shape[1:2], kind, output_mask[2]),
    )
