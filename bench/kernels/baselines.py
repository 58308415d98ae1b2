"""The same programs in PyTorch: what `python -m bench kernels` measures beside its own kernels on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = Callable[..., Any]


def baseline(torch: Any, name: str) -> Call | None:
    """The function of torch tensors that computes what a program does; None where PyTorch has no such function."""
    if name.startswith("product-") and name not in ("product-f8", "product-i8", "product-transposed"):
        return torch.matmul
    return _functions(torch).get(name)


def _functions(torch: Any) -> dict[str, Call]:
    f = torch.nn.functional

    def attention(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        heads = (each.transpose(1, 2) for each in (q, k, v))
        found = f.scaled_dot_product_attention(*heads, is_causal=is_causal, enable_gqa=q.shape[2] != k.shape[2])
        return found.transpose(1, 2)

    def rms_norm_of_sum(x: Any, residual: Any, scale: Any) -> Any:
        total = x + residual
        return total, f.rms_norm(total, scale.shape, scale, 1e-6)

    def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
        return f.layer_norm(x.float(), scale.shape, scale, bias).to(x.dtype)

    return {
        "product-transposed": lambda x, w: x.T @ w.T,
        "gelu-and-residual": lambda x, w, bias, residual: f.gelu(x @ w + bias, approximate="tanh") + residual,
        "gated": lambda x, w, v: f.silu(x @ w) * (x @ v),
        "attention-causal": lambda q, k, v: attention(q, k, v, True),
        "attention-grouped": lambda q, k, v: attention(q, k, v, True),
        "attention-whole": lambda q, k, v: attention(q, k, v, False),
        "attention-decode": lambda q, k, v: attention(q, k, v, False),
        "softmax": lambda x: f.softmax(x, -1),
        "softmax-long": lambda x: f.softmax(x, -1),
        "rms-norm": lambda x, scale: f.rms_norm(x, scale.shape, scale, 1e-6),
        "rms-norm-of-sum": rms_norm_of_sum,
        "layer-norm": layer_norm,
        "cross-entropy": lambda logits, labels: f.cross_entropy(logits.float(), labels.long()),
        "look-up": lambda table, ids: table[ids],
        "transpose": lambda x: x.T.contiguous(),
        "cast": lambda x: x.to(torch.bfloat16),
        "column-sums": lambda x: x.sum(0),
        "running-sums": lambda x: x.cumsum(1),
        "arg-max": lambda x: x.argmax(-1).int(),
    }
