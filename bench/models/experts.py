"""A Mixtral-like language model: each token is routed to the best two of eight experts, which are split over `ep`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array, by_name, tokens

MESH = {"dp": 2, "ep": 4}
CHOSEN = 2  # experts per token
SPLIT = by_name({"*.gate": P("ep"), "*.up": P("ep"), "*.down": P("ep")})


def parameters(layers: int, width: int, hidden: int, words: int, heads: int, groups: int, experts: int = 8) -> Any:
    """Return the parameter types by name. Queries have `heads` heads; keys and values have `groups` heads."""
    head = width // heads
    layer = {
        "norm1": array(width),
        "q": array(width, heads, head),
        "k": array(width, groups, head),
        "v": array(width, groups, head),
        "o": array(heads, head, width),
        "norm2": array(width),
        "router": array(width, experts),
        "gate": array(experts, width, hidden),
        "up": array(experts, width, hidden),
        "down": array(experts, hidden, width),
    }
    return {
        "embedding": array(words, width),
        "layers": [layer] * layers,
        "norm": array(width),
        "head": array(width, words),
    }


def _normed(x: Any, scale: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * (1 + scale)


def _rotated(x: Any) -> Any:
    """Apply rotary position embeddings."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 1e4 ** (-jnp.arange(half) / half)
    sin, cos = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def _attention(x: Any, layer: Any) -> Any:
    q, k, v = (jnp.einsum("blw,whd->blhd", x, layer[name]) for name in "qkv")
    out = jax.nn.dot_product_attention(_rotated(q), _rotated(k), v, is_causal=True)
    return jnp.einsum("blhd,hdw->blw", out, layer["o"])


def _experts(x: Any, layer: Any) -> Any:
    """Apply the experts. If the router spread tokens evenly, each expert would get an equal share of a row's tokens. An
    expert accepts twice this share; later tokens skip it.
    """
    experts, (_, length, _) = layer["gate"].shape[0], x.shape
    room = -(-2 * CHOSEN * length // experts)
    weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ layer["router"]), CHOSEN)
    taken = jax.nn.one_hot(chosen, experts, dtype=x.dtype)  # b l c e
    flat = taken.reshape(x.shape[0], -1, experts)
    slot = (jnp.cumsum(flat, 1) * flat - 1).reshape(taken.shape)
    sent = jax.nn.one_hot(slot.astype("int32"), room, dtype=x.dtype)  # b l c e r
    inputs = jnp.einsum("blcer,blw->berw", sent, x)
    hidden = jax.nn.silu(jnp.einsum("berw,ewh->berh", inputs, layer["gate"])) * jnp.einsum(
        "berw,ewh->berh", inputs, layer["up"]
    )
    outputs = jnp.einsum("berh,ehw->berw", hidden, layer["down"])
    return jnp.einsum("blcer,blc,berw->blw", sent, weights / weights.sum(-1, keepdims=True), outputs)


def logits(params: Any, ids: Any) -> Any:
    x = params["embedding"][ids]
    for layer in params["layers"]:
        x = x + _attention(_normed(x, layer["norm1"]), layer)
        x = x + _experts(_normed(x, layer["norm2"]), layer)
    return _normed(x, params["norm"]) @ params["head"]


def step(params: Any, ids: Any) -> Any:
    """Take a gradient descent step without momentum."""

    def loss(params: Any) -> Any:
        chances = jax.nn.log_softmax(logits(params, ids)[:, :-1])
        return -jnp.take_along_axis(chances, ids[:, 1:, None], -1).mean()

    value, gradients = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 1e-2 * g, params, gradients), value


def _sizes(small: bool) -> tuple[Any, Any]:
    if small:
        return parameters(1, 16, 32, 32, 4, 2), tokens(4, 8)
    return parameters(4, 4096, 14336, 32000, 32, 8), tokens(8, 1024)


def forward(small: bool) -> Program:
    params, ids = _sizes(small)
    return Program(logits, MESH, (params, ids), (SPLIT(params), P("dp")))


def train(small: bool) -> Program:
    params, ids = _sizes(small)
    return Program(step, MESH, (params, ids), (SPLIT(params), P("dp")), (SPLIT(params), P()), donate=(0,))


PROGRAMS = {"mixtral": forward, "mixtral-train": train}
