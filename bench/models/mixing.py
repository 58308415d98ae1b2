"""Transformers in plain JAX that are unusual to split: one has Fourier transforms instead of attention, one has ten
heads on four devices.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array, by_name


def fourier(small: bool, trains: bool = False) -> Program:
    """Return the program of FNet, with rows of the batch over `dp`."""
    layers, rows, length, width = (2, 8, 8, 16) if small else (12, 64, 512, 768)
    params = [{"up": array(width, 4 * width), "down": array(4 * width, width)} for _ in range(layers)]

    def mixed(params: Any, x: Any) -> Any:
        for layer in params:
            x = jax.nn.standardize(x + jnp.fft.fft2(x).real)
            x = jax.nn.standardize(x + jax.nn.gelu(x @ layer["up"]) @ layer["down"])
        return x

    def step(params: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(lambda params: ((mixed(params, x) - y) ** 2).mean())(params)
        return jax.tree.map(lambda p, g: p - 1e-2 * g, params, gradients), value

    mesh, x = {"dp": 8}, array(rows, length, width)
    if trains:
        return Program(step, mesh, (params, x, x), (P(), P("dp"), P("dp")), P(), donate=(0,))
    return Program(mixed, mesh, (params, x), (P(), P("dp")))


def ten_heads(small: bool) -> Program:
    """Return an attention program whose matrices are split by columns over four devices. With ten heads, the boundaries
    of tiles and heads differ.
    """
    heads, head, rows, length = (10, 4, 4, 8) if small else (10, 64, 8, 1024)
    width = heads * head
    params = {name: array(width, width) for name in "qkvo"}

    def attention(params: Any, x: Any) -> Any:
        q, k, v = ((x @ params[name]).reshape(*x.shape[:2], heads, head) for name in "qkv")
        return jax.nn.dot_product_attention(q, k, v).reshape(x.shape) @ params["o"]

    split = by_name({"o": P("tp"), "*": P(None, "tp")})
    return Program(attention, {"dp": 2, "tp": 4}, (params, array(rows, length, width)), (split(params), P("dp")))


PROGRAMS = {"fnet": fourier, "fnet-train": lambda small: fourier(small, True), "ten-heads": ten_heads}
