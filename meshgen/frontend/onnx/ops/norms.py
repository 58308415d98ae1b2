"""Normalisations. Narrow floats are computed in f32 and rounded once."""

from __future__ import annotations

from typing import Any

from meshgen.frontend.onnx.ops.table import MICROSOFT, Call, dim_of, kind_of, op, rank_of, shape_of
from meshgen.frontend.tracer.elementwise import abs_, maximum, power, rsqrt, sqrt, square
from meshgen.frontend.tracer.normalize import Normalized, normalized
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.reduce import mean, sum_, widened
from meshgen.frontend.tracer.scans import windows
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor


def layer_norm(
    x: Operand, scale: Operand, bias: Operand, axis: int, epsilon: float, *, centered: bool = True
) -> Normalized:
    """Over all dims from the axis on."""
    x = tensor(x)
    scale = tensor(1.0, kind_of(x)) if scale is None and bias is not None else scale
    return normalized(x, range(dim_of(axis, x.ndim), x.ndim), epsilon, scale, bias, centered=centered)


def rms_norm(x: Operand, scale: Operand, axis: int, epsilon: float) -> Tensor:
    return layer_norm(x, scale, None, axis, epsilon, centered=False).result


def _results(found: Normalized) -> tuple[Any, ...]:
    """The result, the mean, and the factor."""
    return found.result, found.mean, found.factor


@op("LayerNormalization")
def layer_normalization(call: Call, x: Operand, scale: Operand, bias: Operand = None) -> Any:
    return _results(layer_norm(x, scale, bias, call["axis"], call["epsilon"]))[: max(call.results, 1)]


@op("RMSNormalization")
@op("SimplifiedLayerNormalization", domain=MICROSOFT)
def rms_normalization(call: Call, x: Operand, scale: Operand) -> Tensor:
    axis, epsilon = call["axis"], call["epsilon"]
    return rms_norm(x, scale, -1 if axis is None else axis, 1e-5 if epsilon is None else epsilon)


@op("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(call: Call, x: Operand, skip: Operand, scale: Operand, beta: Operand = None, bias: Operand = None) -> Any:  # fmt: skip
    """The norm of the sum of the operands; the fourth result is that sum."""
    total = tensor(x) + skip
    total = total if bias is None else total + bias
    return (*_results(layer_norm(total, scale, beta, -1, call["epsilon"] or 1e-12)), total)[: max(call.results, 1)]


@op("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_normalization(call: Call, x: Operand, skip: Operand, scale: Operand, bias: Operand = None) -> Any:
    total = tensor(x) + skip
    total = total if bias is None else total + bias
    return (rms_norm(total, scale, -1, call["epsilon"] or 1e-5), None, None, total)[: max(call.results, 1)]


def _per_feature(given: Operand, rank: int, kind: str) -> Tensor:
    """A number per feature beside a tensor with features in dim 1."""
    return reshape(tensor(given, kind), (-1, *[1] * (rank - 2)))


@op("BatchNormalization")
def batch_normalization(call: Call, x: Operand, scale: Operand, bias: Operand, average: Operand, variance: Operand) -> Any:  # fmt: skip
    """Normalize by the running mean and variance; in training by those of the batch, and return the next running ones too.

    Training is asked for by an attribute, and from opset 7 to 13 by results beside the first, of which the last two are the batch's.
    """
    is_training = bool(call["training_mode"]) or (call.version < 14 and call.results > 1)
    if call.results > 1 and not is_training:
        refuse(f"{call.results} results are read, but only training has more than one", "set training_mode=1")
    wide, rank = widened(x), rank_of(x)
    kind, is_spatial = wide.type.dtype, call["spatial"] != 0
    beside = (lambda given: _per_feature(given, rank, kind)) if is_spatial else lambda given: tensor(given, kind)
    now, spread = tensor(average, kind), tensor(variance, kind)
    if is_training:
        dims = tuple(d for d in range(rank) if d != 1) if is_spatial else (0,)
        now = mean(wide, dims)
        spread = mean(square(wide - beside(now)), dims)
    factor = rsqrt(spread + call["epsilon"]) * tensor(scale, kind)
    result = convert((wide - beside(now)) * beside(factor) + beside(bias), kind_of(x))
    kept = call["momentum"]
    pairs = (average, now), (variance, spread)
    running = [convert(tensor(old, kind) * kept + new * (1 - kept), kind_of(old)) for old, new in pairs]
    return (result, *running, *(convert(new, kind_of(old)) for old, new in pairs))[: max(call.results, 1)]


@op("InstanceNormalization")
def instance_normalization(call: Call, x: Operand, scale: Operand, bias: Operand) -> Tensor:
    beside = [_per_feature(each, rank_of(x), kind_of(each)) for each in (scale, bias)]
    return normalized(tensor(x), range(2, rank_of(x)), call["epsilon"], *beside).result


@op("GroupNormalization")
def group_normalization(call: Call, x: Operand, scale: Operand, bias: Operand) -> Tensor:
    """Scale and bias are per feature; before opset 21 per group."""
    n, c, *sizes = shape_of(x)
    groups = call["num_groups"]
    if groups < 1 or c % groups:
        refuse(f"{groups} groups do not divide {c} features")
    parts = reshape(tensor(x), (n, groups, c // groups, *sizes))
    beside = (groups, 1) if shape_of(scale)[0] == groups != c else (groups, c // groups)
    affine = [reshape(tensor(each), (*beside, *[1] * len(sizes))) for each in (scale, bias)]
    return reshape(normalized(parts, range(2, parts.ndim), call["epsilon"], *affine).result, shape_of(x))


@op("LpNormalization")
def lp_normalization(call: Call, x: Operand) -> Tensor:
    """A vector of norm 0 stays as it is."""
    wide, axis = widened(x), dim_of(call["axis"], rank_of(x))
    total = sum_(abs_(wide), axis, True) if call["p"] == 1 else sqrt(sum_(square(wide), axis, True))
    return convert(wide / maximum(total, float(2**-126)), kind_of(x))


@op("LRN")
def lrn(call: Call, x: Operand) -> Tensor:
    """Divided by a power of the squares of near features."""
    wide, size = widened(x), call["size"]
    low = (size - 1) // 2
    dims = lambda number, other: [number if d == 1 else other for d in range(wide.ndim)]  # noqa: E731
    total = windows(lambda a, b: a + b, square(wide), 0, dims(size, 1), [1] * wide.ndim, dims(low, 0), dims(size - 1 - low, 0))  # fmt: skip
    return convert(wide / power(total * (call["alpha"] / size) + call["bias"], call["beta"]), kind_of(x))
