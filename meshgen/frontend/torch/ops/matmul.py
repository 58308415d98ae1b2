"""PyTorch matrix multiplication and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from meshgen.frontend.torch.ops.table import aten, enter_rows
from meshgen.frontend.torch.promotion import in_common_type
from meshgen.frontend.tracer import elementwise, joining
from meshgen.frontend.tracer import linear as traced
from meshgen.frontend.tracer.creation import iota
from meshgen.frontend.tracer.einsum import einsum as traced_einsum
from meshgen.frontend.tracer.linear import dot_general
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.nn import MASKED, softmax
from meshgen.frontend.tracer.operands import broadcast, convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.reduce import logsumexp
from meshgen.frontend.tracer.shapes import broadcast_shapes
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import is_inexact


@aten("linear")
def linear_(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x @ weight.T + bias as one contraction; the weight is not transposed first."""
    return _with_bias(dot_general(x, weight, (), (), (x.ndim - 1,), (weight.ndim - 1,)), bias)


def _scaled_sum(x: Tensor, product: Tensor, beta: complex, alpha: complex) -> Tensor:
    """Return beta * x + alpha * product in the dtype of `product`. For integers, `alpha` and `beta` are truncated."""
    if not is_inexact(product.type.dtype):
        beta, alpha = int(beta.real), int(alpha.real)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (x if beta == 1 else x * beta)


def _summed_matmul(left: Tensor, right: Tensor) -> Tensor:
    return dot_general(left, right, (), (), (0, 2), (0, 1)) if left.ndim == 3 else traced.matmul(left, right)


def _with_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + bias


enter_rows({
    "matmul mm bmm mv linalg_matmul": traced.matmul,
    "dot": lambda x, y: traced.tensordot(x, y, 1),
    "vdot": lambda x, y: traced.tensordot(x.conj(), y, 1),
    "outer ger": traced.outer,
    "addmm addmv baddbmm": lambda x, left, right, *, beta=1, alpha=1: _scaled_sum(x, traced.matmul(left, right), beta, alpha),
    "addbmm": lambda x, left, right, *, beta=1, alpha=1: _scaled_sum(x, _summed_matmul(left, right), beta, alpha),
    "einsum": lambda equation, tensors, path=None: traced_einsum(equation, *tensors),
    "bilinear": lambda x, y, weight, bias=None: _with_bias(traced_einsum("...i,oij,...j->...o", x, weight, y), bias),
})  # fmt: skip
enter_rows({"linalg_vecdot": lambda x, y, *, dim=-1: (x.conj() * y).sum(dim)}, in_common_type)


@aten("tensordot")
def tensordot(x: Tensor, y: Tensor, x_dims: Sequence[int], y_dims: Sequence[int]) -> Tensor:
    """Contract each dim in `x_dims` with its counterpart in `y_dims`. A dim of size 1 broadcasts to the other's size."""
    for d, e in zip(x_dims, y_dims, strict=True):
        x = x.sum(d, keepdims=True) if y.shape[e] == 1 else x
        y = y.sum(e, keepdims=True) if x.shape[d] == 1 else y
    return traced.tensordot(x, y, (list(x_dims), list(y_dims)))


@aten("_trilinear")
def trilinear(x: Tensor, y: Tensor, z: Tensor, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int],
              sumdim: Sequence[int], unroll_dim: int = 1) -> Tensor:  # fmt: skip
    """Multiply three tensors element by element, and sum over the dims `sumdim`.

    Before that, each tensor is broadcast along new dims, for example `x` along `expand1`.
    """
    del unroll_dim
    rank = x.ndim + len(expand1)
    letters = "abcdefghijklmnop"[:rank]
    terms = ["".join(c for d, c in enumerate(letters) if d not in new) for new in (expand1, expand2, expand3)]
    output_letters = "".join(c for d, c in enumerate(letters) if d not in sumdim)
    return traced_einsum(f"{','.join(terms)}->{output_letters}", x, y, z)


