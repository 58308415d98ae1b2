"""Traced functions of neural networks: activations, normalizations, one-hot vectors, attention.

Sums of bf16 and f16 elements are accumulated in f32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

from meshgen.frontend.tracer.creation import iota
from meshgen.frontend.tracer.elementwise import (
    abs_,
    as_float,
    erf,
    exp,
    expm1,
    log,
    log1p,
    maximum,
    minimum,
    sigmoid,
    tanh,
)
from meshgen.frontend.tracer.joining import split
from meshgen.frontend.tracer.linear import dot_general
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.normalize import normalized
from meshgen.frontend.tracer.operands import axis_of, convert, dtype_of, emit_all, tensor
from meshgen.frontend.tracer.recording import named, refuse, traced
from meshgen.frontend.tracer.reduce import max_, require_real, sum_, widened
from meshgen.frontend.tracer.shapes import expand_dims, reshape, transpose
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType
from meshgen.ops.factors import notation
from meshgen.ops.rules.rule import letters

# The score of a masked key: far below all others, but finite, so that a query whose keys are all masked gives no NaN.
MASKED = -1e30


@traced
def relu(x: Operand) -> Tensor:
    """Return max(x, 0)."""
    return maximum(x, 0)


@traced
def relu6(x: Operand) -> Tensor:
    """Clamp x to [0, 6]."""
    return minimum(maximum(x, 0), 6)


@traced
def leaky_relu(x: Operand, negative_slope: float = 0.01) -> Tensor:
    """Return x where it is positive, else negative_slope * x."""
    x = as_float(x)
    return where(x >= 0, x, x * negative_slope)


@named("silu", "swish")
def silu(x: Operand) -> Tensor:
    """Return x * sigmoid(x)."""
    x = as_float(x)
    return x * sigmoid(x)


@traced
def gelu(x: Operand, approximate: bool = True) -> Tensor:
    """Return the Gaussian error linear unit. `approximate` uses the tanh form (Hendrycks & Gimpel, arXiv 1606.08415)."""
    x = as_float(x)
    if not approximate:
        return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0)
    return x * 0.5 * (tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1.0)


@traced
def softplus(x: Operand) -> Tensor:
    """Return log(1 + exp(x)), without overflow."""
    x = as_float(x)
    return maximum(x, 0) + log1p(exp(-abs_(x)))


@traced
def log_sigmoid(x: Operand) -> Tensor:
    """Return log(sigmoid(x)), without overflow."""
    return -softplus(-as_float(x))


@traced
def elu(x: Operand, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, else alpha * (exp(x) - 1)."""
    x = as_float(x)
    return where(x > 0, x, alpha * expm1(minimum(x, 0)))


