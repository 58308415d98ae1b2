"""Transformer and mixture-of-experts programs at realistic sizes, lowered by JAX: forward and training, each sharded in
a usual way.

Lowering computes nothing, and the devices of the mesh need not exist. Activations and weights are bf16, norms and
softmax f32.
A device's share of the batch is `ROWS` sequences of `LENGTH` tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from meshgen.cost_model.model import DEFAULT
from meshgen.errors import Diagnostic, MissingError, UsageError
from meshgen.mesh import Axis, Mesh
from meshgen.packages import install

# Layers, sequences per device, tokens per sequence, head size (chosen: two layers of models with 7 to 70 billion
# parameters).
LAYERS, ROWS, LENGTH, HEAD = 2, 4, 2048, 128
NODE = 8  # number of GPUs in a node, connected by NVLink; ranks of other nodes are reached over the network
# Tokens and experts per rank (chosen: one expert per rank is the finest expert parallelism).
MOE_TOKENS, MOE_EXPERTS_PER_RANK = 2048, 1

Split = tuple[str | None, ...]

# Mesh axes that shard each matrix of a layer, per kind of program: `dp` (rows of the batch), `tp` (heads, hidden dim of
# the MLP).
_MEGATRON: Mapping[str, Split] = {"wqkv": (None, None, "tp"), "wo": ("tp",), "w1": (None, "tp"), "w2": ("tp",)}
_FSDP: Mapping[str, Split] = {"wqkv": (None, "dp"), "wo": (None, None, "dp"), "w1": ("dp",), "w2": ("dp",)}
_BOTH: Mapping[str, Split] = {"wqkv": (None, "dp", "tp"), "wo": ("tp", "dp"), "w1": ("dp", "tp"), "w2": ("tp", "dp")}


@dataclass(frozen=True)
class Program:
    """A program to measure: the sharding of its weights and rows, whether it trains, its width and its number of ranks."""

    kind: str
    weights: Mapping[str, Split]
    hidden: int
    ranks: int
    trains: bool = False
    rows: Split = ("dp",)  # sharding of the residual stream
    has_tp: bool = True

    @property
    def name(self) -> str:
        return f"{'train' if self.trains else 'forward'}_{self.kind}_{self.hidden}_{self.ranks}"

    @property
    def mesh(self) -> Mesh:
        """Return the mesh of `ranks` devices. Axis `tp` is inside a node of `NODE` ranks; axis `dp` extends over
        several nodes.
        """
        links = DEFAULT.links
        network = (links.network_bytes_per_second, links.network_latency_seconds) if self.ranks > NODE else ()
        tp = 1 if not self.has_tp else 4 if self.ranks == NODE and self.trains else NODE
        return Mesh((Axis("dp", self.ranks // tp, *network), Axis("tp", tp)))

    def text(self) -> str:
        """Return the program as StableHLO text with shardings. Raises MissingError MG0602 without JAX."""
        return _experts(self) if self.kind == "ep" else _layers(self)


def programs(widths: Sequence[int] = (4096, 8192), sizes: Sequence[int] = (8, 64)) -> list[Program]:
    """Return the programs for each width and number of ranks."""
    selected: list[Program] = []
    for hidden in widths:
        for ranks in sizes:
            make = partial(Program, hidden=hidden, ranks=ranks)
            selected += [
                make("tp", _MEGATRON),
                make("tp_sp", _MEGATRON, rows=("dp", "tp")),
                make("fsdp", _FSDP, has_tp=False),
                make("ep", {}, has_tp=False),
                make("dp_tp", _MEGATRON, trains=True),
                make("dp_tp_sp", _MEGATRON, trains=True, rows=("dp", "tp")),
                make("fsdp_tp", _BOTH, trains=True),
                make("zero3", _FSDP, trains=True, has_tp=False),
            ]
    return selected


def selected_programs(names: Sequence[str]) -> Iterator[tuple[str, str, Mesh | None]]:
    """Yield name, text or path, and mesh of each selected program: `.mlir` files, and programs whose names start with
    one of `names`.

    Without names, the programs of width 4096 on 8 ranks are selected.

    Raises UsageError MG0001 if no program has such a name, MissingError MG0602 without JAX.
    """
    all_programs = programs()
    for name in names or [program.name for program in programs([4096], [NODE])]:
        if name.endswith(".mlir"):
            yield Path(name).name, name, None
            continue
        matching = [program for program in all_programs if program.name.startswith(name)]
        if not matching:
            hint = f"name .mlir files, or some of {', '.join(program.name for program in all_programs)}"
            raise UsageError(Diagnostic("MG0001", f"unknown program '{name:.60}'", hint=hint))
        for program in matching:
            yield program.name, program.text(), program.mesh


def _jax() -> Any:
    try:
        import jax
    except ImportError as error:
        raise MissingError(Diagnostic("MG0602", "JAX is not installed", hint=install("jax"))) from error
    return jax


def _lowered(program: Program, step: Callable[..., Any], types: Any, splits: Any) -> str:
    """Lower the function `step` to text. `types` are trees of argument shapes; `splits` are trees of the shardings of
    these arguments.
    """
    jax = _jax()
    # newer versions of JAX have explicit axes by default
    automatic = (jax.sharding.AxisType.Auto,) * len(program.mesh.names)
    mesh = jax.sharding.AbstractMesh(program.mesh.sizes, program.mesh.names, axis_types=automatic)

    def on(split: Split) -> Any:
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*split))

    shardings = jax.tree.map(on, splits, is_leaf=lambda leaf: isinstance(leaf, tuple))
    shapes = jax.tree.map(
        lambda shape: jax.ShapeDtypeStruct(shape, "bfloat16"), types, is_leaf=lambda leaf: isinstance(leaf, tuple)
    )
    outs = shardings[0] if program.trains else shardings[1]
    jitted = jax.jit(partial(step, on), in_shardings=tuple(shardings), out_shardings=outs)
    return jitted.trace(*shapes).lower(lowering_platforms=("cpu",)).as_text()


def _layers(program: Program) -> str:
    """Return the text of a stack of blocks. A training step returns the gradients of all weights."""
    width = program.hidden
    heads = width // HEAD
    shapes = {
        "wqkv": (3, width, heads, HEAD),
        "wo": (heads, HEAD, width),
        "w1": (width, 4 * width),
        "w2": (4 * width, width),
    }
    layer = {name: program.weights[name] for name in shapes}
    batch = ROWS * program.mesh.axis_size("dp")
    x = (batch, LENGTH, width)

    def forward(on: Callable[[Split], Any], weights: Any, value: Any) -> Any:
        for layer_weights in weights:
            value = _block(lambda y: _jax().lax.with_sharding_constraint(y, on(program.rows)), value, layer_weights)
        return value

    def train(on: Callable[[Split], Any], weights: Any, value: Any) -> Any:
        return _jax().grad(lambda w: (forward(on, w, value).astype("float32") ** 2).mean())(weights)

    step = train if program.trains else forward
    return _lowered(program, step, [[shapes] * LAYERS, x], [[layer] * LAYERS, program.rows])


def _normalized(x: Any) -> Any:
    wide = x.astype("float32")
    return (wide * _jax().lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)


def _block(laid: Callable[[Any], Any], x: Any, layer: Any) -> Any:
    """Apply causal attention and a GELU MLP with residuals. The function `laid` constrains the sharding of the residual
    stream.
    """
    import jax.numpy as jnp

    h = _normalized(x)
    q, k, v = (jnp.einsum("bld,dhe->blhe", h, layer["wqkv"][n]) for n in range(3))
    scores = jnp.einsum("blhe,bmhe->bhlm", q, k).astype("float32") * HEAD**-0.5
    row, column = jnp.arange(LENGTH)[:, None], jnp.arange(LENGTH)[None, :]
    probabilities = _jax().nn.softmax(jnp.where(row >= column, scores, -1e30), axis=-1).astype(x.dtype)
    x = laid(x + jnp.einsum("blhe,hed->bld", jnp.einsum("bhlm,bmhe->blhe", probabilities, v), layer["wo"]))
    h = _jax().nn.gelu(_normalized(x) @ layer["w1"], approximate=True)
    return laid(x + h @ layer["w2"])


def _experts(program: Program) -> str:
    """Return the text of a layer of experts (GShard): dispatch tokens to slots, compute on the expert's rank, and
    combine the results.
    """
    import jax.numpy as jnp

    ranks, width = program.ranks, program.hidden
    count = ranks * MOE_EXPERTS_PER_RANK
    slots = 2 * MOE_TOKENS // count
    weights = {"w1": (count, width, 4 * width), "w2": (count, 4 * width, width)}
    arguments = {"x": (ranks, MOE_TOKENS, width), "route": (ranks, MOE_TOKENS, count, slots)}

    def step(on: Callable[[Split], Any], w: Any, g: Any) -> Any:
        def laid(value: Any, *split: str | None) -> Any:
            return _jax().lax.with_sharding_constraint(value, on(split))

        dispatched = laid(jnp.einsum("gsec,gsm->egcm", g["route"], g["x"]), None, "dp")
        hidden = _jax().nn.gelu(jnp.einsum("egcm,emh->egch", laid(dispatched, "dp"), w["w1"]), approximate=True)
        combined = laid(laid(jnp.einsum("egch,ehm->egcm", hidden, w["w2"]), "dp"), None, "dp")
        return {"x": jnp.einsum("gsec,egcm->gsm", g["route"], combined), "route": g["route"][..., 0]}

    return _lowered(
        program, step, [weights, arguments], [{"w1": ("dp",), "w2": ("dp",)}, {"x": ("dp",), "route": ("dp",)}]
    )
