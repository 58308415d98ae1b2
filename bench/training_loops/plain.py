"""Training loops in plain JAX and optax. The state consists of pytrees, which each step returns at a different position
of its results.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from bench.training_loops.loop import Loop


def parameters(size: int) -> Any:
    first, second = jax.random.split(jax.random.key(0))
    up = jax.random.normal(first, (size, 4 * size)) / size**0.5
    return {"up": up, "bias": jnp.zeros(4 * size), "down": jax.random.normal(second, (4 * size, 2)) / (4 * size) ** 0.5}


def loss_of(params: Any, x: Any, y: Any) -> Any:
    return jnp.square(jax.nn.gelu(x @ params["up"] + params["bias"]) @ params["down"] - y).mean()


def sgd(size: int) -> Loop:
    """Return a loop whose step returns the loss first, as `value_and_grad` does. The learning rate is one of the
    state's leaves.
    """

    def step(state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        params = jax.tree.map(lambda p, g: p - state["rate"] * g, state["params"], grads)
        return loss, {"params": params, "rate": state["rate"] * 0.99}

    state = {"params": parameters(size), "rate": jnp.float32(0.05)}
    jitted = jax.jit(step)

    def framework(state: Any, x: Any, y: Any) -> Any:
        loss, state = jitted(state, x, y)
        return (state,), loss

    return Loop(jax.jit(step, donate_argnums=0), {"state": state}, framework)


def momentum(size: int) -> Loop:
    """Return a loop whose parameters and velocities have the same tree structure, so that only their order tells the
    results apart.
    """

    def step(params: Any, velocity: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
        return jax.tree.map(lambda p, v: p - 0.01 * v, params, velocity), velocity, loss

    params = parameters(size)
    jitted = jax.jit(step)

    def framework(params: Any, velocity: Any, x: Any, y: Any) -> Any:
        *state, loss = jitted(params, velocity, x, y)
        return tuple(state), loss

    state = {"params": params, "velocity": jax.tree.map(jnp.zeros_like, params)}
    return Loop(jax.jit(step, donate_argnums=(0, 1)), state, framework)


def adam(size: int) -> Loop:
    """Return a loop with hand-written Adam. Its step returns a dict that also has the gradients, with the tree
    structure of the parameters.
    """

    def step(params: Any, moments: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        count = moments["count"] + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments["first"], grads)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, moments["second"], grads)
        scale = jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        params = jax.tree.map(lambda p, m, v: p - 0.003 * scale * m / (jnp.sqrt(v) + 1e-6), params, first, second)
        return {"params": params, "moments": {"first": first, "second": second, "count": count}, "loss": loss, "norm": global_norm(grads)}  # fmt: skip

    params = parameters(size)
    zeros = jax.tree.map(jnp.zeros_like, params)
    jitted = jax.jit(step)

    def framework(params: Any, moments: Any, x: Any, y: Any) -> Any:
        results = jitted(params, moments, x, y)
        return (results["params"], results["moments"]), results["loss"]

    state = {"params": params, "moments": {"first": zeros, "second": zeros, "count": jnp.float32(0)}}
    return Loop(jax.jit(step, donate_argnums=(0, 1)), state, framework)


def global_norm(tree: Any) -> Any:
    return jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(tree)))


def accumulated(size: int) -> Loop:
    """Return a loop that clips gradients by norm. A scan over parts of the batch accumulates the gradients."""

    def step(params: Any, velocity: Any, x: Any, y: Any) -> Any:
        def part(total: Any, rows: Any) -> Any:
            gradient = jax.value_and_grad(loss_of)(params, *rows)
            return jax.tree.map(jnp.add, total, gradient), None

        zero = (jnp.float32(0), jax.tree.map(jnp.zeros_like, params))
        (loss, grads), _ = jax.lax.scan(part, zero, (x.reshape(2, 4, -1), y.reshape(2, 4, -1)))
        grads = jax.tree.map(lambda g: g / 2 / jnp.maximum(global_norm(grads) / 2, 1.0), grads)
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
        return loss / 2, (jax.tree.map(lambda p, v: p - 0.01 * v, params, velocity), velocity)

    params = parameters(size)
    jitted = jax.jit(step)

    def framework(params: Any, velocity: Any, x: Any, y: Any) -> Any:
        loss, state = jitted(params, velocity, x, y)
        return state, loss

    state = {"params": params, "velocity": jax.tree.map(jnp.zeros_like, params)}
    return Loop(jax.jit(step, donate_argnums=(0, 1)), state, framework)


def adamw(size: int) -> Loop:
    """Return a loop with AdamW as in optax's manual, with a schedule and clipping. Its state has trees with the
    structure of the parameters.
    """
    import optax

    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.01, 10, 100)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))

    def step(params: Any, opt_state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    params = parameters(size)
    jitted = jax.jit(step)

    def framework(params: Any, opt_state: Any, x: Any, y: Any) -> Any:
        *state, loss = jitted(params, opt_state, x, y)
        return tuple(state), loss

    return Loop(
        jax.jit(step, donate_argnums=(0, 1)), {"params": params, "opt_state": optimizer.init(params)}, framework
    )


LOOPS = {"sgd": sgd, "momentum": momentum, "adam": adam, "accumulated": accumulated}
"""Loops that need only JAX."""
