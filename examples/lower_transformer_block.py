"""Print a transformer block as JAX lowers it: StableHLO with the user's shardings.

    python examples/lower_transformer_block.py [bfloat16|float32] > examples/transformer_block.mlir

The block consists of layer norm, causal multi-head attention, layer norm, GELU MLP and residuals. It is on a mesh of
dp=2 x tp=4. Rows of the batch are split over dp. Heads and the MLP's hidden dim are split over tp (Megatron). Nothing
else is annotated.
"""

import os
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

BATCH, LENGTH, MODEL, HEADS, HIDDEN = 8, 128, 256, 8, 1024
SIZE = MODEL // HEADS


def layer_norm(x, scale, bias):
    x = x.astype(jnp.float32)
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * scale + bias


def attention(x, weights):
    q, k, v = (jnp.einsum("bld,dhe->bhle", x, weights[name]) for name in ("wq", "wk", "wv"))
    scores = jnp.einsum("bhle,bhme->bhlm", q, k).astype(jnp.float32) * SIZE**-0.5
    row, column = jnp.arange(LENGTH)[:, None], jnp.arange(LENGTH)[None, :]
    chances = jax.nn.softmax(jnp.where(row >= column, scores, -1e30), axis=-1).astype(x.dtype)
    heads = jnp.einsum("bhlm,bhme->bhle", chances, v)
    return jnp.einsum("bhle,hed->bld", heads, weights["wo"])


def block(x, weights):
    h = layer_norm(x, weights["scale1"], weights["bias1"]).astype(x.dtype)
    x = x + attention(h, weights)
    h = layer_norm(x, weights["scale2"], weights["bias2"]).astype(x.dtype)
    h = jax.nn.gelu(h @ weights["w1"] + weights["b1"], approximate=True)
    return x + h @ weights["w2"] + weights["b2"]


# For each weight: its shape, the mesh axis that splits each dim, and its dtype. None means the dtype of the
# activations.
WEIGHTS = {
    "scale1": ((MODEL,), (), "float32"),
    "bias1": ((MODEL,), (), "float32"),
    "wq": ((MODEL, HEADS, SIZE), (None, "tp"), None),
    "wk": ((MODEL, HEADS, SIZE), (None, "tp"), None),
    "wv": ((MODEL, HEADS, SIZE), (None, "tp"), None),
    "wo": ((HEADS, SIZE, MODEL), ("tp",), None),
    "scale2": ((MODEL,), (), "float32"),
    "bias2": ((MODEL,), (), "float32"),
    "w1": ((MODEL, HIDDEN), (None, "tp"), None),
    "b1": ((HIDDEN,), ("tp",), None),
    "w2": ((HIDDEN, MODEL), ("tp",), None),
    "b2": ((MODEL,), (), None),
}


def lowered(dtype: str) -> str:
    """Return the block's text with activations and matrices in `dtype`."""
    mesh = jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(AxisType.Auto, AxisType.Auto))

    def sharding(*axes):
        return NamedSharding(mesh, PartitionSpec(*axes))

    types = {name: jax.ShapeDtypeStruct(shape, kind or dtype) for name, (shape, _, kind) in WEIGHTS.items()}
    specs = {name: sharding(*axes) for name, (_, axes, _) in WEIGHTS.items()}
    x = jax.ShapeDtypeStruct((BATCH, LENGTH, MODEL), dtype)
    step = jax.jit(block, in_shardings=(sharding("dp"), specs), out_shardings=sharding("dp"))
    return step.lower(x, types).as_text()


if __name__ == "__main__":
    sys.stdout.write(lowered(*sys.argv[1:] or ["bfloat16"]))
