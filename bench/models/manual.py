"""Data-parallel training by `jax.shard_map`. JAX reduces the gradient of a parameter once for each use of the
parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P
from optax.microbatching import micro_grad

from bench.models.program import Program, array, tokens

DEVICES = 8


def _layers(width: int, count: int) -> list[Any]:
    return [{"up": array(width, 4 * width), "down": array(4 * width, width)} for _ in range(count)]


def _applied(layers: Any, x: Any) -> Any:
    for layer in layers:
        x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
    return x


def _per_device(function: Callable[..., Any], inputs: Any, outputs: Any) -> Callable[..., Any]:
    return jax.shard_map(function, mesh=AbstractMesh((DEVICES,), ("dp",)), in_specs=inputs, out_specs=outputs)


def microbatched(small: bool) -> Program:
    """Return the program of an AdamW step. optax sums its gradients over four micro-batches per device."""
    width, rows, layers = (16, 64, 2) if small else (2048, 4096, 4)
    params, optimizer = _layers(width, layers), optax.adamw(1e-3)
    state = jax.eval_shape(optimizer.init, params)

    def loss(params: Any, batch: Any) -> Any:
        return jnp.mean((_applied(params, batch[0]) - batch[1]) ** 2)

    @partial(_per_device, inputs=(P(), P("dp"), P("dp")), outputs=P())
    def gradients(params: Any, x: Any, y: Any) -> Any:
        return micro_grad(loss, batch_argnums=1, microbatch_size=rows // DEVICES // 4)(params, (x, y))[0]

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        updates, state = optimizer.update(gradients(params, x, y), state, params)
        return optax.apply_updates(params, updates), state

    batch = (array(rows, width),) * 2
    return Program(
        step, {"dp": DEVICES}, (params, state, *batch), (P(), P(), P("dp"), P("dp")), (P(), P()), donate=(0, 1)
    )


def tied(small: bool) -> Program:
    """Return the training step of a language model with a tied embedding: its rows are the inputs, and its transpose
    computes the logits.
    """
    width, words, rows, length, layers = (16, 64, 16, 8, 2) if small else (1024, 32000, 64, 512, 4)
    params = {"embed": array(words, width), "layers": _layers(width, layers)}

    def loss(params: Any, ids: Any) -> Any:
        logits = _applied(params["layers"], params["embed"][ids]) @ params["embed"].T
        labels = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], ids[:, 1:])
        return jax.lax.pmean(labels.mean(), "dp")

    @partial(_per_device, inputs=(P(), P("dp")), outputs=(P(), P()))
    def step(params: Any, ids: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, ids)
        return jax.tree.map(lambda p, g: p - 1e-2 * g, params, gradients), value

    return Program(step, {"dp": DEVICES}, (params, tokens(rows, length)), (P(), P("dp")), (P(), P()), donate=(0,))


PROGRAMS = {"microbatch-train": microbatched, "tied-train": tied}
