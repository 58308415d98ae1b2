"""Multi-layer perceptrons of equinox and of flax.nnx. A model is a pytree of a user's class, and dropout uses a typed
PRNG key.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array, by_size, whole
from bench.models.training import OPTIMIZER, training


def with_equinox(small: bool) -> Program:
    """Return a training step whose parameters are all split over `fsdp`. The model itself is an argument of the step."""
    width, rows = (32, 16) if small else (4096, 8192)
    model = eqx.filter_eval_shape(lambda: eqx.nn.MLP(width, width, 4 * width, 2, key=jax.random.key(0)))
    params, static = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

    def loss(params: Any, x: Any, y: Any) -> Any:
        return ((jax.vmap(eqx.combine(params, static))(x) - y) ** 2).mean()

    x = array(rows, width)
    return training(loss, params, (x, x), {"fsdp": 8}, by_size("fsdp", 8, least=256), (P("fsdp"), P("fsdp")))


class Net(nnx.Module):
    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.first, self.second = nnx.Linear(width, 4 * width, rngs=rngs), nnx.Linear(4 * width, width, rngs=rngs)
        self.norm, self.dropout = nnx.BatchNorm(width, rngs=rngs), nnx.Dropout(0.1)

    def __call__(self, x: Any, key: Any) -> Any:
        return self.second(self.dropout(nnx.relu(self.first(self.norm(x))), rngs=key))


def with_nnx(small: bool) -> Program:
    """Return a data-parallel training step. Its state consists of parameters, running means, and the optimizer's state."""
    width, rows = (16, 16) if small else (4096, 8192)
    graph, params, means = nnx.split(nnx.eval_shape(lambda: Net(width, nnx.Rngs(0))), nnx.Param, ...)
    params, means = nnx.to_pure_dict(params), nnx.to_pure_dict(means)
    x, mesh = array(rows, width), {"dp": 8}
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(OPTIMIZER.init, params)

    def step(params: Any, means: Any, state: Any, x: Any, y: Any, key: Any) -> Any:
        def loss(params: Any) -> Any:
            net = nnx.merge(graph, params, means)
            out = net(x, key)
            return ((out - y) ** 2).mean(), nnx.to_pure_dict(nnx.state(net, nnx.BatchStat))

        (value, seen), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        updates, state = OPTIMIZER.update(gradients, state, params)
        return jax.tree.map(jnp.add, params, updates), seen, state, value

    state_specs = whole(params), whole(means), whole(state)
    return Program(
        step, mesh, (params, means, state, x, x, key), (*state_specs, P("dp"), P("dp"), P()), P(), donate=(0, 1, 2)
    )


PROGRAMS = {"equinox-train": with_equinox, "nnx-train": with_nnx}
