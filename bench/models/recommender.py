"""DLRM: embedding tables with rows split over `mp`, dot products of all pairs of looked-up vectors, and two MLPs with
batch rows over `dp`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array, by_name

MESH = {"dp": 2, "mp": 4}
SPLIT = by_name({"tables.*": P("mp")})


def _layers(*widths: int) -> Any:
    return [{"w": array(*pair), "b": array(pair[1])} for pair in pairwise(widths)]


def _perceptron(x: Any, layers: Any) -> Any:
    for layer in layers:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x


def scores(params: Any, dense: Any, picked: Any) -> Any:
    """Return click scores. `dense` has the numeric features; `picked` has a row index for each table."""
    vectors = [_perceptron(dense, params["bottom"]), *(table[picked[:, i]] for i, table in enumerate(params["tables"]))]
    stacked = jnp.stack(vectors, 1)
    products = jnp.einsum("bid,bjd->bij", stacked, stacked)
    row, column = np.tril_indices(len(vectors), -1)
    top = _perceptron(jnp.concatenate([vectors[0], products[:, row, column]], -1), params["top"])
    return (top @ params["head"])[:, 0]


def step(params: Any, dense: Any, picked: Any, clicked: Any) -> Any:
    def loss(params: Any) -> Any:
        logits = scores(params, dense, picked)
        return (jax.nn.softplus(logits) - clicked * logits).mean()

    value, gradients = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 1e-2 * g, params, gradients), value


def _sizes(small: bool) -> tuple[Any, ...]:
    tables, rows, width, batch, hidden = (3, 16, 8, 16, 16) if small else (26, 1_000_000, 64, 8192, 512)
    pairs = (tables + 1) * tables // 2
    params = {
        "tables": [array(rows, width)] * tables,
        "bottom": _layers(13, hidden, width),
        "top": _layers(width + pairs, hidden, hidden // 2),
        "head": array(hidden // 2, 1),
    }
    return params, array(batch, 13), array(batch, tables, dtype="int32")


def forward(small: bool) -> Program:
    params, *inputs = _sizes(small)
    return Program(scores, MESH, (params, *inputs), (SPLIT(params), P("dp"), P("dp")))


def train(small: bool) -> Program:
    params, dense, picked = _sizes(small)
    clicked = array(dense.shape[0])
    specs = SPLIT(params)
    return Program(
        step, MESH, (params, dense, picked, clicked), (specs, P("dp"), P("dp"), P("dp")), (specs, P()), donate=(0,)
    )


PROGRAMS = {"dlrm": forward, "dlrm-train": train}
