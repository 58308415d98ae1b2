"""A stack of GPT layers over a mesh of any size, lowered by JAX. The devices of the mesh need not exist.

Rows of the batch are sharded over `dp`; heads, the hidden dim of the MLP and the vocabulary over `tp` (Megatron). No
other value is annotated.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from meshgen.errors import Diagnostic, MissingError
from meshgen.packages import install

LAYERS = 8  # layers of the stack in measurements and tests (chosen: a compilation takes seconds)
# Sizes of the stack: batch, tokens, width, heads, width of the MLP, vocabulary (chosen: near GPT-2 medium).
BATCH, LENGTH, MODEL, HEADS, HIDDEN, WORDS = 8, 256, 1024, 16, 4096, 32768
SIZE = MODEL // HEADS

# Shape of each weight by name, and the mesh axis that shards each dim.
LAYER: dict[str, tuple[tuple[int, ...], tuple[str | None, ...]]] = {
    "scale1": ((MODEL,), ()),
    "shift1": ((MODEL,), ()),
    "wq": ((MODEL, HEADS, SIZE), (None, "tp")),
    "wk": ((MODEL, HEADS, SIZE), (None, "tp")),
    "wv": ((MODEL, HEADS, SIZE), (None, "tp")),
    "wo": ((HEADS, SIZE, MODEL), ("tp",)),
    "scale2": ((MODEL,), ()),
    "shift2": ((MODEL,), ()),
    "w1": ((MODEL, HIDDEN), (None, "tp")),
    "b1": ((HIDDEN,), ("tp",)),
    "w2": ((HIDDEN, MODEL), ("tp",)),
    "b2": ((MODEL,), ()),
}


def stack(layers: int = LAYERS, dp: int = 2, tp: int = 4) -> str:
    """Return the StableHLO text of the stack for a mesh of `dp` x `tp` devices. Raises MissingError MG0602 without
    JAX.
    """
    # The mesh is replaced in the text because JAX rejects uneven tiles.
    return _lowered(layers).replace('<["dp"=2, "tp"=4]>', f'<["dp"={dp}, "tp"={tp}]>')


@cache
def _lowered(layers: int) -> str:
    try:
        import jax
        from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec
    except ImportError as error:
        raise MissingError(Diagnostic("MG0602", "JAX is not installed", hint=install("jax"))) from error
    # newer versions of JAX have explicit axes by default
    mesh = AbstractMesh((2, 4), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)

    def on(*axes: str | None) -> Any:
        return NamedSharding(mesh, PartitionSpec(*axes))

    def array(*shape: int, dtype: str = "float32") -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)

    outer = {"embedding": ((WORDS, MODEL), ("tp",)), "positions": ((LENGTH, MODEL), ())}
    types = {name: array(*shape) for name, (shape, _) in outer.items()}
    specs = {name: on(*axes) for name, (_, axes) in outer.items()}
    types["layers"] = [{name: array(*shape) for name, (shape, _) in LAYER.items()} for _ in range(layers)]
    specs["layers"] = [{name: on(*axes) for name, (_, axes) in LAYER.items()} for _ in range(layers)]
    step = jax.jit(_gpt, in_shardings=(specs, on("dp")), out_shardings=on("dp", None, "tp"))
    return step.trace(types, array(BATCH, LENGTH, dtype="int32")).lower(lowering_platforms=("cpu",)).as_text()


def _gpt(weights: Any, tokens: Any) -> Any:
    import jax.numpy as jnp

    x = jnp.take(weights["embedding"], tokens, axis=0) + weights["positions"]
    for layer in weights["layers"]:
        x = x + _attention(_normalized(x, layer["scale1"], layer["shift1"]), layer)
        x = x + _mlp(_normalized(x, layer["scale2"], layer["shift2"]), layer)
    return jnp.einsum("bld,vd->blv", x, weights["embedding"])


def _normalized(x: Any, scale: Any, shift: Any) -> Any:
    import jax

    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * scale + shift


def _attention(x: Any, layer: Any) -> Any:
    import jax
    import jax.numpy as jnp

    q, k, v = (jnp.einsum("bld,dhe->blhe", x, layer[name]) for name in ("wq", "wk", "wv"))
    scores = jnp.einsum("blhe,bmhe->bhlm", q, k) * SIZE**-0.5
    row, column = jnp.arange(LENGTH)[:, None], jnp.arange(LENGTH)[None, :]
    probabilities = jax.nn.softmax(jnp.where(row >= column, scores, -1e9), axis=-1)
    return jnp.einsum("blhe,hed->bld", jnp.einsum("bhlm,bmhe->blhe", probabilities, v), layer["wo"])


def _mlp(x: Any, layer: Any) -> Any:
    import jax

    return jax.nn.gelu(x @ layer["w1"] + layer["b1"], approximate=True) @ layer["w2"] + layer["b2"]
