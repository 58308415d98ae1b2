"""The benchmark programs, as JAX functions with the shapes of their arguments. `meshgen bench kernels NAME ...`
compiles each for one device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Program:
    """A function with the shapes and types of its arguments. `donate` lists the positions of the arguments that it
    updates.
    """

    run: Callable[..., Any]
    args: tuple[Any, ...]
    donate: tuple[int, ...] = ()

    def lowered(self) -> Any:
        return jax.jit(self.run, donate_argnums=self.donate).lower(*self.args)


def _array(*shape: int, dtype: Any = jnp.bfloat16) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


# ---- GEMMs


def product(x: Any, w: Any) -> Any:
    accumulator = jnp.int32 if x.dtype == jnp.int8 else jnp.float32 if x.dtype == jnp.float32 else jnp.bfloat16
    return jax.lax.dot(x, w, preferred_element_type=accumulator)


def _of_product(m: int, n: int, k: int, dtype: Any = jnp.bfloat16) -> Program:
    return Program(product, (_array(m, k, dtype=dtype), _array(k, n, dtype=dtype)))


def transposed(x: Any, w: Any) -> Any:
    return x.T @ w.T


def gelu_and_residual(x: Any, w: Any, bias: Any, residual: Any) -> Any:
    return jax.nn.gelu(x @ w + bias) + residual


def gated(x: Any, w: Any, v: Any) -> Any:
    return jax.nn.silu(x @ w) * (x @ v)


# (m, n, k) of GEMMs: projections in models of 0.1 to 70 billion parameters, square, thin and long GEMMs, and odd sizes.
SHAPES = (
    (8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (4096, 14336, 4096), (4096, 4096, 14336),
    (4096, 1024, 4096), (8192, 28672, 8192), (8192, 8192, 28672), (8192, 1280, 8192), (8192, 768, 768), (8192, 3072, 768),
    (8192, 768, 3072), (8192, 50257, 768), (16, 8192, 8192), (64, 8192, 8192), (256, 4096, 4096), (128, 128, 16384),
    (512, 512, 65536), (1000, 1001, 1003),
)  # fmt: skip


# ---- attention


def attention(q: Any, k: Any, v: Any, is_causal: bool = True) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=is_causal)


def gradient_of_attention(q: Any, k: Any, v: Any) -> Any:
    return jax.grad(lambda *of: attention(*of).astype(jnp.float32).sum(), (0, 1, 2))(q, k, v)


# ---- row reductions


def _normed(x: Any, scale: Any) -> Any:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def rms_norm_of_sum(x: Any, residual: Any, scale: Any) -> Any:
    total = x + residual
    return total, _normed(total, scale)


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(-1, keepdims=True)
    return (centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * scale + bias).astype(x.dtype)


def gradient_of_layer_norm(x: Any, scale: Any, bias: Any, back: Any) -> Any:
    return jax.vjp(layer_norm, x, scale, bias)[1](back)


def cross_entropy(logits: Any, labels: Any) -> Any:
    rows = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(rows, labels[:, None], 1).mean()


# ---- updates, gathers, windows, sorts


def adamw(weights: Any, first: Any, second: Any, gradients: Any) -> Any:
    """Update a list of arrays once (Loshchilov and Hutter, arXiv 1711.05101), without bias correction."""

    def one(w: Any, m: Any, s: Any, g: Any) -> Any:
        m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
        return w - 1e-3 * (m / (jnp.sqrt(s) + 1e-8) + 0.01 * w), m, s

    updated = [one(*state) for state in zip(weights, first, second, gradients, strict=True)]
    return tuple(list(column) for column in zip(*updated, strict=True))


def look_up(table: Any, ids: Any) -> Any:
    return table[ids]


def gradient_of_look_up(table: Any, ids: Any, back: Any) -> Any:
    return jnp.zeros_like(table).at[ids].add(back)


def convolved(x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def pooled(x: Any) -> Any:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


_WIDE, _ROWS = _array(8192, 4096), _array(8192, 4096, dtype=jnp.float32)
_HEADS = _array(1, 8192, 16, 128)
_WEIGHTS = [_array(*s, dtype=jnp.float32) for s in ((1024, 1024), (1024,), (4096, 1024), (1024,)) * 2]
_SCALE = _array(4096, dtype=jnp.float32)

PROGRAMS: dict[str, Program] = {
    **{f"product-{m}x{n}x{k}": _of_product(m, n, k) for m, n, k in SHAPES},
    "product-f32": _of_product(4096, 4096, 4096, jnp.float32),
    "product-f8": _of_product(4096, 4096, 4096, jnp.float8_e4m3fn),
    "product-i8": _of_product(4096, 4096, 4096, jnp.int8),
    "product-transposed": Program(transposed, (_array(4096, 4096), _array(4096, 4096))),
    "gelu-and-residual": Program(
        gelu_and_residual, (_array(8192, 4096), _array(4096, 4096), _array(4096), _array(8192, 4096))
    ),
    "gated": Program(gated, (_array(8192, 4096), _array(4096, 14336), _array(4096, 14336))),
    "attention-causal": Program(attention, (_HEADS,) * 3),
    "attention-grouped": Program(attention, (_array(1, 8192, 32, 128), *(_array(1, 8192, 8, 128),) * 2)),
    "attention-whole": Program(partial(attention, is_causal=False), (_HEADS,) * 3),
    "attention-decode": Program(
        partial(attention, is_causal=False), (_array(16, 1, 32, 128), *(_array(16, 8192, 8, 128),) * 2)
    ),
    "attention-gradient": Program(gradient_of_attention, (_array(1, 4096, 16, 128),) * 3),
    "softmax": Program(lambda x: jax.nn.softmax(x), (_WIDE,)),
    "softmax-long": Program(lambda x: jax.nn.softmax(x), (_array(8192, 32768),)),
    "rms-norm": Program(_normed, (_WIDE, _array(4096))),
    "rms-norm-of-sum": Program(rms_norm_of_sum, (_WIDE, _WIDE, _array(4096))),
    "layer-norm": Program(layer_norm, (_WIDE, _SCALE, _SCALE)),
    "layer-norm-gradient": Program(gradient_of_layer_norm, (_WIDE, _SCALE, _SCALE, _WIDE)),
    "cross-entropy": Program(cross_entropy, (_array(8192, 50257), _array(8192, dtype=jnp.int32))),
    "adamw": Program(adamw, (_WEIGHTS,) * 4, (0, 1, 2)),
    "look-up": Program(look_up, (_array(50257, 4096), _array(8192, dtype=jnp.int32))),
    "look-up-gradient": Program(gradient_of_look_up, (_array(50257, 1024), _array(8192, dtype=jnp.int32), _array(8192, 1024))),
    "convolution": Program(convolved, (_array(32, 56, 56, 128), _array(3, 3, 128, 128))),
    "pooling": Program(pooled, (_array(32, 112, 112, 64),)),
    "transpose": Program(lambda x: x.T, (_array(8192, 8192),)),
    "cast": Program(lambda x: x.astype(jnp.bfloat16), (_ROWS,)),
    "column-sums": Program(lambda x: x.sum(0), (_ROWS,)),
    "running-sums": Program(lambda x: jnp.cumsum(x, 1), (_ROWS,)),
    "arg-max": Program(lambda x: jnp.argmax(x, -1), (_array(8192, 50257, dtype=jnp.float32),)),
    "top-k": Program(lambda x: jax.lax.top_k(x, 8), (_array(8192, 256, dtype=jnp.float32),)),
}  # fmt: skip
