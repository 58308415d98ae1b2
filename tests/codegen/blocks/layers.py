"""Layers in JAX for the model blocks in `programs.py`, whose docstring lists what is computed in f32."""

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
    """Apply rotary position embeddings to x[batch, length, heads, features]."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1], dtype=F32)[:, None] * 1e4 ** (-jnp.arange(half, dtype=F32) / half)
    sin, cos = jnp.sin(angles)[:, None].astype(x.dtype), jnp.cos(angles)[:, None].astype(x.dtype)
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attention(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Return softmax attention of q[batch, length, heads, features]. Several query heads may share a key / value head."""
    shared = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(heads, shared, 2) for heads in (k, v))
    scores = jnp.einsum("blhd,bmhd->bhlm", q, k).astype(F32) * q.shape[-1] ** -0.5
    if causal:
        positions = jnp.arange(q.shape[1])
        scores = jnp.where(positions[:, None] >= positions, scores, -jnp.inf)
    return jnp.einsum("bhlm,bmhd->blhd", jax.nn.softmax(scores).astype(q.dtype), v)


def experts(x: Any, w: Any) -> Any:
    """Return a top-2 mixture of gated experts: ragged matmuls over rows sorted by expert."""
    rows = x.reshape(-1, x.shape[-1])
    weights, expert_indices = jax.lax.top_k(jax.nn.softmax((rows @ w["router"]).astype(F32)), 2)
    weights = (weights / weights.sum(-1, keepdims=True)).astype(x.dtype)
    order = jnp.argsort(expert_indices.reshape(-1))
    rows_per_expert = jnp.bincount(expert_indices.reshape(-1), length=w["router"].shape[-1])
    dispatched = rows[order // 2]
    hidden = jax.nn.silu(jax.lax.ragged_dot(dispatched, w["gate"], rows_per_expert)) * jax.lax.ragged_dot(
        dispatched, w["up"], rows_per_expert
    )
    expert_results = jax.lax.ragged_dot(hidden, w["down"], rows_per_expert) * weights.reshape(-1)[order][:, None]
    return jnp.zeros_like(rows).at[order // 2].add(expert_results).reshape(x.shape)


def selective_state_space(x: Any, w: Any) -> Any:
    """Apply a selective state space (Mamba) to x[batch, length, width]. An associative scan in f32 computes its states."""
    rank, states = w["step"].shape[0], w["decay"].shape[1]
    inner, gate = jnp.moveaxis(jnp.einsum("blw,wci->blci", x, w["in"]), 2, 0)
    inner = jax.nn.silu(jax.lax.conv_general_dilated(
        inner, w["taps"][:, None], (1,), [(w["taps"].shape[0] - 1, 0)], feature_group_count=inner.shape[-1], dimension_numbers=("NWC", "WIO", "NWC")))  # fmt: skip
    selected = inner @ w["select"]
    step = jax.nn.softplus((selected[..., :rank] @ w["step"] + w["step_bias"]).astype(F32))
    input_projection, out = jnp.split(selected[..., rank:].astype(F32), [states], -1)
    decay = jnp.exp(-step[..., None] * jnp.exp(w["decay"].astype(F32)))
    increment = (step * inner.astype(F32))[..., None] * input_projection[:, :, None]

    def compose(first: Any, second: Any) -> Any:
        return first[0] * second[0], second[0] * first[1] + second[1]

    _, state = jax.lax.associative_scan(compose, (decay, increment), axis=1)
    y = jnp.einsum("blis,bls->bli", state, out).astype(x.dtype) + inner * w["skip"]
    return (y * jax.nn.silu(gate)) @ w["out"]


def adam(weights: Any, gradients: Any, means: Any, squares: Any) -> tuple[Any, Any, Any]:
    """Return the weights and both moments after an AdamW step. Moments are f32."""
    gradients = jax.tree.map(lambda g: g.astype(F32), gradients)
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, squares, gradients)
    weights = jax.tree.map(
        lambda w, m, v: (w - 1e-3 * (m / (jnp.sqrt(v) + 1e-8) + 0.1 * w.astype(F32))).astype(w.dtype), weights, means, squares)  # fmt: skip
    return weights, means, squares
