"""PyTorch activations, softmax, normalizations and dropout.

As in PyTorch, bf16 and f16 operands are computed in f32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from meshgen.frontend.torch.ops.reductions import vector_norm
from meshgen.frontend.torch.ops.table import aten, enter_rows, enter_traced
from meshgen.frontend.torch.promotion import floats, rounded_once, wide
from meshgen.frontend.tracer import elementwise, nn
from meshgen.frontend.tracer.elementwise import as_float, expm1, minimum
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.normalize import Normalized, normalized
from meshgen.frontend.tracer.operands import broadcast, convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import is_inexact

enter_traced("relu relu6 leaky_relu")
enter_traced(
    "silu mish log_sigmoid selu softsign=soft_sign hardsigmoid=hard_sigmoid hardswish=hard_silu celu glu", rounded_once
)
enter_rows({
    "gelu": lambda x, approximate="none": nn.gelu(x, approximate == "tanh"),
    "elu": lambda x, alpha=1, scale=1, input_scale=1: where(x > 0, x, alpha * expm1(minimum(x * input_scale, 0))) * scale,
    "softplus": lambda x, beta=1, threshold=20: where(x * beta > threshold, x, nn.softplus(x * beta) / beta),
}, rounded_once)  # fmt: skip


@aten("hardtanh")
def hardtanh(x: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    bounds = (min_val, max_val) if is_inexact(x.type.dtype) else (int(min_val), int(max_val))
    return elementwise.clip(x, *bounds)


@aten("prelu", "_prelu_kernel")
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    if weight.ndim == 1 and x.ndim > 1:
        weight = weight.reshape((-1,) + (1,) * (x.ndim - 2))
    return where(x > 0, x, x * weight)


@aten("softmax.int", "_softmax")
def softmax(x: Tensor, dim: int, dtype: str | bool | None = None) -> Tensor:
    x = floats(x, dtype if isinstance(dtype, str) else None)
    return nn.softmax(x, dim) if x.ndim else convert(x == x, x.type.dtype)


@aten("log_softmax.int", "_log_softmax")
def log_softmax(x: Tensor, dim: int, dtype: str | bool | None = None) -> Tensor:
    x = floats(x, dtype if isinstance(dtype, str) else None)
    return nn.log_softmax(x, dim) if x.ndim else x * 0


enter_rows({
    "threshold": lambda x, threshold, value: where(x > threshold, x, value),
    # Rows whose elements are all -inf have the result 0.
    "_safe_softmax": lambda x, dim, dtype=None: where(x.max(dim, True) == -math.inf, 0.0, softmax(x, dim, dtype)),
})  # fmt: skip


@aten("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout")
def dropout(x: Tensor, p: float, train: bool) -> Any:
    if train and p:
        refuse("dropout draws random numbers, which differ from PyTorch's", "export the model in eval mode, or with dropout 0", "MG0103")  # fmt: skip
    return x


def _normalized(x: Tensor, dims: Sequence[int], eps: float, weight: Tensor | None, bias: Tensor | None, *, centered: bool = True) -> Normalized:  # fmt: skip
    """Normalize `x` over `dims`. `weight` and `bias` broadcast with `x`."""
    return normalized(as_float(x), dims, eps, weight, bias, centered=centered)


@aten("native_layer_norm")
def native_layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Any, ...]:  # fmt: skip
    norm = _normalized(x, range(x.ndim - len(shape), x.ndim), eps, weight, bias)
    return norm.result, norm.mean, norm.factor


enter_rows({"layer_norm": lambda x, shape, weight=None, bias=None, eps=1e-5, *_: native_layer_norm(x, shape, weight, bias, eps)[0]})  # fmt: skip


@aten("_fused_rms_norm")
def fused_rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    epsilon = {"f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}.get(x.type.dtype, 2.0**-23) if eps is None else eps
    norm = _normalized(x, range(x.ndim - len(shape), x.ndim), epsilon, weight, None, centered=False)
    return norm.result, norm.factor


enter_rows({"rms_norm": lambda x, shape, weight=None, eps=None: fused_rms_norm(x, shape, weight, eps)[0]})


def _per_feature(vector: Tensor | None, *shape: int) -> Tensor | None:
    return None if vector is None else vector.reshape(shape)


def _group_norm(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Normalized:
    """Normalize over each group of features, after a reshape to [rows, groups, features per group, ...]."""
    grouped = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    affine_shape = groups, x.shape[1] // groups, *[1] * (x.ndim - 2)
    affine = (_per_feature(vector, *affine_shape) for vector in (weight, bias))
    return _normalized(grouped, range(2, grouped.ndim), eps, *affine)


@aten("group_norm")
def group_norm(x: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *_: Any) -> Tensor:  # fmt: skip
    return _group_norm(x, groups, weight, bias, eps).result.reshape(x.shape)


@aten("native_group_norm")
def native_group_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, rows: int, features: int, num_positions: int, groups: int, eps: float) -> tuple[Any, ...]:  # fmt: skip
    norm = _group_norm(x, groups, weight, bias, eps)
    mean, factor = (
        None if statistic is None else statistic.reshape(rows, groups) for statistic in (norm.mean, norm.factor)
    )
    return norm.result.reshape(x.shape), mean, factor


@aten("instance_norm", mutates=(3, 4))
def instance_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
                  use_input_stats: bool, momentum: float, eps: float, *_: Any) -> tuple[Any, ...]:  # fmt: skip
    """Return the normalized tensor and the updated running statistics."""
    if not use_input_stats:
        return batch_norm_inference(x, weight, bias, running_mean, running_var, eps), running_mean, running_var
    norm = _group_norm(x, x.shape[1], weight, bias, eps)
    result = norm.result.reshape(x.shape)
    if running_mean is None or running_var is None or norm.mean is None:
        return result, running_mean, running_var
    means, variances = (statistic.reshape(x.shape[:2]).mean(0) for statistic in (norm.mean, norm.variance))
    unbiased = _unbiased(variances, math.prod(x.shape[2:]))
    return result, *(
        _moving_average(old, new, momentum) for old, new in ((running_mean, means), (running_var, unbiased))
    )


def _unbiased(variance: Tensor, count: int) -> Tensor:
    return variance * (count / max(count - 1, 1))


def _moving_average(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    """Return the next running statistic, `old` moved toward `new` by `momentum`, in the dtype of `new`."""
    return convert(old, new.type.dtype) * (1 - momentum) + new * momentum


def _apply_affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Multiply by `weight` and add `bias`, in the dtype of `x`."""
    x = x if weight is None else x * convert(weight, x.type.dtype)
    return x if bias is None else x + convert(bias, x.type.dtype)


