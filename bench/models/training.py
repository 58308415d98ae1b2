"""A training step of a loss: adamw behind clipping of the gradients' norm, parameters and state donated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import optax
from jax.sharding import PartitionSpec as P

from bench.models.program import Program

OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))


def training(loss: Callable[..., Any], params: Any, batch: tuple[Any, ...], mesh: Mapping[str, int], split: Callable[[Any], Any],
             batch_specs: tuple[Any, ...], optimizer: optax.GradientTransformation = OPTIMIZER, below: int = 8) -> Program:  # fmt: skip
    """`step(params, state, *batch)` gives parameters, state and the loss; `loss(params, *batch)` is a number.

    `split` gives the specs of a tree of types, of the parameters and of the optimizer's state alike.
    """
    state = jax.eval_shape(optimizer.init, params)

    def step(params: Any, state: Any, *batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    kept = split(params), split(state)
    return Program(step, mesh, (params, state, *batch), (*kept, *batch_specs), (*kept, P()), donate=(0, 1), below=below)


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean over all labels."""
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype("float32"), labels).mean()


def next_token(logits: Any, ids: Any) -> Any:
    """The loss of a language model."""
    return cross_entropy(logits[:, :-1], ids[:, 1:])
