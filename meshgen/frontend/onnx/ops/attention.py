"""Attention and rotary embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.casts import kind_named
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

NEVER = float("-inf")  # what is added to a score that must not be read


@dataclass(frozen=True)
class Scores:
    """What happens to the scores of query [b, h, q, d] with key [b, k, s, d].

    `allowed` are truth values, `bias` numbers that are added; both broadcast to [b, h, q, s]. `kind` is the type of the softmax.
    """

    scale: float
    softcap: float = 0.0
    allowed: Tensor | None = None
    bias: Tensor | None = None
    has_empty_rows: bool = False
    kind: str = "f32"


@dataclass(frozen=True)
class Attended:
    """The result [b, h, q, d], and what is between: products, capped ones, scores with their bias, weights."""

    result: Tensor
    between: tuple[Tensor, Tensor, Tensor, Tensor]


def attend(query: Tensor, key: Tensor, value: Tensor, how: Scores) -> Attended:
    """softmax(query @ key * scale) @ value; groups of the query's heads share one of the others. Rows that may read nothing are 0."""
    b, heads, rows, size = query.shape
    shared, columns = key.shape[1:3]
    kind = query.type.dtype
    grouped = query.reshape(b, shared, heads // shared, rows, size)
    scores = dot_general(grouped, key, (0, 1), (0, 1), (4,), (3,), dtype="f32" if kind in ("f16", "bf16") else kind)
    plain = (scores * how.scale).reshape(b, heads, rows, columns)
    capped = plain if not how.softcap else tanh(plain / how.softcap) * how.softcap
    biased = capped if how.bias is None else capped + how.bias.astype(capped.type.dtype)
    biased = biased if how.allowed is None else where(how.allowed, biased, NEVER if how.has_empty_rows else nn.MASKED)
    weights = nn.softmax(biased.astype(how.kind)).astype(kind)
    parts = weights.reshape(b, shared, heads // shared, rows, columns)
    mixed = dot_general(parts, value, (0, 1), (0, 1), (4,), (2,))
    found = mixed.reshape(b, heads, rows, value.shape[-1])
    if how.has_empty_rows and (read := _read_rows(how)) is not None:
        found, weights = where(read, found, 0), where(read, weights, 0)
    return Attended(found, (plain, capped, biased, weights))


def _read_rows(how: Scores) -> Tensor | None:
    """Rows that read something, [.., q, 1]."""
    found = None if how.allowed is None else any_(how.allowed, -1, True)
    if how.bias is None:
        return found
    reads = how.bias > NEVER
    return any_(reads if how.allowed is None else logical_and(reads, how.allowed), -1, True)


def heads_of(x: Tensor, count: int) -> Tensor:
    """[b, s, h * d] as [b, h, s, d]; a tensor of rank 4 as it is."""
    if x.ndim == 4:
        return x
    b, rows, hidden = x.shape
    if not count or hidden % count:
        refuse(f"{count} heads do not divide the {hidden} features of {x.type}")
    return x.reshape(b, rows, count, hidden // count).transpose(0, 2, 1, 3)


def joined_heads(x: Tensor) -> Tensor:
    """[b, h, s, d] as [b, s, h * d]."""
    b, heads, rows, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, rows, heads * size)


@op("Attention")
def attention(call: Call, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, past_key: Tensor | None = None,
              past_value: Tensor | None = None, lengths: Tensor | None = None) -> Any:  # fmt: skip
    """Attention of opset 23 and newer."""
    query = heads_of(q, call["q_num_heads"] or 0)
    key, value = (heads_of(each, call["kv_num_heads"] or 0) for each in (k, v))
    before = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        key, value = concatenate([past_key, key], 2), concatenate([past_value, value], 2)
    found = attend(query, key, value, _scores(call, query, key, mask, before, lengths))
    result = found.result if q.ndim == 4 else joined_heads(found.result)
    between = found.between[call["qk_matmul_output_mode"] or 0].astype(query.type.dtype)
    return result, key, value, between


def _scores(call: Call, query: Tensor, key: Tensor, mask: Tensor | None, before: int, lengths: Tensor | None) -> Scores:
    """The scale and the masks: causal from the last rows on, windows, keys that are padding, and the given one."""
    rows, columns, size = query.shape[2], key.shape[2], query.shape[3]
    conditions: list[Tensor] = []
    bias: Tensor | None = None
    if mask is not None:
        pairs = [(0, 0)] * (mask.ndim - 1) + [(0, columns - mask.shape[-1])]
        if mask.type.dtype == "i1":
            conditions.append(padded(mask, pairs, value=np.False_))
        else:
            bias = padded(mask, pairs, value=np.asarray(NEVER, mask.dtype))
    first: int | Tensor = before
    if lengths is not None:
        length = lengths.reshape(-1, 1, 1, 1)
        conditions.append(iota((columns,), 0, length.type.dtype).reshape(1, 1, 1, -1) < length)
        first = length - rows
    apart = distances(rows, columns, first)
    if call["is_causal"]:
        conditions.append(apart >= 0)
    if (left := call["left_window_size"]) is not None and left >= 0:
        conditions.append(apart <= left)
    if (right := call["right_window_size"]) is not None and right >= 0:
        conditions.append(apart >= -right)
    allowed = reduce(logical_and, conditions) if conditions else None
    scale = 1 / math.sqrt(size) if call["scale"] is None else call["scale"]
    kind = kind_named(call["softmax_precision"]) if call["softmax_precision"] else query.type.dtype
    may_be_empty = any(each is not None for each in (mask, lengths, left, right)) or call.results > 3
    return Scores(scale, call["softcap"] or 0.0, allowed, bias, may_be_empty, kind)


def distances(rows: int, columns: int, first: int | Tensor) -> Tensor:
    """The position of each query less that of each key, [.., q, s]; the first query is at the position `first`, [.., 1, 1]."""
    return iota((rows,), 0, "i64").reshape(-1, 1) + tensor(first, "i64") - iota((columns,), 0, "i64")


def rotated(call: Call, x: Tensor, cos: Tensor | None, sin: Tensor | None, places: Tensor | None) -> Tensor:
    """x [b, h, s, d] or [b, s, h * d]; cos and sin [b, s, d / 2], or rows of which `places` has the numbers."""
    heads = heads_of(x, call["num_heads"])
    turned = call["rotary_embedding_dim"] or heads.shape[-1]
    cosines, sines = (expand_dims(each if places is None else take(each, places, 0), 1) for each in (cos, sin))
    part, rest = split(heads, [turned], -1)
    if call["interleaved"]:
        pairs = part.reshape(*part.shape[:-1], turned // 2, 2)
        first, second = pairs[..., 0], pairs[..., 1]
    else:
        first, second = split(part, 2, -1)
    real, imaginary = cosines * first - sines * second, sines * first + cosines * second
    both = stack([real, imaginary], -1).reshape(part.shape) if call["interleaved"] else concatenate([real, imaginary], -1)  # fmt: skip
    whole = both if turned == heads.shape[-1] else concatenate([both, rest], -1)
    return whole if x.ndim == 4 else joined_heads(whole)


enter_rows({"RotaryEmbedding": lambda call, x, cos, sin, places=None: rotated(call, x, cos, sin, places)})
