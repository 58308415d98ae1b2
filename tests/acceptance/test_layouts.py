"""Common layouts, such as sequence parallelism and ZeRO-3, from few annotations. The plans send no more bytes than an
expert's schedule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import pytest

from meshgen import api
from meshgen.compiled.executable import Executable
from meshgen.ops.op import Trait
from meshgen.ops.registry import with_trait
from meshgen.testing.oracle import check

jax = pytest.importorskip("jax")
jnp, P = jax.numpy, jax.sharding.PartitionSpec
LOCAL = ("all_slice", "to_partial")
MEGATRON = {"q": P(None, "tp"), "k": P(None, "tp"), "v": P(None, "tp"), "o": P("tp"), "up": P(None, "tp"), "down": P("tp")}  # fmt: skip
Params = list[dict[str, Any]]


class Sizes(NamedTuple):
    """Sizes of a stack of transformer blocks in f32. The norms of the blocks have no learned scale."""

    batch: int
    rows: int
    embed: int
    ffn: int
    heads: int
    layers: int = 2

    @property
    def weights(self) -> dict[str, tuple[int, int]]:
        square = (self.embed, self.embed)
        return dict.fromkeys("qkvo", square) | {"up": (self.embed, self.ffn), "down": (self.ffn, self.embed)}

    @property
    def weight_bytes(self) -> int:
        return self.layers * 4 * sum(a * b for a, b in self.weights.values())

    @property
    def activation_bytes(self) -> int:
        return 4 * self.batch * self.rows * self.embed

    @property
    def arguments(self) -> tuple[Any, Params]:
        one = {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in self.weights.items()}
        return jax.ShapeDtypeStruct((self.batch, self.rows, self.embed), "float32"), [one] * self.layers

    def block(self, x: Any, p: Mapping[str, Any]) -> Any:
        h = jax.nn.standardize(x)
        q, k, v = ((h @ p[name]).reshape(*x.shape[:2], self.heads, self.embed // self.heads) for name in "qkv")
        scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
        x = x + jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(x.shape) @ p["o"]
        return x + jax.nn.gelu(jax.nn.standardize(x) @ p["up"]) @ p["down"]

    def forward(self, x: Any, params: Params) -> Any:
        for p in params:
            x = self.block(x, p)
        return x

    def gradients(self, x: Any, params: Params) -> Any:
        return jax.grad(lambda params: jnp.sum(self.forward(x, params) ** 2))(params)


SMALL, LARGE = Sizes(8, 16, 32, 64, 4, layers=1), Sizes(8, 512, 1024, 4096, 16)


def planned(function: Any, args: Any, specs: Any, out: Any, **axes: int) -> Executable:
    mesh = jax.sharding.AbstractMesh(
        tuple(axes.values()), tuple(axes), axis_types=(jax.sharding.AxisType.Auto,) * len(axes)
    )

    def named(tree: Any) -> Any:
        return jax.tree.map(
            lambda spec: jax.sharding.NamedSharding(mesh, spec), tree, is_leaf=lambda leaf: isinstance(leaf, P)
        )

    traced = jax.jit(function, in_shardings=named(specs), out_shardings=named(out)).trace(*args)
    return api.plan(traced.lower(lowering_platforms=("cpu",)), target="cpu")


def is_right(executable: Executable) -> bool:
    """Whether all ranks together compute the same result as one device."""
    return check(executable.stages["import"], pipeline=lambda _: executable.stages["partition"]).ok


def moved(executable: Executable) -> set[tuple[str, tuple[int | None, ...]]]:
    """Return the kind of each collective, together with the global shape of its operand."""
    nodes = executable.stages["optimize"].graph.nodes
    return {
        (n.op, n.operands[0].type.shape) for n in nodes if n.op in with_trait(Trait.COLLECTIVE) and n.op not in LOCAL
    }


@cache
def sequence_parallel(sizes: Sizes, *, trained: bool) -> Executable:
    """Plan a stack that is annotated only with row splits of the residual stream between blocks and with Megatron's
    weight splits.
    """
    x, weights = P("dp", "tp"), [MEGATRON] * sizes.layers
    function, out = (sizes.gradients, weights) if trained else (sizes.forward, x)
    return planned(function, sizes.arguments, (x, weights), out, dp=2, tp=4)


@cache
def zero3(sizes: Sizes, weight: Any, *, trained: bool) -> Executable:
    """Plan a stack that is annotated only with splits of the batch and of every weight over all devices."""
    x, weights = P("dp"), [dict.fromkeys(sizes.weights, weight)] * sizes.layers
    function, out = (sizes.gradients, weights) if trained else (sizes.forward, x)
    return planned(function, sizes.arguments, (x, weights), out, dp=8)


@pytest.mark.parametrize("trained", [False, True])
def test_sequence_parallel_residual_sends_no_more_than_megatron(trained: bool) -> None:
    """Each layer gathers rows twice and reduce-scatters rows twice in the forward pass, and again in the backward pass.
    Weight gradients are all-reduced over dp.
    """
    executable = sequence_parallel(LARGE, trained=trained)
    rows = LARGE.layers * 4 * (LARGE.activation_bytes // 2) * 3 // 4
    assert executable.cost.ring_bytes <= (2 * rows + LARGE.weight_bytes // 4 if trained else rows)
    assert is_right(sequence_parallel(SMALL, trained=trained))


def test_sequence_parallelism_does_not_gather_mlp_weights() -> None:
    collectives = moved(sequence_parallel(LARGE, trained=True))
    assert not collectives & {("all_gather", LARGE.weights[name]) for name in ("up", "down")}


@pytest.mark.parametrize("weight", [P("dp"), P(None, "dp")], ids=["rows", "columns"])
def test_zero3_inference_gathers_each_weight_and_nothing_else(weight: Any) -> None:
    executable = zero3(LARGE, weight, trained=False)
    assert moved(executable) == {("all_gather", shape) for shape in LARGE.weights.values()}
    assert executable.cost.ring_bytes == LARGE.weight_bytes * 7 // 8
    assert is_right(zero3(SMALL, weight, trained=False))


@pytest.mark.parametrize("weight", [P("dp"), P(None, "dp")], ids=["rows", "columns"])
def test_zero3_training_sends_each_weight_and_gradient_once(weight: Any) -> None:
    executable = zero3(LARGE, weight, trained=True)
    assert executable.cost.ring_bytes <= 2 * LARGE.weight_bytes * 7 // 8
    assert is_right(zero3(SMALL, weight, trained=True))


def test_zero3_training_does_not_move_activations() -> None:
    shapes = set(LARGE.weights.values())
    kinds = ("all_gather", "reduce_scatter")
    assert moved(zero3(LARGE, P("dp"), trained=True)) == {(kind, shape) for kind in kinds for shape in shapes}


def test_zero3_inference_over_scanned_layers_gathers_only_weights() -> None:
    """Moving activations inside the scan costs in every iteration, even if the collective is shared with another value."""
    stacked = {name: jax.ShapeDtypeStruct((LARGE.layers, *shape), "float32") for name, shape in LARGE.weights.items()}

    def scanned(x: Any, params: Mapping[str, Any]) -> Any:
        return jax.lax.scan(lambda x, p: (LARGE.block(x, p), None), x, params)[0]

    specs = P("dp"), dict.fromkeys(stacked, P(None, "dp"))
    executable = planned(scanned, (LARGE.arguments[0], stacked), specs, P("dp"), dp=8)
    assert executable.cost.ring_bytes == LARGE.weight_bytes * 7 // 8


def batch_normalized(x: Any) -> Any:
    mean = x.mean((0, 1, 2))
    return jax.nn.relu((x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean((0, 1, 2)) + 1e-5))


@pytest.mark.parametrize("pinned", [False, True], ids=["propagated", "annotated"])
def test_data_parallel_convolution_training_splits_the_work(pinned: bool) -> None:
    """The cost of a convolution includes its FLOPs. Repeating it on every device must not look cheaper than
    all-reducing its gradient.
    """
    mesh = jax.sharding.AbstractMesh((8,), ("dp",), axis_types=(jax.sharding.AxisType.Auto,))

    def loss(weights: Sequence[Any], x: Any) -> Any:
        for w in weights:
            layout = ("NHWC", "HWIO", "NHWC")
            x = batch_normalized(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout))
            if pinned:
                x = jax.lax.with_sharding_constraint(x, jax.sharding.NamedSharding(mesh, P("dp")))
        return (x**2).mean()

    weights = [jax.ShapeDtypeStruct((3, 3, 256, 256), "float32")] * 3
    x = jax.ShapeDtypeStruct((32, 7, 7, 256), "float32")
    record = planned(jax.grad(loss), (weights, x), (P(), P("dp")), P(), dp=8).record()
    assert record["redundant_flops_per_device"] <= 0.05 * record["flops_per_device"]
