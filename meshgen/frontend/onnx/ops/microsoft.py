"""Operators of ONNX Runtime that exporters and its optimiser write."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.activations import exact_gelu
from meshgen.frontend.onnx.ops.attention import Scores, attend, heads_of, joined_heads, rotated
from meshgen.frontend.onnx.ops.table import MICROSOFT, Call, enter_rows, of_tensor, op, rank_of, shape_of
from meshgen.frontend.tracer import nn
from meshgen.frontend.tracer.creation import iota
from meshgen.frontend.tracer.elementwise import sigmoid
from meshgen.frontend.tracer.indexing import getitem
from meshgen.frontend.tracer.joining import concatenate, split
from meshgen.frontend.tracer.linear import matmul
from meshgen.frontend.tracer.logic import not_equal
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor


@op("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(call: Call, x: Operand, places: Operand, cos: Operand, sin: Operand) -> Tensor:
    """`places` are numbers per batch and row, or that of the first row."""
    rows = shape_of(x)[-2]
    if rank_of(places) == 1:
        places = reshape(tensor(places), (-1, 1)) + iota((1, rows), 1, "i64")
    if rank_of(x) == 3 and not call["num_heads"]:
        refuse("RotaryEmbedding of a tensor of rank 3 needs num_heads")
    return rotated(call, x, cos, sin, places)


@op("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(call: Call, q: Operand, k: Operand, v: Operand, bias: Operand = None, padding: Operand = None,
                         added: Operand = None, past_key: Operand = None, past_value: Operand = None) -> Any:  # fmt: skip
    """Query, key and value [b, s, h * d] with one bias for all three; `padding` marks keys [b, s], or pairs [b, q, s]."""
    if bias is not None:
        widths = [shape_of(each)[-1] for each in (q, k, v)]
        ours, theirs, values = split(tensor(bias), [widths[0], widths[0] + widths[1]])
        q, k, v = tensor(q) + ours, tensor(k) + theirs, tensor(v) + values
    return _attended(call, q, k, v, padding, added, past_key, past_value)


@op("Attention", domain=MICROSOFT)
def attention(call: Call, x: Operand, weights: Operand, bias: Operand = None, padding: Operand = None) -> Any:
    """One product for query, key and value."""
    wide = matmul(x, weights)
    q, k, v = split(wide if bias is None else wide + bias, 3, -1)
    return _attended(call, q, k, v, padding, None, None, None)


def _attended(call: Call, q: Operand, k: Operand, v: Operand, padding: Operand, added: Operand, past_key: Operand, past_value: Operand) -> Any:  # fmt: skip
    heads = call["num_heads"]
    query, key, value = (heads_of(each, heads) for each in (q, k, v))
    if past_key is not None:
        key, value = concatenate([past_key, key], 2), concatenate([past_value, value], 2)
    rows, columns = query.shape[2], key.shape[2]
    allowed = None if padding is None else _allowed(padding, columns)
    if call["unidirectional"]:
        causal = reshape(iota((rows,), 0), (-1, 1)) + (columns - rows) >= iota((columns,), 0)
        allowed = causal if allowed is None else allowed & causal
    scale = call["scale"] or query.shape[-1] ** -0.5
    how = Scores(scale, 0.0, allowed, None if added is None else tensor(added), kind=query.type.dtype)
    return (joined_heads(attend(query, key, value, how).result), key, value)[: max(call.results, 1)]


def _allowed(padding: Operand, columns: int) -> Tensor:
    """Truth values [b, 1, 1 or q, s] of a mask of keys, or of pairs."""
    padding = tensor(padding)
    if padding.ndim not in (2, 3) or padding.shape[-1] != columns:
        refuse(f"a mask {padding.type} is not supported: give one [b, {columns}] or [b, q, {columns}]")
    index: Any = (slice(None), None, None) if padding.ndim == 2 else (slice(None), None)
    return not_equal(getitem(padding, index), np.zeros((), padding.dtype))


enter_rows({
    "Gelu": lambda call, x: exact_gelu(x),
    "BiasGelu": lambda call, x, bias: exact_gelu(x + bias),
    "FastGelu": lambda call, x, bias=None: nn.gelu(x if bias is None else x + bias),
    "QuickGelu": lambda call, x: x * sigmoid(x * (1.702 if call["alpha"] is None else call["alpha"])),
}, of_tensor, MICROSOFT)  # fmt: skip
