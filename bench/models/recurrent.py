"""Training of two haiku LSTMs. The loop over time steps contains the collectives."""

from __future__ import annotations

from typing import Any

import haiku as hk
import jax
import optax
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array, by_name
from bench.models.training import cross_entropy, training

CLASSES = 16


def lstm(small: bool) -> Program:
    """Return the training step of next-character prediction, with batch rows over `dp` and the gates of all cells over
    `tp`.
    """
    steps, rows, width, hidden = (6, 8, 16, 16) if small else (256, 64, 128, 1024)

    def net(x: Any) -> Any:
        core = hk.DeepRNN([hk.LSTM(hidden), hk.LSTM(hidden)])
        out, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
        return hk.Linear(CLASSES)(out)

    model = hk.without_apply_rng(hk.transform(net))
    x, labels = array(steps, rows, width), array(steps, rows, dtype="int32")
    params = jax.eval_shape(model.init, jax.random.key(0), x)
    split = by_name({"*lstm*.w": P(None, "tp")})
    return training(lambda params, x, labels: cross_entropy(model.apply(params, x), labels),
                    params, (x, labels), {"dp": 4, "tp": 2}, split, (P(None, "dp"), P(None, "dp")), optax.sgd(0.1))  # fmt: skip


PROGRAMS = {"lstm-train": lstm}
