"""Layers of the blocks in `programs.py`, in JAX: what they compute in f32 is said there."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

F32 = jnp.float32


def rms_norm(x: Any, scale: Any) -> Any:
    wide = x.astype(F32)
    return (wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * scale


def layer_norm(x: Any, scale: Any, shift: Any, dims: tuple[int, ...] = (-1,)) -> Any:
    wide = x.astype(F32)
    off = wide - wide.mean(dims, keepdims=True)
    return (off * jax.lax.rsqrt(jnp.square(off).mean(dims, keepdims=True) + 1e-5)).astype(x.dtype) * scale + shift


def rotary(x: Any) -> Any:
    """Positions as rotations of pairs of features: x[batch, length, heads, features]."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1], dtype=F32)[:, None] * 1e4 ** (-jnp.arange(half, dtype=F32) / half)
    sin, cos = jnp.sin(angles)[:, None].astype(x.dtype), jnp.cos(angles)[:, None].astype(x.dtype)
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attention(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """q[batch, length, heads, features]; keys and values may have fewer heads, each of which several of q share."""
    shared = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(each, shared, 2) for each in (k, v))
    scores = jnp.einsum("blhd,bmhd->bhlm", q, k).astype(F32) * q.shape[-1] ** -0.5
    if causal:
        places = jnp.arange(q.shape[1])
        scores = jnp.where(places[:, None] >= places, scores, -jnp.inf)
    return jnp.einsum("bhlm,bmhd->blhd", jax.nn.softmax(scores).astype(q.dtype), v)


def experts(x: Any, w: Any) -> Any:
    """The best two of several gated experts for each row: rows are sorted by expert, and each is multiplied by the matrices of its own."""
    rows = x.reshape(-1, x.shape[-1])
    weights, chosen = jax.lax.top_k(jax.nn.softmax((rows @ w["router"]).astype(F32)), 2)
    weights = (weights / weights.sum(-1, keepdims=True)).astype(x.dtype)
    order = jnp.argsort(chosen.reshape(-1))
    sizes = jnp.bincount(chosen.reshape(-1), length=w["router"].shape[-1])
    sent = rows[order // 2]
    hidden = jax.nn.silu(jax.lax.ragged_dot(sent, w["gate"], sizes)) * jax.lax.ragged_dot(sent, w["up"], sizes)
    made = jax.lax.ragged_dot(hidden, w["down"], sizes) * weights.reshape(-1)[order][:, None]
    return jnp.zeros_like(rows).at[order // 2].add(made).reshape(x.shape)


def over_time(x: Any, w: Any) -> Any:
    """A selective state space: x[batch, length, width]; an associative scan in f32 sums its states over time."""
    rank, states = w["step"].shape[0], w["decay"].shape[1]
    inner, gate = jnp.moveaxis(jnp.einsum("blw,wci->blci", x, w["in"]), 2, 0)
    inner = jax.nn.silu(jax.lax.conv_general_dilated(
        inner, w["taps"][:, None], (1,), [(w["taps"].shape[0] - 1, 0)], feature_group_count=inner.shape[-1], dimension_numbers=("NWC", "WIO", "NWC")))  # fmt: skip
    selected = inner @ w["select"]
    step = jax.nn.softplus((selected[..., :rank] @ w["step"] + w["step_bias"]).astype(F32))
    into, out = jnp.split(selected[..., rank:].astype(F32), [states], -1)
    kept = jnp.exp(-step[..., None] * jnp.exp(w["decay"].astype(F32)))
    added = (step * inner.astype(F32))[..., None] * into[:, :, None]

    def both(first: Any, second: Any) -> Any:
        return first[0] * second[0], second[0] * first[1] + second[1]

    _, state = jax.lax.associative_scan(both, (kept, added), axis=1)
    y = jnp.einsum("blis,bls->bli", state, out).astype(x.dtype) + inner * w["skip"]
    return (y * jax.nn.silu(gate)) @ w["out"]


def adam(weights: Any, gradients: Any, means: Any, squares: Any) -> tuple[Any, Any, Any]:
    """The weights and both moments after a step, with decay of the weights; moments are f32."""
    gradients = jax.tree.map(lambda g: g.astype(F32), gradients)
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, squares, gradients)
    weights = jax.tree.map(
        lambda w, m, v: (w - 1e-3 * (m / (jnp.sqrt(v) + 1e-8) + 0.1 * w.astype(F32))).astype(w.dtype), weights, means, squares)  # fmt: skip
    return weights, means, squares
