"""Operators of ONNX Runtime's own domain in exported or optimized models: attention with caches, packed GEMM weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.attention import Scores, attend, distances, join_heads, rotated, separate_heads
from meshgen.frontend.onnx.ops.layout import padded
from meshgen.frontend.onnx.ops.table import MICROSOFT, Array, Call, kind_of, op
from meshgen.frontend.tracer.creation import iota, zeros
from meshgen.frontend.tracer.elementwise import clip
from meshgen.frontend.tracer.indexing import take_along_axis
from meshgen.frontend.tracer.joining import concatenate, split, stack
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.logic import not_equal, where
from meshgen.frontend.tracer.operands import emit, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import expand_dims, reshape
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ops.factors import notation


@op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(call: Call, x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary embeddings. `positions` holds the position of each token, or only that of the first token."""
    if positions.ndim == 1:
        positions = positions.reshape(-1, 1) + iota((1, x.shape[-2]), 1, "i64")
    if x.ndim == 3 and not call["num_heads"]:
        refuse("RotaryEmbedding of a tensor of rank 3 needs num_heads")
    return rotated(call, x, cos, sin, positions)


@op("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(call: Call, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, padding: Tensor | None = None,
                         added: Tensor | None = None, past_key: Tensor | None = None, past_value: Tensor | None = None) -> Any:  # fmt: skip
    """Import attention on q, k, v [b, s, h * d]. `bias` is one vector for q, k and v together.

    `padding` marks allowed keys [b, s], or allowed pairs of query and key [b, q, s].
    """
    if bias is not None:
        widths = [x.shape[-1] for x in (q, k, v)]
        query_bias, key_bias, value_bias = split(bias, [widths[0], widths[0] + widths[1]])
        q, k, v = q + query_bias, k + key_bias, v + value_bias
    query, key, value = (separate_heads(x, call["num_heads"]) for x in (q, k, v))
    if past_key is not None:
        key, value = concatenate([past_key, key], 2), concatenate([past_value, value], 2)
    return _attention_outputs(call, query, key, value, padding, added)


@op("Attention", domain=MICROSOFT)
def attention(call: Call, x: Tensor, weights: Tensor, bias: Tensor | None = None, padding: Tensor | None = None) -> Any:
    """Import attention whose query, key and value are one matmul of `x` with `weights`."""
    wide = matmul(x, weights)
    q, k, v = (separate_heads(part, call["num_heads"]) for part in split(wide if bias is None else wide + bias, 3, -1))
    return _attention_outputs(call, q, k, v, padding, None)


def _attention_outputs(call: Call, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, added: Tensor | None) -> Any:  # fmt: skip
    """Return the results of attention on [b, h, s, d]: the result as [b, s, h * d], the keys, and the values."""
    rows, columns = query.shape[2], key.shape[2]
    allowed = None if padding is None else _allowed_pairs(padding, columns)
    if call["unidirectional"]:
        causal = distances(rows, columns, columns - rows) >= 0
        allowed = causal if allowed is None else allowed & causal
    score_settings = Scores(call["scale"] or query.shape[-1] ** -0.5, 0.0, allowed, added, kind=query.type.dtype)
    return join_heads(attend(query, key, value, score_settings).result), key, value


def _allowed_pairs(padding: Tensor, columns: int) -> Tensor:
    """Convert a mask of keys or of (query, key) pairs to booleans [b, 1, 1 or q, s]."""
    if padding.ndim not in (2, 3) or padding.shape[-1] != columns:
        refuse(f"a mask {padding.type} is not supported: give one [b, {columns}] or [b, q, {columns}]")
    return not_equal(expand_dims(padding, (1, 2) if padding.ndim == 2 else 1), np.zeros((), padding.dtype))


@op("GroupQueryAttention", domain=MICROSOFT, known=(6,))
def group_query_attention(call: Call, q: Tensor, k: Tensor | None, v: Tensor | None, past_key: Tensor | None, past_value: Tensor | None,
                          lengths: Tensor, total: Array, cos: Tensor | None = None, sin: Tensor | None = None,
                          positions: Tensor | None = None, bias: Tensor | None = None, *unsupported: Tensor | None) -> Any:  # fmt: skip
    """Import causal attention over a cache of keys and values.

    Args:
        q: query [b, s, h * d], or query, key and value concatenated.
        past_key: key cache [b, k, t, d]; `past_value` has the same shape.
        lengths: for each sequence, the number of valid cache rows after the call, minus one. The new rows are the last
            of these, except that the rows of a prompt may end with padding.
        total: the largest number of valid rows.
    """
    if any(x is not None for x in unsupported) or call["smooth_softmax"] or (call["k_quant_type"] or "NONE") != "NONE":
        refuse("GroupQueryAttention with sinks, smooth softmax or a quantized cache is not supported")
    query, key, value = _split_heads(call, q, k, v)
    b, _, rows, size = query.shape
    total_rows = int(total.reshape(()))
    starts = zeros((b, 1), "i64") if rows == total_rows else lengths.astype("i64").reshape(b, 1) + 1 - rows
    if call["do_rotary"]:
        rotary_call = replace(call, attributes=dict(call.attributes) | {"interleaved": call["rotary_interleaved"]})
        query_positions = starts + iota((1, rows), 1, "i64") if positions is None else positions
        query, key = (rotated(rotary_call, x, cos, sin, query_positions) for x in (query, key))
    key, value = (
        _update_cache(past, update, starts, total_rows) for past, update in ((past_key, key), (past_value, value))
    )
    distance = distances(rows, key.shape[2], starts.reshape(b, 1, 1, 1))
    allowed = distance >= 0
    if (window := call["local_window_size"]) is not None and window > 0:
        allowed = allowed & (distance < window)
    score_settings = Scores(call["scale"] or size**-0.5, call["softcap"] or 0.0, allowed, bias)
    return join_heads(attend(query, key, value, score_settings).result), key, value


