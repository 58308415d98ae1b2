"""Convolutions of flax on a periodic grid (`padding="CIRCULAR"`), as in neural networks that replace simulations. The
rows of the grid are split.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array


class Surrogate(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for _ in range(3):
            x = x + nn.gelu(nn.Conv(self.features, (3, 3), padding="CIRCULAR")(x))
        return nn.Conv(2, (3, 3), padding="CIRCULAR")(x)


def surrogate(small: bool, trains: bool = False) -> Program:
    side, features = (16, 4) if small else (1024, 64)
    model, x = Surrogate(features), array(1, side, side, features)
    params = jax.eval_shape(model.init, jax.random.key(0), x)
    rows = P(None, "x")
    if not trains:
        return Program(model.apply, {"x": 8}, (params, x), (P(), rows), rows)

    def loss(params: Any, x: Any, y: Any) -> Any:
        return jnp.mean((model.apply(params, x) - y) ** 2)

    batch = x, array(1, side, side, 2)
    return Program(jax.value_and_grad(loss), {"x": 8}, (params, *batch), (P(), rows, rows))


PROGRAMS = {"periodic": surrogate, "periodic-train": lambda small: surrogate(small, True)}
