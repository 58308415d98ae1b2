"""Batch norms at the level that `run_decompositions` leaves, and gradients of norms. Gradients outside of the output mask are None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshgen.frontend.torch.ops.nn import native_batch_norm
from meshgen.frontend.torch.ops.table import aten, enter
from meshgen.frontend.torch.promotion import wide
from meshgen.frontend.tracer import elementwise
from meshgen.frontend.tracer.normalize import normalized_gradient
from meshgen.frontend.tracer.operands import convert
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Tensor

Optional = Tensor | None

enter(["_native_batch_norm_legit", "native_batch_norm"], native_batch_norm, mutates=(3, 4))


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(x: Tensor, weight: Optional, bias: Optional, training: bool, momentum: float, eps: float) -> tuple[Any, ...]:  # fmt: skip
    """Return the result, and the batch's means and factors, which are used in any mode."""
    return native_batch_norm(x, weight, bias, None, None, True, momentum, eps)[:3]


def _gradients(grad: Tensor, x: Tensor, statistics: Sequence[Optional], weight: Optional, dims: Sequence[int], output_mask: Sequence[bool],
               *, is_constant: bool = False) -> tuple[Optional, Tensor, Tensor]:  # fmt: skip
    """Return the gradient of the normalized tensor, and the terms of the gradients of weight and bias before their sums.

    Args:
        statistics: the means, or None if they are not subtracted, and the factors; they broadcast with x as the weight does.
        dims: those that are normalized over.
        is_constant: the statistics do not depend on x, as in eval mode.
    """
    (widened, dtype), back = wide(x), wide(grad)[0]
    means, factor = (None if each is None else convert(each, widened.type.dtype) for each in statistics)
    assert factor is not None
    by_weight = back * ((widened if means is None else widened - means) * factor)
    if not output_mask[0]:
        return None, by_weight, back
    if not is_constant:
        return normalized_gradient(grad, x, dims, means, factor, weight), by_weight, back
    return convert((back if weight is None else back * weight) * factor, dtype), by_weight, back


def _summed(term: Tensor, dims: Sequence[int], shape: Sequence[int], dtype: str, is_needed: bool) -> Optional:
    return convert(reshape(term.sum(list(dims)) if dims else term, tuple(shape)), dtype) if is_needed else None


@aten("native_layer_norm_backward")
def native_layer_norm_backward(grad: Tensor, x: Tensor, shape: Sequence[int], means: Tensor, factor: Tensor, weight: Optional, bias: Optional,
                               output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    """Return the gradients of the tensor, the weight and the bias."""
    return _row_gradients(grad, x, shape, (means, factor), (weight, bias), output_mask)


@aten("_fused_rms_norm_backward")
def fused_rms_norm_backward(grad: Tensor, x: Tensor, shape: Sequence[int], factor: Tensor, weight: Optional, output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    """Return the gradients of the tensor and the weight."""
    return _row_gradients(grad, x, shape, (None, factor), (weight, None), (*output_mask, False))[:2]


def _row_gradients(grad: Tensor, x: Tensor, shape: Sequence[int], statistics: Sequence[Optional], affine: Sequence[Optional],
                   output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    lead = [*range(x.ndim - len(shape))]
    found, *terms = _gradients(grad, x, statistics, affine[0], range(len(lead), x.ndim), output_mask)
    kinds = [x.type.dtype if each is None else each.type.dtype for each in affine]
    sums = zip(terms, kinds, output_mask[1:], strict=True)
    return found, *(_summed(term, lead, shape, kind, is_needed) for term, kind, is_needed in sums)


@aten("native_group_norm_backward")
def native_group_norm_backward(grad: Tensor, x: Tensor, means: Tensor, factor: Tensor, weight: Optional, rows: int, channels: int, _size: int,
                               groups: int, output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    """Return the gradients of the tensor, the weight and the bias."""
    shape = rows, groups, channels // groups, -1
    statistics = [reshape(each, (rows, groups, 1, 1)) for each in (means, factor)]
    scale = None if weight is None else reshape(weight, (1, groups, channels // groups, 1))
    found, *terms = _gradients(reshape(grad, shape), reshape(x, shape), statistics, scale, [2, 3], output_mask)
    kind = x.type.dtype if weight is None else weight.type.dtype
    return (
        None if found is None else reshape(found, x.shape),
        _summed(terms[0], [0, 3], (channels,), kind, output_mask[1]),
        _summed(terms[1], [0, 3], (channels,), kind, output_mask[2]),
    )


@aten("native_batch_norm_backward")
def native_batch_norm_backward(grad: Tensor, x: Tensor, weight: Optional, running_mean: Optional, running_var: Optional, means: Optional,
                               factor: Optional, training: bool, eps: float, output_mask: Sequence[bool]) -> tuple[Optional, ...]:  # fmt: skip
    """Return the gradients of the tensor, the weight and the bias."""
    if not training and running_mean is not None and running_var is not None:
        means, factor = running_mean, elementwise.rsqrt(convert(running_var, wide(x)[0].type.dtype) + eps)
    per_feature = (1, -1) + (1,) * (x.ndim - 2)
    statistics = [reshape(each, per_feature) for each in (means, factor) if each is not None]
    scale = None if weight is None else reshape(weight, per_feature)
    dims = [d for d in range(x.ndim) if d != 1]
    found, *terms = _gradients(grad, x, statistics, scale, dims, output_mask, is_constant=not training)
    kind = x.type.dtype if weight is None else weight.type.dtype
    return (
        found,
        _summed(terms[0], dims, x.shape[1:2], kind, output_mask[1]),
        _summed(terms[1], dims, x.shape[1:2], kind, output_mask[2]),
    )