def batch_norm_inference(x: Tensor, weight: Tensor | None, bias: Tensor | None, means: Tensor | None, variances: Tensor | None, eps: float) -> Tensor:  # fmt: skip
    """Normalize `x` by the constant mean and variance of each feature, then apply `weight` and `bias`."""
    widened, dtype = wide(x)
    mean, variance = (convert(vector.reshape((1, -1) + (1,) * (x.ndim - 2)), widened.type.dtype) for vector in (means, variances) if vector is not None)  # fmt: skip
    centered = (widened - mean) * elementwise.rsqrt(variance + eps)
    return convert(
        _apply_affine(centered, *(_per_feature(vector, 1, -1, *[1] * (x.ndim - 2)) for vector in (weight, bias))), dtype
    )


@aten("_native_batch_norm_legit", "native_batch_norm", mutates=(3, 4))
@aten("_native_batch_norm_legit_functional")
def native_batch_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
                      training: bool, momentum: float, eps: float) -> tuple[Any, ...]:  # fmt: skip
    """Return the normalized tensor, the statistics of the batch, and the updated running statistics.

    The statistics of the batch are the means and the reciprocal standard deviations.
    """
    if not training:
        empty = broadcast(tensor(0.0, "f32"), (0,))
        return batch_norm_inference(x, weight, bias, running_mean, running_var, eps), empty, empty, running_mean, running_var  # fmt: skip
    per_feature = -1, *[1] * (x.ndim - 2)
    affine = (_per_feature(vector, *per_feature) for vector in (weight, bias))
    norm = _normalized(x, [d for d in range(x.ndim) if d != 1], eps, *affine)
    assert norm.mean is not None, "a batch norm subtracts the mean"
    means, factors = (vector.reshape(-1) for vector in (norm.mean, norm.factor))
    if running_mean is not None and running_var is not None:
        unbiased = _unbiased(norm.variance.reshape(-1), x.size // x.shape[1])
        running_mean, running_var = (
            _moving_average(running_mean, means, momentum),
            _moving_average(running_var, unbiased, momentum),
        )
    return norm.result, means, factors, running_mean, running_var


@aten("batch_norm", mutates=(3, 4))
def batch_norm(*args: Any) -> tuple[Any, ...]:
    """Return the normalized tensor and the updated running statistics."""
    result, _, _, *running = native_batch_norm(*args[:8])
    return result, *running


# Batch norms that always use the statistics of the batch, and batch norms that always use constant statistics.
enter_rows({
    "_native_batch_norm_legit.no_stats": lambda x, weight, bias, training, *how: native_batch_norm(x, weight, bias, None, None, True, *how)[:3],
    "_native_batch_norm_legit_no_training": lambda x, weight, bias, means, variances, *how: native_batch_norm(x, weight, bias, means, variances, False, *how)[:3],
})  # fmt: skip


@aten("cosine_similarity")
def cosine_similarity(x: Tensor, y: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    left, right = (vector / elementwise.maximum(vector_norm(vector, 2, [dim], True), eps) for vector in (x, y))
    return (left * right).sum(dim)