def _split_heads(call: Call, q: Tensor, k: Tensor | None, v: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return query, key and value as [b, h, s, d]. Without `k`, `q` contains all three, concatenated."""
    heads, shared_heads = call["num_heads"], call["kv_num_heads"]
    if k is None or v is None:
        size = q.shape[-1] // (heads + 2 * shared_heads)
        q, k, v = split(q, [heads * size, (heads + shared_heads) * size], -1)
    return separate_heads(q, heads), separate_heads(k, shared_heads), separate_heads(v, shared_heads)


def _update_cache(past: Tensor | None, new: Tensor, starts: Tensor, total: int) -> Tensor:
    """Return `past`, extended to `total` rows, with the rows `new` written from row `starts[b]` on in each batch b."""
    b, shared_heads, rows, size = new.shape
    past = zeros((b, shared_heads, 0, size), new.type.dtype) if past is None else past
    columns = max(past.shape[2], total)
    past = padded(past, [(0, 0), (0, 0), (0, columns - past.shape[2]), (0, 0)])
    row_in_update = iota((1, columns), 1, "i64") - starts
    is_new = expand_dims((row_in_update >= 0) & (row_in_update < rows), (1, 3))
    if rows > 1:
        new = take_along_axis(new, expand_dims(clip(row_in_update, 0, rows - 1), (1, 3)), 2)
    return where(is_new, new, past)


@op("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(call: Call, x: Tensor, packed: Tensor, scales: Tensor, zeros: Tensor | None = None, order: Tensor | None = None,
                  bias: Tensor | None = None) -> Tensor:  # fmt: skip
    """Multiply x [.., k] by a weight [n, k] that is quantized in blocks of k and packed into bytes.

    `packed` is [n, k / block, bytes of a block], with integers of 2, 4 or 8 bits. Each block has a scale and a zero
    point.
    """
    if order is not None:
        refuse("MatMulNBits with g_idx is not supported")
    n, bits, block = call["N"], call["bits"] or 4, call["block_size"]
    if bits not in (2, 4, 8):
        refuse(f"packed numbers of {bits} bits are not supported")
    blocks, per_byte = -(-call["K"] // block), 8 // bits
    point = tensor(2.0 ** (bits - 1), kind_of(scales)) if zeros is None else zeros
    if point.ndim:
        point = _unpack_bits(point.reshape(n, -1), bits)[:, :blocks] if point.type.dtype == "ui8" else point
        point = point.reshape(n, blocks)
    if x.shape[-1] != call["K"]:
        refuse(f"x has {x.shape[-1]} columns, but K is {call['K']}")
    rows = padded(x, [(0, 0)] * (x.ndim - 1) + [(0, blocks * block - x.shape[-1])])
    block_factors = ("g", "i", "p") if per_byte > 1 else ("g", "i")
    rows = rows.reshape(*x.shape[:-1], blocks, -1, *[per_byte] * (len(block_factors) - 2))
    leading = tuple(f"r{d}" for d in range(x.ndim - 1))
    factors = [(*leading, *block_factors), ("n", "g", "i"), ("n", "g"), ("n", "g") if point.ndim else ()]
    attrs = {"factors": notation(factors, [(*leading, "n")]), "bits": bits % 8}
    operands = [rows, packed.reshape(n, blocks, -1), scales.reshape(n, blocks), point]
    result = emit("scaled_dot", operands, x.type.with_shape((*x.shape[:-1], n)), attrs)
    return result if bias is None else result + bias


def _unpack_bits(packed: Tensor, bits: int) -> Tensor:
    """Unpack integers from bytes, lowest bits first, along the last dim."""
    fields = [(packed >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return reshape(stack(fields, -1), (*packed.shape[:-1], -1)) if len(fields) > 1 else packed
