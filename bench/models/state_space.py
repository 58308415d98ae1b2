"""A language model of Mamba blocks: state-space layers with an associative scan over time. Channels are split over
`tp`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array, by_name, tokens

MESH = {"dp": 2, "tp": 4}
TAPS = 4  # taps of the convolution over time
SPLIT = by_name({"*.in": P(None, None, "tp"), "*.taps": P(None, "tp"), "*.select": P("tp"), "*.step": P(None, "tp"), "*.step_bias": P("tp"),
                 "*.decay": P("tp"), "*.skip": P("tp"), "*.out": P("tp")})  # fmt: skip


def parameters(layers: int, width: int, states: int, words: int) -> Any:
    inner, rank = 2 * width, max(1, width // 16)
    layer = {
        "norm": array(width),
        "in": array(width, 2, inner),
        "taps": array(TAPS, inner),
        "select": array(inner, rank + 2 * states),
        "step": array(rank, inner),
        "step_bias": array(inner),
        "decay": array(inner, states),
        "skip": array(inner),
        "out": array(inner, width),
    }
    return {"embedding": array(words, width), "layers": [layer] * layers, "norm": array(width)}


def _normed(x: Any, scale: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * (1 + scale)


def _block(x: Any, layer: Any) -> Any:
    rank, states = layer["step"].shape[0], layer["decay"].shape[1]
    inner, gate = jnp.moveaxis(jnp.einsum("blw,wci->blci", x, layer["in"]), 2, 0)
    taps = layer["taps"][:, None]
    inner = jax.nn.silu(jax.lax.conv_general_dilated(inner, taps, (1,), [(TAPS - 1, 0)], feature_group_count=inner.shape[-1], dimension_numbers=("NWC", "WIO", "NWC")))  # fmt: skip
    selected = inner @ layer["select"]
    step = jax.nn.softplus(selected[..., :rank] @ layer["step"] + layer["step_bias"])
    into, out = jnp.split(selected[..., rank:], [states], -1)
    kept = jnp.exp(-step[..., None] * jnp.exp(layer["decay"]))  # b l i s
    added = (step * inner)[..., None] * into[:, :, None]

    def both(first: Any, second: Any) -> Any:
        return first[0] * second[0], second[0] * first[1] + second[1]

    _, state = jax.lax.associative_scan(both, (kept, added), axis=1)
    y = jnp.einsum("blis,bls->bli", state, out) + inner * layer["skip"]
    return (y * jax.nn.silu(gate)) @ layer["out"]


def logits(params: Any, ids: Any) -> Any:
    x = params["embedding"][ids]
    for layer in params["layers"]:
        x = x + _block(_normed(x, layer["norm"]), layer)
    return _normed(x, params["norm"]) @ params["embedding"].T


def step(params: Any, ids: Any) -> Any:
    """Take a gradient descent step without momentum."""

    def loss(params: Any) -> Any:
        chances = jax.nn.log_softmax(logits(params, ids)[:, :-1])
        return -jnp.take_along_axis(chances, ids[:, 1:, None], -1).mean()

    value, gradients = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 1e-2 * g, params, gradients), value


def _sizes(small: bool) -> tuple[Any, Any]:
    return (parameters(1, 16, 4, 32), tokens(4, 8)) if small else (parameters(4, 2048, 16, 32000), tokens(8, 1024))


def forward(small: bool) -> Program:
    params, ids = _sizes(small)
    return Program(logits, MESH, (params, ids), (SPLIT(params), P("dp")))


def train(small: bool) -> Program:
    params, ids = _sizes(small)
    return Program(step, MESH, (params, ids), (SPLIT(params), P("dp")), (SPLIT(params), P()), donate=(0,))


PROGRAMS = {"mamba": forward, "mamba-train": train}
