"""PyTorch's activations, softmax, normalisations, dropout and losses. Those of bf16 and f16 are computed in f32 and rounded once, as PyTorch does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from meshgen.frontend.torch.ops.table import aten
from meshgen.frontend.torch.promotion import floats, wide
from meshgen.frontend.tracer import elementwise, nn
from meshgen.frontend.tracer.joining import split
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import broadcast, convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.reduce import mean
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import is_inexact


def _rounded_once(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def rounded(x: Tensor, *args: Any, **options: Any) -> Tensor:
        widened, dtype = wide(x)
        return convert(function(widened, *args, **options), dtype)

    return rounded


for _name, _function in (("silu", nn.silu), ("mish", nn.mish), ("log_sigmoid", nn.log_sigmoid), ("selu", nn.selu), ("softsign", nn.soft_sign),
                         ("hardsigmoid", nn.hard_sigmoid), ("hardswish", nn.hard_silu), ("celu", nn.celu)):  # fmt: skip
    aten(_name)(_rounded_once(_function))


@aten("relu")
def relu(x: Tensor) -> Tensor:
    return nn.relu(x)


@aten("relu6")
def relu6(x: Tensor) -> Tensor:
    return nn.relu6(x)


@aten("gelu")
@_rounded_once
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    return nn.gelu(x, approximate == "tanh")


@aten("leaky_relu")
def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    return nn.leaky_relu(x, negative_slope)


@aten("elu")
@_rounded_once
def elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    below = alpha * elementwise.expm1(elementwise.minimum(x * input_scale, 0))
    return where(x > 0, x, below) * scale


@aten("softplus")
@_rounded_once
def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    return where(x * beta > threshold, x, nn.softplus(x * beta) / beta)


@aten("hardtanh")
def hardtanh(x: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    bounds = (min_val, max_val) if is_inexact(x.type.dtype) else (int(min_val), int(max_val))
    return elementwise.clip(x, *bounds)


@aten("threshold")
def threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    return where(x > threshold, x, value)


@aten("glu")
@_rounded_once
def glu(x: Tensor, dim: int = -1) -> Tensor:
    first, second = split(x, 2, dim)
    return first * elementwise.sigmoid(second)


@aten("prelu", "_prelu_kernel")
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    if weight.ndim == 1 and x.ndim > 1:
        weight = reshape(weight, (-1,) + (1,) * (x.ndim - 2))
    return where(x > 0, x, x * weight)


@aten("softmax.int", "_softmax")
def softmax(x: Tensor, dim: int, dtype: str | bool | None = None) -> Tensor:
    x = convert(x, dtype) if isinstance(dtype, str) else floats(x)
    return nn.softmax(x, dim) if x.ndim else convert(x == x, x.type.dtype)


@aten("_safe_softmax")
def safe_softmax(x: Tensor, dim: int, dtype: str | None = None) -> Tensor:
    """Of rows without any finite element 0."""
    from meshgen.frontend.tracer.reduce import max_

    return where(max_(x, dim, True) == -float("inf"), 0.0, softmax(x, dim, dtype))


@aten("log_softmax.int", "_log_softmax")
def log_softmax(x: Tensor, dim: int, dtype: str | bool | None = None) -> Tensor:
    x = convert(x, dtype) if isinstance(dtype, str) else floats(x)
    return nn.log_softmax(x, dim) if x.ndim else x * 0


@aten("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout")
def dropout(x: Tensor, p: float, train: bool) -> Any:
    if train and p:
        refuse("dropout draws random numbers, which differ from PyTorch's", "export the model in eval mode, or with dropout 0", "MG0103")  # fmt: skip
    return x


def _normal(x: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(var + eps) over dims, the means, the factors, and the variances."""
    means = mean(x, dims, True)
    centred = x - means
    spread = mean(centred * centred, dims, True)
    factor = elementwise.rsqrt(spread + eps)
    return centred * factor, means, factor, spread


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Times a weight plus a bias, in the type of x."""
    x = x if weight is None else x * convert(weight, x.type.dtype)
    return x if bias is None else x + convert(bias, x.type.dtype)


@aten("native_layer_norm")
def native_layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, ...]:  # fmt: skip
    widened, dtype = wide(x)
    normal, means, factor, _ = _normal(widened, range(x.ndim - len(shape), x.ndim), eps)
    return convert(_scaled(normal, weight, bias), dtype), means, factor


@aten("layer_norm")
def layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
               *_: Any) -> Tensor:  # fmt: skip
    return native_layer_norm(x, shape, weight, bias, eps)[0]


@aten("rms_norm")
def rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    widened, dtype = wide(x)
    epsilon = {"f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}.get(dtype, 2.0**-23) if eps is None else eps
    dims = range(x.ndim - len(shape), x.ndim)
    normal = widened * elementwise.rsqrt(mean(widened * widened, dims, True) + epsilon)
    return convert(_scaled(normal, weight, None), dtype)


def _per_feature(each: Tensor | None, rank: int) -> Tensor | None:
    """A vector along the second dim."""
    return None if each is None else reshape(each, (1, -1) + (1,) * (rank - 2))


@aten("group_norm")
def group_norm(x: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *_: Any) -> Tensor:  # fmt: skip
    widened, dtype = wide(x)
    apart = reshape(widened, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    normal = reshape(_normal(apart, range(2, apart.ndim), eps)[0], x.shape)
    return convert(_scaled(normal, _per_feature(weight, x.ndim), _per_feature(bias, x.ndim)), dtype)


@aten("native_group_norm")
def native_group_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, rows: int, features: int, places: int, groups: int, eps: float) -> tuple[Tensor, ...]:  # fmt: skip
    widened, _ = wide(x)
    apart = reshape(widened, (rows, groups, features // groups * places))
    _, means, factor, _ = _normal(apart, (2,), eps)
    return group_norm(x, groups, weight, bias, eps), reshape(means, (rows, groups)), reshape(factor, (rows, groups))


@aten("instance_norm", mutates=(3, 4))
def instance_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
                  use_input_stats: bool, momentum: float, eps: float, *_: Any) -> tuple[Any, ...]:  # fmt: skip
    """Return the result, and the running statistics after it."""
    if not use_input_stats:
        return batch_norm_inference(x, weight, bias, running_mean, running_var, eps), running_mean, running_var
    normal = group_norm(x, x.shape[1], weight, bias, eps)
    if running_mean is None or running_var is None:
        return normal, running_mean, running_var
    widened, dims = wide(x)[0], range(2, x.ndim)
    count = math.prod(x.shape[2:])
    centred = widened - mean(widened, dims, True)
    means, spread = mean(mean(widened, dims), 0), mean((centred * centred).sum(list(dims)), 0) / max(count - 1, 1)
    return normal, *(_updated(old, new, momentum) for old, new in ((running_mean, means), (running_var, spread)))


def _updated(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    """Return a running statistic after a batch, in the type of the batch's own."""
    return convert(old, new.type.dtype) * (1 - momentum) + new * momentum


