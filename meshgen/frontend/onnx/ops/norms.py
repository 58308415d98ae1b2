"""Normalizations. 16-bit floats are computed in f32 and rounded once."""

from __future__ import annotations

from typing import Any

from meshgen.frontend.onnx.ops.table import MICROSOFT, Call, dim_of, op
from meshgen.frontend.tracer.elementwise import abs_, maximum, power, rsqrt, sqrt, square
from meshgen.frontend.tracer.normalize import Normalized, normalized
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.reduce import mean, sum_, widened
from meshgen.frontend.tracer.scans import windows
from meshgen.frontend.tracer.tensor import Tensor


def layer_norm(x: Tensor, scale: Tensor | None, bias: Tensor | None, axis: int, epsilon: float, *, centered: bool = True) -> Normalized:  # fmt: skip
    """Normalize `x` over all dims from `axis` on."""
    return normalized(x, range(dim_of(axis, x.ndim), x.ndim), epsilon, scale, bias, centered=centered)


def rms_norm(x: Tensor, scale: Tensor | None, axis: int, epsilon: float) -> Tensor:
    return layer_norm(x, scale, None, axis, epsilon, centered=False).result


def _results(norm: Normalized) -> tuple[Any, ...]:
    """Return the three results of ONNX's layer norms: the normalized tensor, the mean, and 1 / the standard deviation."""
    return norm.result, norm.mean, norm.factor


@op("LayerNormalization")
def layer_normalization(call: Call, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    return _results(layer_norm(x, scale, bias, call["axis"], call["epsilon"]))


@op("RMSNormalization")
@op("SimplifiedLayerNormalization", domain=MICROSOFT)
def rms_normalization(call: Call, x: Tensor, scale: Tensor) -> Tensor:
    axis, epsilon = call["axis"], call["epsilon"]
    return rms_norm(x, scale, -1 if axis is None else axis, 1e-5 if epsilon is None else epsilon)


@op("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(call: Call, x: Tensor, skip: Tensor, scale: Tensor, beta: Tensor | None = None, bias: Tensor | None = None) -> Any:  # fmt: skip
    """Normalize the sum x + skip + bias. The fourth result is this sum."""
    total = x + skip
    total = total if bias is None else total + bias
    return *_results(layer_norm(total, scale, beta, -1, call["epsilon"] or 1e-12)), total


@op("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_normalization(call: Call, x: Tensor, skip: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    total = x + skip
    total = total if bias is None else total + bias
    return rms_norm(total, scale, -1, call["epsilon"] or 1e-5), None, None, total


def _per_feature(vector: Tensor, rank: int, kind: str) -> Tensor:
    """Reshape a vector with one number per feature, to broadcast along dim 1 of a tensor of this rank."""
    return vector.astype(kind).reshape(-1, *[1] * (rank - 2))


@op("BatchNormalization")
def batch_normalization(call: Call, x: Tensor, scale: Tensor, bias: Tensor, average: Tensor, variance: Tensor) -> Any:  # fmt: skip
    """Normalize `x` by the running mean `average` and the running `variance`, per feature.

    In training mode, normalize by the mean and variance of the batch instead, and also return updated running
    statistics. Training mode is an attribute. In opsets 7 to 13, a call is in training mode if more than one result is
    used; the last two results are then the statistics of the batch.
    """
    is_training = bool(call["training_mode"]) or (call.version < 14 and call.results > 1)
    if call.results > 1 and not is_training:
        refuse(f"{call.results} results are used, but only training has more than one", "set training_mode=1")
    wide, rank = widened(x), x.ndim
    kind, is_spatial = wide.type.dtype, call["spatial"] != 0
    per_feature = (
        (lambda vector: _per_feature(vector, rank, kind)) if is_spatial else lambda vector: vector.astype(kind)
    )
    current_mean, current_variance = average.astype(kind), variance.astype(kind)
    if is_training:
        dims = tuple(d for d in range(rank) if d != 1) if is_spatial else (0,)
        current_mean = mean(wide, dims)
        current_variance = mean(square(wide - per_feature(current_mean)), dims)
    factor = rsqrt(current_variance + call["epsilon"]) * scale.astype(kind)
    result = ((wide - per_feature(current_mean)) * per_feature(factor) + per_feature(bias)).astype(x.type.dtype)
    momentum = call["momentum"]
    pairs = (average, current_mean), (variance, current_variance)
    running = [(old.astype(kind) * momentum + new * (1 - momentum)).astype(old.type.dtype) for old, new in pairs]
    return result, *running, *(new.astype(old.type.dtype) for old, new in pairs)


@op("InstanceNormalization")
def instance_normalization(call: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    affine = [_per_feature(vector, x.ndim, vector.type.dtype) for vector in (scale, bias)]
    return normalized(x, range(2, x.ndim), call["epsilon"], *affine).result


@op("GroupNormalization")
def group_normalization(call: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Normalize over groups of features.

    `scale` and `bias` have one number per feature; before opset 21, one per group.
    """
    n, c, *sizes = x.shape
    groups = call["num_groups"]
    if groups < 1 or c % groups:
        refuse(f"{groups} groups do not divide {c} features")
    grouped = x.reshape(n, groups, c // groups, *sizes)
    affine_shape = (groups, 1) if scale.shape[0] == groups != c else (groups, c // groups)
    affine = [vector.reshape(*affine_shape, *[1] * len(sizes)) for vector in (scale, bias)]
    return normalized(grouped, range(2, grouped.ndim), call["epsilon"], *affine).result.reshape(x.shape)


@op("LpNormalization")
def lp_normalization(call: Call, x: Tensor) -> Tensor:
    """Divide the vectors along one dim by their L1 or L2 norm. Vectors with norm 0 do not change."""
    wide, axis = widened(x), dim_of(call["axis"], x.ndim)
    total = sum_(abs_(wide), axis, True) if call["p"] == 1 else sqrt(sum_(square(wide), axis, True))
    return (wide / maximum(total, float(2**-126))).astype(x.type.dtype)


@op("LRN")
def lrn(call: Call, x: Tensor) -> Tensor:
    """Apply local response normalization: divide by a power of the sum of squares over neighboring features."""
    wide, size = widened(x), call["size"]
    low = (size - 1) // 2
    dims = lambda feature_size, other_size: [feature_size if d == 1 else other_size for d in range(wide.ndim)]  # noqa: E731
    total = windows(lambda a, b: a + b, square(wide), 0, dims(size, 1), [1] * wide.ndim, dims(low, 0), dims(size - 1 - low, 0))  # fmt: skip
    return (wide / power(total * (call["alpha"] / size) + call["bias"], call["beta"])).astype(x.type.dtype)
