"""A training step for any loss: AdamW with clipped gradient norms, and donated parameters and optimizer state."""

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
    """Return the program `step(params, state, *batch)`. It returns the next parameters and state, and the loss
    `loss(params, *batch)`.

    `split` maps a tree of types to specs, both for the parameters and for the optimizer's state.
    """
    state = jax.eval_shape(optimizer.init, params)

    def step(params: Any, state: Any, *batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    state_specs = split(params), split(state)
    return Program(
        step,
        mesh,
        (params, state, *batch),
        (*state_specs, *batch_specs),
        (*state_specs, P()),
        donate=(0, 1),
        below=below,
    )


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Return the mean cross entropy over all labels."""
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype("float32"), labels).mean()


def next_token(logits: Any, ids: Any) -> Any:
    """Return the loss of predicting each next token of `ids` from `logits`."""
    return cross_entropy(logits[:, :-1], ids[:, 1:])
