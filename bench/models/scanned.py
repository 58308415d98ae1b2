"""flax layers in a scan with rematerialization: bf16 arithmetic, f32 parameters, split over `fsdp` and `tp`."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, by_name, tokens
from bench.models.training import next_token, training

NARROW = jnp.bfloat16


class Layer(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x: Any, _: Any) -> Any:
        width = x.shape[-1]
        h = nn.LayerNorm(dtype=NARROW)(x)
        q, k, v = (nn.DenseGeneral((self.heads, width // self.heads), dtype=NARROW, name=name)(h) for name in "qkv")
        seen = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + nn.DenseGeneral(width, (-2, -1), dtype=NARROW, name="o")(seen)
        h = nn.gelu(nn.Dense(4 * width, dtype=NARROW, name="up")(nn.LayerNorm(dtype=NARROW)(x)))
        return x + nn.Dense(width, dtype=NARROW, name="down")(h), None


class Model(nn.Module):
    layers: int
    width: int
    words: int
    heads: int

    @nn.compact
    def __call__(self, ids: Any) -> Any:
        x = nn.Embed(self.words, self.width, dtype=NARROW, name="embed")(ids)
        layers = nn.scan(
            nn.remat(Layer, prevent_cse=False),
            variable_axes={"params": 0},
            split_rngs={"params": True},
            length=self.layers,
        )
        x, _ = layers(self.heads, name="layers")(x, None)
        return nn.Dense(self.words, dtype=NARROW, name="head")(nn.LayerNorm(dtype=NARROW)(x))


SPLIT = by_name({f"*.{name}.kernel": P(None, "fsdp", "tp") for name in ("q", "k", "v", "up")}
                | {"*.o.kernel": P(None, "tp", None, "fsdp"), "*.down.kernel": P(None, "tp", "fsdp")}
                | {"*.head.kernel": P("fsdp", "tp"), "*.embedding": P("tp", "fsdp")})  # fmt: skip


def scanned(small: bool) -> Program:
    model, ids = (Model(3, 32, 64, 4), tokens(8, 16)) if small else (Model(24, 2048, 32000, 16), tokens(32, 512))
    params = jax.eval_shape(model.init, jax.random.key(0), ids)
    return training(
        lambda params, ids: next_token(model.apply(params, ids), ids),
        params,
        (ids,),
        {"fsdp": 4, "tp": 2},
        SPLIT,
        (P("fsdp"),),
    )


ROWS = by_name({f"*.{name}.kernel": P(None, "fsdp") for name in ("q", "k", "v", "up")}
               | {"*.o.kernel": P(None, None, None, "fsdp"), "*.down.kernel": P(None, None, "fsdp")}
               | {"*.head.kernel": P("fsdp"), "*.embedding": P(None, "fsdp")})  # fmt: skip


def sharded_only(small: bool) -> Program:
    """Return the program of a loss whose weights are fully sharded over one axis. Each layer gathers its weights."""
    model, ids = (Model(3, 32, 64, 4), tokens(8, 16)) if small else (Model(24, 2048, 32000, 16), tokens(16, 2048))
    params = jax.eval_shape(model.init, jax.random.key(0), ids)

    def loss(params: Any, ids: Any) -> Any:
        return next_token(model.apply(params, ids), ids)

    return Program(loss, {"fsdp": 8}, (params, ids), (ROWS(params), P("fsdp")))


PROGRAMS = {"scan-train": scanned, "scan-fsdp": sharded_only}