@traced
def celu(x: Operand, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, else alpha * (exp(x / alpha) - 1)."""
    x = as_float(x)
    return maximum(x, 0) + alpha * expm1(minimum(x, 0) / alpha)


@traced
def selu(x: Operand) -> Tensor:
    """Return the scaled exponential linear unit (Klambauer et al., arXiv 1706.02515)."""
    return elu(x, 1.6732632423543772) * 1.0507009873554805


@traced
def mish(x: Operand) -> Tensor:
    """Return x * tanh(softplus(x))."""
    x = as_float(x)
    return x * tanh(softplus(x))


@traced
def soft_sign(x: Operand) -> Tensor:
    """Return x / (1 + abs(x))."""
    x = as_float(x)
    return x / (1 + abs_(x))


@traced
def hard_tanh(x: Operand) -> Tensor:
    """Clamp x to [-1, 1]."""
    return minimum(maximum(x, -1), 1)


@traced
def hard_sigmoid(x: Operand) -> Tensor:
    """Return (x + 3) / 6, clamped to [0, 1]."""
    return relu6(as_float(x) + 3) / 6


@named("hard_silu", "hard_swish")
def hard_silu(x: Operand) -> Tensor:
    """Return x * hard_sigmoid(x)."""
    x = as_float(x)
    return x * hard_sigmoid(x)


@traced
def standardize(x: Operand, axis: int = -1, epsilon: float = 1e-5) -> Tensor:
    """Return (x - mean) / sqrt(var + epsilon) along a dim."""
    return layer_norm(x, axis=axis, eps=epsilon)


@traced
def glu(x: Operand, axis: int = -1) -> Tensor:
    """Return the first half of `x` along a dim, multiplied by the sigmoid of the second half."""
    first, second = split(x, 2, axis)
    return first * sigmoid(second)


@traced
def one_hot(x: Operand, num_classes: int, *, dtype: Any = "f32", axis: int = -1) -> Tensor:
    """Return one-hot vectors of length `num_classes` along a new dim. An index out of range gives zeros."""
    x = tensor(x)
    dim = axis_of(axis, x.ndim + 1)
    shape = [*x.shape[:dim], num_classes, *x.shape[dim:]]
    return convert(expand_dims(x, dim) == iota(shape, dim, "i32"), dtype_of(dtype))


@traced
def softmax(x: Operand, axis: int = -1) -> Tensor:
    """Return exp(x) / sum(exp(x)) along a dim, without overflow. bf16 and f16 are computed in f32."""
    x = as_float(x)
    wide = widened(x)
    shifted = exp(wide - max_(wide, axis, True))
    return convert(shifted / sum_(shifted, axis, True), x.type.dtype)


@traced
def log_softmax(x: Operand, axis: int = -1) -> Tensor:
    """Return log(softmax(x)), computed as x - logsumexp(x). bf16 and f16 are computed in f32."""
    x = as_float(x)
    wide = widened(x)
    shifted = wide - max_(wide, axis, True)
    return convert(shifted - log(sum_(exp(shifted), axis, True)), x.type.dtype)


def softmax_cross_entropy(logits: Tensor, labels: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy of each label, and the log-sum-exp of its logits, along dim `axis`, in at least f32.

    If a label is not a class index, its logit counts as 0.
    """
    names = tuple(letters(logits.ndim))
    rows = names[:axis] + names[axis + 1 :]
    kind = TensorType(labels.shape, "f64" if logits.type.dtype == "f64" else "f32")
    attrs = {"factors": notation([names, rows], [rows, rows])}
    losses, log_sum_exps = emit_all("softmax_cross_entropy", [logits, labels], [kind, kind], attrs)
    return losses, log_sum_exps


@traced
def layer_norm(
    x: Operand, scale: Operand | None = None, bias: Operand | None = None, axis: int = -1, eps: float = 1e-5
) -> Tensor:
    """Return (x - mean) / sqrt(var + eps) * scale + bias along a dim; bf16 and f16 are computed in f32."""
    x = require_real(as_float(x))
    return normalized(x, [axis_of(axis, x.ndim)], eps, scale, bias).result


@traced
def rms_norm(x: Operand, scale: Operand | None = None, axis: int = -1, eps: float = 1e-6) -> Tensor:
    """Return x / sqrt(mean(x ** 2) + eps) * scale along a dim; bf16 and f16 are computed in f32."""
    x = require_real(as_float(x))
    return normalized(x, [axis_of(axis, x.ndim)], eps, scale, centered=False).result


@traced
def dot_product_attention(query: Operand, key: Operand, value: Operand, bias: Operand | None = None, mask: Operand | None = None, *,
                          scale: float | None = None, is_causal: bool = False) -> Tensor:  # fmt: skip
    """Return softmax(query @ key * scale + bias) @ value, as `jax.nn.dot_product_attention`.

    query [..., t, n, h], key and value [..., s, k, h] -> [..., t, n, h]; n / k query heads share a key and value head.
    `bias` and `mask` broadcast to [..., n, t, s]. Keys are ignored where the mask is False and, with `is_causal`, if
    they are later than the query. `scale` is 1 / sqrt(h) by default. The softmax is computed in at least f32.
    """
    query, key, value = tensor(query), tensor(key), tensor(value)
    *batch_sizes, rows, heads, size = query.shape
    key_heads, columns = key.shape[-2], key.shape[-3]
    if key.shape != value.shape or key.ndim != query.ndim or heads % key_heads or key.shape[-1] != size:
        refuse(f"attention of {query.type} over keys {key.type} and values {value.type}: heads and sizes do not fit")
    dtype = query.type.dtype
    grouped = transpose(
        reshape(query, [*batch_sizes, rows, key_heads, heads // key_heads, size]), _order(len(batch_sizes), 1, 2, 0, 3)
    )
    keys, values = (transpose(operand, _order(len(batch_sizes), 1, 0, 2)) for operand in (key, value))
    batch = range(len(batch_sizes) + 1)
    last = len(batch_sizes) + 3
    accumulator_dtype = "f32" if dtype in ("bf16", "f16") else dtype
    scores = dot_general(grouped, keys, batch, batch, [last], [last - 1], dtype=accumulator_dtype)
    scores = scores * (1 / math.sqrt(size) if scale is None else scale)
    score_shape = [*batch_sizes, heads, rows, columns]
    scores = reshape(scores, score_shape)
    if bias is not None:
        scores = scores + tensor(bias, accumulator_dtype)
    allowed = None if mask is None else tensor(mask)
    if is_causal:
        causal = iota((rows, columns), 0) >= iota((rows, columns), 1)
        allowed = causal if allowed is None else allowed & causal
    if allowed is not None:
        scores = where(allowed, scores, MASKED)
    weights = convert(softmax(scores), dtype)
    weights = reshape(weights, [*batch_sizes, key_heads, heads // key_heads, rows, columns])
    mixed = dot_general(weights, values, batch, batch, [last], [last - 2])
    return reshape(transpose(mixed, _order(len(batch_sizes), 2, 0, 1, 3)), query.shape)


def _order(lead: int, *rest: int) -> list[int]:
    """Return a permutation of dims: the first `lead` dims in order, then the dims lead + d for each d in `rest`."""
    return [*range(lead), *(lead + dim for dim in rest)]