@aten("_grouped_mm", "transformers.grouped_mm_fallback")
def grouped_mm(x: Tensor, weight: Tensor, ends: Tensor | None = None, bias: Tensor | None = None, out_dtype: str | None = None) -> Tensor:  # fmt: skip
    """Multiply groups of rows or columns by separate matrices; `ends` has the end offset of each group.

    The groups divide the dim on the right:

        [rows, k] x [groups, k, n]       the rows of `x`
        [groups, m, k] x [k, columns]    the columns of `weight`
        [m, rows] x [rows, n]            the contracted dim; the result is [groups, m, n]
    """
    if ends is None:
        return traced.matmul(x, weight)
    if bias is not None or not 2 <= x.ndim <= 3 or not 2 <= weight.ndim <= 3 or x.ndim + weight.ndim == 6:
        refuse(f"a grouped matmul of {x.type} and {weight.type} is not supported", "give rows [rows, k] and matrices [groups, k, n]", "MG0103")  # fmt: skip
    dtype = out_dtype or x.type.dtype
    if x.ndim == 3:
        return _ragged_dot(weight.T, x.swapaxes(1, 2), ends, dtype=dtype).T
    if weight.ndim == 2:
        return _ragged_dot(x.T, weight, ends, contracts=True, dtype=dtype)
    return _ragged_dot(x, weight, ends, dtype=dtype)


def _ragged_dot(x: Tensor, y: Tensor, ends: Tensor, *, contracts: bool = False, dtype: str) -> Tensor:
    """Emit a ragged dot in which each group starts at the end of the previous one."""
    return traced.ragged_dot(x, y, joining.pad(ends[:-1], (1, 0)), ends, contracts=contracts, dtype=dtype)


