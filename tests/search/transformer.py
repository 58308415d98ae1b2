"""A transformer without annotations, for the tracer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import meshgen as mg

HEADS, SIZE = 32, 128
MODEL, HIDDEN = HEADS * SIZE, 4 * HEADS * SIZE
WEIGHTS = {
    "wq": (MODEL, HEADS, SIZE), "wk": (MODEL, HEADS, SIZE), "wv": (MODEL, HEADS, SIZE), "wo": (HEADS, SIZE, MODEL),
    "w1": (MODEL, HIDDEN), "w2": (HIDDEN, MODEL),
}  # fmt: skip


def layer(x: Any, w: Any) -> Any:
    q, k, v = (mg.einsum("bld,dhe->bhle", _normalized(x), w[name]) for name in ("wq", "wk", "wv"))
    weights = mg.softmax(mg.einsum("bhle,bhme->bhlm", q, k) * SIZE**-0.5, axis=-1)
    x = x + mg.einsum("bhle,hed->bld", mg.einsum("bhlm,bhme->bhle", weights, v), w["wo"])
    return x + mg.matmul(mg.gelu(mg.matmul(_normalized(x), w["w1"])), w["w2"])


def _normalized(x: Any) -> Any:
    return x * mg.rsqrt(mg.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def stack(count: int, batch: int, length: int, dtype: str = "bf16") -> tuple[Callable[..., Any], list[Any]]:
    """Return a function of token vectors and a list of layers, and the types of its parameters."""

    def forward(x: Any, layers: Any) -> Any:
        for weights in layers:
            x = layer(x, weights)
        return x

    shapes = {name: f"{dtype}[{','.join(map(str, shape))}]" for name, shape in WEIGHTS.items()}
    return forward, [f"{dtype}[{batch},{length},{MODEL}]", [shapes] * count]
