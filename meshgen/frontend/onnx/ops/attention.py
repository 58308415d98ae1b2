"""Attention and rotary embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.casts import dtype_of_code
from meshgen.frontend.onnx.ops.layout import padded
from meshgen.frontend.onnx.ops.table import Call, enter_rows, op
from meshgen.frontend.tracer import nn
from meshgen.frontend.tracer.creation import iota
from meshgen.frontend.tracer.elementwise import tanh
from meshgen.frontend.tracer.indexing import take
from meshgen.frontend.tracer.joining import concatenate, split, stack
from meshgen.frontend.tracer.linear import dot_general
from meshgen.frontend.tracer.logic import logical_and, where
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.reduce import any_
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Tensor

NEVER = float("-inf")  # The additive mask of a score that must be ignored.


@dataclass(frozen=True)
class Scores:
    """Settings for the scores of attention: scale, softcap and masks. Shapes: b batch, h heads, q queries, s keys.

    Attributes:
        scale: factor of the scores.
        softcap: c in c * tanh(score / c); 0 disables the softcap.
        allowed: boolean mask that broadcasts to [b, h, q, s].
        bias: additive mask that broadcasts to [b, h, q, s].
        has_empty_rows: whether some queries may have no allowed key; such queries have the result 0.
        kind: dtype of the softmax.
    """

    scale: float
    softcap: float = 0.0
    allowed: Tensor | None = None
    bias: Tensor | None = None
    has_empty_rows: bool = False
    kind: str = "f32"


@dataclass(frozen=True)
class AttentionResult:
    """The result [b, h, q, d] of attention, and intermediate values.

    `between` holds the scores before the softcap, after it, with the mask added, and after the softmax.
    """

    result: Tensor
    between: tuple[Tensor, Tensor, Tensor, Tensor]


def attend(query: Tensor, key: Tensor, value: Tensor, settings: Scores) -> AttentionResult:
    """Return softmax(query @ key * scale) @ value with masks from `settings`.

    Groups of query heads share a key and value head.
    """
    b, heads, rows, size = query.shape
    shared_heads, columns = key.shape[1:3]
    kind = query.type.dtype
    grouped_query = query.reshape(b, shared_heads, heads // shared_heads, rows, size)
    scores = dot_general(
        grouped_query, key, (0, 1), (0, 1), (4,), (3,), dtype="f32" if kind in ("f16", "bf16") else kind
    )
    plain = (scores * settings.scale).reshape(b, heads, rows, columns)
    capped = plain if not settings.softcap else tanh(plain / settings.softcap) * settings.softcap
    biased = capped if settings.bias is None else capped + settings.bias.astype(capped.type.dtype)
    biased = (
        biased
        if settings.allowed is None
        else where(settings.allowed, biased, NEVER if settings.has_empty_rows else nn.MASKED)
    )
    weights = nn.softmax(biased.astype(settings.kind)).astype(kind)
    grouped_weights = weights.reshape(b, shared_heads, heads // shared_heads, rows, columns)
    weighted = dot_general(grouped_weights, value, (0, 1), (0, 1), (4,), (2,))
    result = weighted.reshape(b, heads, rows, value.shape[-1])
    if settings.has_empty_rows and (is_nonempty := _nonempty_rows(settings)) is not None:
        result, weights = where(is_nonempty, result, 0), where(is_nonempty, weights, 0)
    return AttentionResult(result, (plain, capped, biased, weights))


def _nonempty_rows(settings: Scores) -> Tensor | None:
    """Return a mask [.., q, 1] of the queries that have at least one allowed key, or None without masks."""
    has_allowed = None if settings.allowed is None else any_(settings.allowed, -1, True)
    if settings.bias is None:
        return has_allowed
    is_finite = settings.bias > NEVER
    return any_(is_finite if settings.allowed is None else logical_and(is_finite, settings.allowed), -1, True)


def separate_heads(x: Tensor, count: int) -> Tensor:
    """Reshape [b, s, h * d] to [b, h, s, d], with h = `count`. A tensor of rank 4 is returned unchanged."""
    if x.ndim == 4:
        return x
    b, rows, hidden = x.shape
    if not count or hidden % count:
        refuse(f"{count} heads do not divide the {hidden} features of {x.type}")
    return x.reshape(b, rows, count, hidden // count).transpose(0, 2, 1, 3)


def join_heads(x: Tensor) -> Tensor:
    """Reshape [b, h, s, d] to [b, s, h * d]."""
    b, heads, rows, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, rows, heads * size)


@op("Attention")
def attention(call: Call, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, past_key: Tensor | None = None,
              past_value: Tensor | None = None, lengths: Tensor | None = None) -> Any:  # fmt: skip
    """Import the `Attention` operator of opset 23 and later."""
    query = separate_heads(q, call["q_num_heads"] or 0)
    key, value = (separate_heads(x, call["kv_num_heads"] or 0) for x in (k, v))
    past_length = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        key, value = concatenate([past_key, key], 2), concatenate([past_value, value], 2)
    attended = attend(query, key, value, _scores(call, query, key, mask, past_length, lengths))
    result = attended.result if q.ndim == 4 else join_heads(attended.result)
    intermediate = attended.between[call["qk_matmul_output_mode"] or 0].astype(query.type.dtype)
    return result, key, value, intermediate


def _scores(
    call: Call, query: Tensor, key: Tensor, mask: Tensor | None, past_length: int, lengths: Tensor | None
) -> Scores:
    """Return the scale and all masks of a call: causal, sliding window, padded keys (`lengths`), and the explicit mask.

    `past_length` is the number of cached keys before the first query, for the causal mask.
    """
    rows, columns, size = query.shape[2], key.shape[2], query.shape[3]
    conditions: list[Tensor] = []
    bias: Tensor | None = None
    if mask is not None:
        pairs = [(0, 0)] * (mask.ndim - 1) + [(0, columns - mask.shape[-1])]
        if mask.type.dtype == "i1":
            conditions.append(padded(mask, pairs, value=np.False_))
        else:
            bias = padded(mask, pairs, value=np.asarray(NEVER, mask.dtype))
    first: int | Tensor = past_length
    if lengths is not None:
        length = lengths.reshape(-1, 1, 1, 1)
        conditions.append(iota((columns,), 0, length.type.dtype).reshape(1, 1, 1, -1) < length)
        first = length - rows
    distance = distances(rows, columns, first)
    if call["is_causal"]:
        conditions.append(distance >= 0)
    if (left := call["left_window_size"]) is not None and left >= 0:
        conditions.append(distance <= left)
    if (right := call["right_window_size"]) is not None and right >= 0:
        conditions.append(distance >= -right)
    allowed = reduce(logical_and, conditions) if conditions else None
    scale = 1 / math.sqrt(size) if call["scale"] is None else call["scale"]
    kind = dtype_of_code(call["softmax_precision"]) if call["softmax_precision"] else query.type.dtype
    may_be_empty = any(condition is not None for condition in (mask, lengths, left, right)) or call.results > 3
    return Scores(scale, call["softcap"] or 0.0, allowed, bias, may_be_empty, kind)


def distances(rows: int, columns: int, first: int | Tensor) -> Tensor:
    """Return the position of each query minus the position of each key, [.., q, s].

    The first query is at position `first` (a number, or a tensor [.., 1, 1]); the first key is at position 0.
    """
    return iota((rows,), 0, "i64").reshape(-1, 1) + tensor(first, "i64") - iota((columns,), 0, "i64")


def rotated(call: Call, x: Tensor, cos: Tensor | None, sin: Tensor | None, positions: Tensor | None) -> Tensor:
    """Apply rotary embeddings to x [b, h, s, d] or [b, s, h * d].

    `cos` and `sin` are [b, s, d / 2], or tables from which the indices `positions` select a row per token.
    """
    heads = separate_heads(x, call["num_heads"])
    rotary_size = call["rotary_embedding_dim"] or heads.shape[-1]
    cosines, sines = (expand_dims(table if positions is None else take(table, positions, 0), 1) for table in (cos, sin))
    rotary_part, unrotated_part = split(heads, [rotary_size], -1)
    if call["interleaved"]:
        pairs = rotary_part.reshape(*rotary_part.shape[:-1], rotary_size // 2, 2)
        first, second = pairs[..., 0], pairs[..., 1]
    else:
        first, second = split(rotary_part, 2, -1)
    real, imaginary = cosines * first - sines * second, sines * first + cosines * second
    rotated_part = stack([real, imaginary], -1).reshape(rotary_part.shape) if call["interleaved"] else concatenate([real, imaginary], -1)  # fmt: skip
    result = rotated_part if rotary_size == heads.shape[-1] else concatenate([rotated_part, unrotated_part], -1)
    return result if x.ndim == 4 else join_heads(result)


enter_rows({"RotaryEmbedding": lambda call, x, cos, sin, places=None: rotated(call, x, cos, sin, places)})
