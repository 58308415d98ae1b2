"""Normalisations. Narrow floats are computed in f32 and rounded once."""

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
    """Over all dims from the axis on."""
    return normalized(x, range(dim_of(axis, x.ndim), x.ndim), epsilon, scale, bias, centered=centered)


def rms_norm(x: Tensor, scale: Tensor | None, axis: int, epsilon: float) -> Tensor:
    return layer_norm(x, scale, None, axis, epsilon, centered=False).result


def _results(found: Normalized) -> tuple[Any, ...]:
    """The result, the mean, and the factor."""
    return found.result, found.mean, found.factor


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
    """The norm of the sum of the operands; the fourth result is that sum."""
    total = x + skip
    total = total if bias is None else total + bias
    return *_results(layer_norm(total, scale, beta, -1, call["epsilon"] or 1e-12)), total


@op("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_normalization(call: Call, x: Tensor, skip: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    total = x + skip
    total = total if bias is None else total + bias
    return rms_norm(total, scale, -1, call["epsilon"] or 1e-5), None, None, total


def _per_feature(given: Tensor, rank: int, kind: str) -> Tensor:
    """A number per feature beside a tensor with features in dim 1."""
    return given.astype(kind).reshape(-1, *[1] * (rank - 2))


@op("BatchNormalization")
def batch_normalization(call: Call, x: Tensor, scale: Tensor, bias: Tensor, average: Tensor, variance: Tensor) -> Any:  # fmt: skip
    """Normalize by the running mean and variance; in training by those of the batch, and return the next running ones too.

    Training is asked for by an attribute, and from opset 7 to 13 by results beside the first, of which the last two are the batch's.
    """
    is_training = bool(call["training_mode"]) or (call.version < 14 and call.results > 1)
    if call.results > 1 and not is_training:
        refuse(f"{call.results} results are read, but only training has more than one", "set training_mode=1")
    wide, rank = widened(x), x.ndim
    kind, is_spatial = wide.type.dtype, call["spatial"] != 0
    beside = (lambda given: _per_feature(given, rank, kind)) if is_spatial else lambda given: given.astype(kind)
    now, spread = average.astype(kind), variance.astype(kind)
    if is_training:
        dims = tuple(d for d in range(rank) if d != 1) if is_spatial else (0,)
        now = mean(wide, dims)
        spread = mean(square(wide - beside(now)), dims)
    factor = rsqrt(spread + call["epsilon"]) * scale.astype(kind)
    result = ((wide - beside(now)) * beside(factor) + beside(bias)).astype(x.type.dtype)
    momentum = call["momentum"]
    pairs = (average, now), (variance, spread)
    running = [(old.astype(kind) * momentum + new * (1 - momentum)).astype(old.type.dtype) for old, new in pairs]
    return result, *running, *(new.astype(old.type.dtype) for old, new in pairs)


@op("InstanceNormalization")
def instance_normalization(call: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    beside = [_per_feature(each, x.ndim, each.type.dtype) for each in (scale, bias)]
    return normalized(x, range(2, x.ndim), call["epsilon"], *beside).result


@op("GroupNormalization")
def group_normalization(call: Call, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Scale and bias are per feature; before opset 21 per group."""
    n, c, *sizes = x.shape
    groups = call["num_groups"]
    if groups < 1 or c % groups:
        refuse(f"{groups} groups do not divide {c} features")
    parts = x.reshape(n, groups, c // groups, *sizes)
    beside = (groups, 1) if scale.shape[0] == groups != c else (groups, c // groups)
    affine = [each.reshape(*beside, *[1] * len(sizes)) for each in (scale, bias)]
    return normalized(parts, range(2, parts.ndim), call["epsilon"], *affine).result.reshape(x.shape)


@op("LpNormalization")
def lp_normalization(call: Call, x: Tensor) -> Tensor:
    """A vector of norm 0 stays as it is."""
    wide, axis = widened(x), dim_of(call["axis"], x.ndim)
    total = sum_(abs_(wide), axis, True) if call["p"] == 1 else sqrt(sum_(square(wide), axis, True))
    return (wide / maximum(total, float(2**-126))).astype(x.type.dtype)


@op("LRN")
def lrn(call: Call, x: Tensor) -> Tensor:
    """Divided by a power of the squares of near features."""
    wide, size = widened(x), call["size"]
    low = (size - 1) // 2
    dims = lambda number, other: [number if d == 1 else other for d in range(wide.ndim)]  # noqa: E731
    total = windows(lambda a, b: a + b, square(wide), 0, dims(size, 1), [1] * wide.ndim, dims(low, 0), dims(size - 1 - low, 0))  # fmt: skip
    return (wide / power(total * (call["alpha"] / size) + call["bias"], call["beta"])).astype(x.type.dtype)
