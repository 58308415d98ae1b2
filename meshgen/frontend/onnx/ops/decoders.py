"""Operators of ONNX Runtime that exported language models have: attention with a cache in place, and products with packed weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.attention import Scores, attend, heads_of, joined_heads, rotated
from meshgen.frontend.onnx.ops.layout import padded
from meshgen.frontend.onnx.ops.table import MICROSOFT, Array, Call, kind_of, op
from meshgen.frontend.tracer.creation import iota
from meshgen.frontend.tracer.elementwise import clip
from meshgen.frontend.tracer.indexing import take_along_axis
from meshgen.frontend.tracer.joining import split, stack
from meshgen.frontend.tracer.linear import dot_general
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import expand_dims, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor


@op("GroupQueryAttention", domain=MICROSOFT, known=(6,))
def group_query_attention(call: Call, q: Operand, k: Operand, v: Operand, past_key: Operand, past_value: Operand,
                          lengths: Operand, total: Array, cos: Operand = None, sin: Operand = None, places: Operand = None,
                          bias: Operand = None, *more: Operand) -> Any:  # fmt: skip
    """Causal attention over a cache: `lengths` are the numbers of rows of each sequence, less one; `total` is their largest.

    Query [b, s, h * d], or all three side by side; the cache [b, k, t, d]. New rows are put after those of their sequence; the first
    ones, of a prompt, may be padded behind.
    """
    if any(each is not None for each in more) or call["smooth_softmax"] or (call["k_quant_type"] or "NONE") != "NONE":
        refuse("GroupQueryAttention with sinks, smooth softmax or a quantised cache is not supported")
    query, key, value = _three(call, q, k, v)
    b, _, rows, size = query.shape
    held = int(np.asarray(total).reshape(()))
    starts = tensor(np.zeros((b, 1)), "i64") if rows == held else reshape(tensor(lengths, "i64"), (b, 1)) + 1 - rows
    if call["do_rotary"]:
        turn = replace(call, attributes=dict(call.attributes) | {"interleaved": call["rotary_interleaved"]})
        at = starts + iota((1, rows), 1, "i64") if places is None else places
        query, key = (rotated(turn, each, cos, sin, at) for each in (query, key))
    key, value = (_put(past, new, starts, held) for past, new in ((past_key, key), (past_value, value)))
    columns = key.shape[2]
    ends = reshape(starts, (b, 1, 1, 1)) + reshape(iota((rows,), 0, "i64"), (-1, 1))
    apart = ends - iota((columns,), 0, "i64")
    allowed = apart >= 0
    if (window := call["local_window_size"]) is not None and window > 0:
        allowed = allowed & (apart < window)
    how = Scores(call["scale"] or size**-0.5, call["softcap"] or 0.0, allowed, None if bias is None else tensor(bias))
    return (joined_heads(attend(query, key, value, how).result), key, value)[: max(call.results, 1)]


def _three(call: Call, q: Operand, k: Operand, v: Operand) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value by heads."""
    heads, shared = call["num_heads"], call["kv_num_heads"]
    if k is None:
        size = tensor(q).shape[-1] // (heads + 2 * shared)
        q, k, v = split(tensor(q), [heads * size, (heads + shared) * size], -1)
    return heads_of(q, heads), heads_of(k, shared), heads_of(v, shared)


def _put(past: Operand, new: Tensor, starts: Tensor, total: int) -> Tensor:
    """A cache, at least as long as `total`, with new rows from `starts` on."""
    b, shared, rows, size = new.shape
    past = tensor(np.zeros((b, shared, 0, size)), new.type.dtype) if past is None else tensor(past)
    columns = max(past.shape[2], total)
    past = padded(past, [(0, 0), (0, 0), (0, columns - past.shape[2]), (0, 0)])
    number = iota((1, columns), 1, "i64") - starts
    is_new = expand_dims((number >= 0) & (number < rows), (1, 3))
    if rows > 1:
        new = take_along_axis(new, expand_dims(clip(number, 0, rows - 1), (1, 3)), 2)
    return where(is_new, new, past)


@op("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(call: Call, x: Operand, packed: Operand, scales: Operand, zeros: Operand = None, order: Operand = None,
                  bias: Operand = None) -> Tensor:  # fmt: skip
    """x [.., k] with weights [n, k / block, bytes of a block], numbers of 2, 4 or 8 bits of which a block has a scale and a zero point."""
    if order is not None:
        refuse("MatMulNBits with g_idx is not supported")
    x, n, k, bits = tensor(x), call["N"], call["K"], call["bits"] or 4
    kind, blocks = kind_of(scales), -(-k // call["block_size"])
    point: Operand = 2.0 ** (bits - 1)
    if zeros is not None:
        point = tensor(zeros)
        point = convert(_unpacked(reshape(point, (n, -1)), bits)[:, :blocks], kind) if point.type.dtype == "ui8" else point  # fmt: skip
        point = reshape(point, (n, blocks, 1))
    numbers = convert(_unpacked(reshape(tensor(packed), (n, blocks, -1)), bits), kind)
    weights = reshape((numbers - point) * reshape(tensor(scales), (n, blocks, 1)), (n, -1))[:, :k]
    found = dot_general(x, convert(weights, x.type.dtype), (), (), (x.ndim - 1,), (1,))
    return found if bias is None else found + tensor(bias)


def _unpacked(packed: Tensor, bits: int) -> Tensor:
    """The numbers in bytes, the lowest bits first, along the last dim."""
    if bits not in (2, 4, 8):
        refuse(f"packed numbers of {bits} bits are not supported")
    parts = [(packed >> at) & (2**bits - 1) for at in range(0, 8, bits)]
    return reshape(stack(parts, -1), (*packed.shape[:-1], -1)) if len(parts) > 1 else packed