def batch_norm_inference(x: Tensor, weight: Tensor | None, bias: Tensor | None, means: Tensor | None, variances: Tensor | None, eps: float) -> Tensor:  # fmt: skip
    """Normalised by given statistics."""
    widened, dtype = wide(x)
    centre, spread = (convert(reshape(each, (1, -1) + (1,) * (x.ndim - 2)), widened.type.dtype) for each in (means, variances) if each is not None)  # fmt: skip
    normal = (widened - centre) * elementwise.rsqrt(spread + eps)
    return convert(_scaled(normal, _per_feature(weight, x.ndim), _per_feature(bias, x.ndim)), dtype)


@aten("batch_norm", mutates=(3, 4))
def batch_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
               training: bool, momentum: float, eps: float, *_: Any) -> tuple[Any, ...]:  # fmt: skip
    """The result, and the running statistics after it."""
    found = native_batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps)
    return found[0], found[3], found[4]


@aten("_native_batch_norm_legit_functional")
def native_batch_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
                      training: bool, momentum: float, eps: float) -> tuple[Any, ...]:  # fmt: skip
    """The result, the batch's means and factors, and the running statistics after it."""
    if not training:
        empty = broadcast(tensor(0.0, "f32"), (0,))
        return batch_norm_inference(x, weight, bias, running_mean, running_var, eps), empty, empty, running_mean, running_var  # fmt: skip
    widened, dtype = wide(x)
    dims = [d for d in range(x.ndim) if d != 1]
    normal, means, factor, spread = _normal(widened, dims, eps)
    found = convert(_scaled(normal, _per_feature(weight, x.ndim), _per_feature(bias, x.ndim)), dtype)
    vectors = [reshape(each, (-1,)) for each in (means, factor)]
    if running_mean is None or running_var is None:
        return found, *vectors, running_mean, running_var
    count = widened.size // x.shape[1]
    unbiased = reshape(spread, (-1,)) * (count / max(count - 1, 1))
    return found, *vectors, _updated(running_mean, vectors[0], momentum), _updated(running_var, unbiased, momentum)


@aten("_native_batch_norm_legit_no_training")
def native_batch_norm_inference(x: Tensor, weight: Tensor | None, bias: Tensor | None, means: Tensor, variances: Tensor, momentum: float, eps: float) -> tuple[Tensor, ...]:  # fmt: skip
    empty = broadcast(tensor(0.0, "f32"), (0,))
    return batch_norm_inference(x, weight, bias, means, variances, eps), empty, empty


@aten("cosine_similarity")
def cosine_similarity(x: Tensor, y: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    from meshgen.frontend.torch.ops.reductions import vector_norm

    left, right = (each / elementwise.maximum(vector_norm(each, 2, [dim], True), eps) for each in (x, y))
    return (left * right).sum(dim)
