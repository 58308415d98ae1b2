"""A training step from JAX with AdamW: compiled, saved, and run in a session that keeps the state on the devices.

python examples/train_jax.py
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import meshgen as mg

RATE, DECAY, BETA1, BETA2 = 0.01, 0.01, 0.9, 0.99


def loss(params, x, y):
    for layer in params:
        x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
    return jnp.square(x - y).mean()


def step(params, state, x, y):
    value, gradients = jax.value_and_grad(loss)(params, x, y)
    count = state["count"] + 1
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, state["first"], gradients)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, state["second"], gradients)

    def updated(p, m, v):
        m, v = m / (1 - BETA1**count), v / (1 - BETA2**count)
        return p - RATE * (m / (jnp.sqrt(v) + 1e-8) + DECAY * p)

    return jax.tree.map(updated, params, first, second), {"count": count, "first": first, "second": second}, value


def main(target: str = "cpu") -> None:
    rng = np.random.default_rng(0)
    shapes = {"up": (64, 256), "down": (256, 64)}
    params = [{k: rng.standard_normal(s, np.float32) / 16 for k, s in shapes.items()} for _ in range(2)]
    zeros = jax.tree.map(np.zeros_like, params)
    state = {"count": np.zeros((), np.int32), "first": zeros, "second": zeros}
    x, y = rng.standard_normal((2, 32, 64), np.float32)
    specs = {"*.up": P(None, "tp"), "*.down": P("tp"), "x": P("dp"), "y": P("dp")}
    exe = mg.compile(
        jax.jit(step, donate_argnums=(0, 1)),
        {"dp": 2, "tp": 4},
        args=(params, state, x, y),
        in_specs=specs,
        target=target,
    )
    exe.save("train.mgx")
    with mg.load("train.mgx").session() as session:  # pass device="cuda" to run on GPUs
        session["params"], session["state"] = params, state
        losses = [float(np.asarray(session(x, y))) for _ in range(5)]
    sys.stdout.write(f"{exe.comms.counts}\nlosses {losses}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