@aten("transformers.grouped_mm_fallback_backward")
def grouped_mm_backward(x: Tensor, weight: Tensor, ends: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of `grouped_mm` with respect to the rows `x` and the group matrices `weight`."""
    gradient = _ragged_dot(x, grad, ends, contracts=True, dtype=weight.type.dtype)
    return _ragged_dot(grad, weight.swapaxes(1, 2), ends, dtype=x.type.dtype), gradient


@aten("scaled_dot_product_attention")
def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout_p: float = 0.0,
              is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Tensor:  # fmt: skip
    """Return softmax(query @ key.T * scale + mask) @ value over [..., heads, rows, size], with scores in f32.

    With `enable_gqa`, several query heads share a key and value head. A query without an allowed key has the result 0.
    """
    if dropout_p:
        refuse("attention with dropout draws random numbers", "export the model in eval mode, or with dropout 0", "MG0103")  # fmt: skip
    *leading, rows, size = query.shape
    dtype = query.type.dtype
    groups = leading[-1] // key.shape[-3] if enable_gqa and len(leading) else 1
    if groups > 1:
        query = query.reshape(*leading[:-1], key.shape[-3], groups, rows, size)
    else:
        leading = [*broadcast_shapes(*(operand.shape[:-2] for operand in (query, key, value)))]
        query, key, value = (broadcast(operand, [*leading, *operand.shape[-2:]]) for operand in (query, key, value))
    batch = range(key.ndim - 2)
    scores = _scores(query, key, scale).reshape(*leading, rows, key.shape[-2])
    weights = softmax(_apply_mask(scores, mask, is_causal))
    if mask is not None and mask.type.dtype == "i1" and not is_causal:
        weights = where(mask, weights, 0.0)
    weights = convert(weights, dtype).reshape(*query.shape[:-1], key.shape[-2])
    weighted = dot_general(weights, value, batch, batch, [query.ndim - 1], [len(batch)])
    result = weighted.reshape(*leading, rows, value.shape[-1])
    return result if mask is None or mask.type.dtype == "i1" else where(_has_key(mask), result, 0)


def _has_key(mask: Tensor) -> Tensor:
    """Return a mask [..., rows, 1]: whether the additive mask allows at least one key for a query.

    The softmax of a row of -inf would be NaN, but torch's attention returns 0 for such a query.
    """
    return (mask > -math.inf).any(-1, True)


def _scores(query: Tensor, key: Tensor, scale: float | None) -> Tensor:
    """Return query @ key.T * scale, in f32 if the operands are 16-bit floats."""
    batch, last = range(key.ndim - 2), [query.ndim - 1]
    wide = "f32" if query.type.dtype in ("bf16", "f16") else query.type.dtype
    return dot_general(query, key, batch, batch, last, [key.ndim - 1], dtype=wide) * _factor(query, scale)


def _factor(query: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def _apply_mask(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """Apply a causal, boolean or additive mask to the scores."""
    if is_causal:
        rows, columns = scores.shape[-2:]
        return where(iota((rows, columns), 0) >= iota((rows, columns), 1), scores, MASKED)
    if mask is None:
        return scores
    return where(mask, scores, MASKED) if mask.type.dtype == "i1" else scores + tensor(mask, scores.type.dtype)


@aten("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention")
def flash_attention(query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *_options: Any,
                    attn_mask: Tensor | None = None, scale: float | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the result of attention, and the log-sum-exp of each query's scores, which the gradient takes."""
    is_grouped = query.shape[-3] != key.shape[-3]
    result = attention(query, key, value, attn_mask, dropout_p, is_causal, scale, is_grouped)
    return result, logsumexp(_apply_mask(_scores(query, _repeat_heads(key, query), scale), attn_mask, is_causal), -1)


def _repeat_heads(x: Tensor, query: Tensor) -> Tensor:
    """Repeat the heads of `x` (key or value) so that it has as many heads as `query`."""
    return joining.repeat(x, query.shape[-3] // x.shape[-3], x.ndim - 3)


def _sum_shared_heads(gradient: Tensor, x: Tensor) -> Tensor:
    """Sum the gradients of all query heads that share a head of `x` (key or value)."""
    if gradient.shape == x.shape:
        return gradient
    *leading, heads, rows, size = x.shape
    return gradient.reshape(*leading, heads, gradient.shape[-3] // heads, rows, size).sum(-3)


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
                             dropout_p: float, is_causal: bool, *, attn_mask: Tensor | None = None,
                             scale: float | None = None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients of query, key and value. The attention weights are recomputed.

    `logsumexp` is not used: if torch has decomposed the forward pass, this argument holds the attention weights
    instead.
    """
    shared_key, shared_value = key, value
    key, value = _repeat_heads(key, query), _repeat_heads(value, query)
    if attn_mask is not None and attn_mask.type.dtype != "i1":
        grad = where(_has_key(attn_mask), grad, 0)
        attn_mask = elementwise.maximum(attn_mask, MASKED if attn_mask.type.dtype != "f16" else -65504.0)
    batch, rows, last = range(query.ndim - 2), query.ndim - 2, query.ndim - 1
    weights = softmax(_apply_mask(_scores(query, key, scale), attn_mask, is_causal))
    wide = weights.type.dtype
    weight_gradient = dot_general(grad, value, batch, batch, [last], [last], dtype=wide)
    row_sums = (tensor(grad, wide) * tensor(out, wide)).sum(-1)
    scores = convert(weights * (weight_gradient - row_sums[..., None]) * _factor(query, scale), query.type.dtype)
    query_gradient = dot_general(scores, key, batch, batch, [last], [rows])
    key_gradient = dot_general(scores, query, batch, batch, [rows], [rows])
    value_gradient = dot_general(convert(weights, grad.type.dtype), grad, batch, batch, [rows], [rows])
    return query_gradient, _sum_shared_heads(key_gradient, shared_key), _sum_shared_heads(value_gradient, shared_value)
