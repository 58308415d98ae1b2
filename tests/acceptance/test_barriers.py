"""Optimization barriers end to end: results of random programs, and the memory and FLOPs of programs that recompute by
`jax.checkpoint`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import meshgen as mg
from meshgen.api import plan
from meshgen.compiled.executable import Executable
from meshgen.ir.predicates import is_optimization_barrier
from meshgen.ir.regions import all_nodes
from meshgen.mlir.text import parse_text, print_text
from meshgen.testing.random_programs import find_fault, options_of
from tests.random_barriers import program_with_barriers
from tests.trials import trials

POLICIES = jax.checkpoint_policies
LAYERS, WIDE, NARROW, ROWS = 5, 2048, 512, 2048
Layer = Callable[[Any, Any], Any]


@pytest.mark.parametrize("seed", trials(60))
def test_random_programs_with_barriers_match_reference(seed: int) -> None:
    module = program_with_barriers(seed)
    assert find_fault(module, options_of(seed), seed) is None
    text = print_text(parse_text(print_text(module)))  # printing turns values that a region captures into operands
    assert print_text(parse_text(text)) == text
    assert text.count("optimization_barrier") == print_text(module).count("optimization_barrier")


def test_random_programs_have_barriers() -> None:
    graphs = [program_with_barriers(seed).graph for seed in range(60)]
    assert sum(is_optimization_barrier(node) for graph in graphs for node in all_nodes(graph)) > 100


def mlp(x: Any, w: Any) -> Any:
    return jnp.tanh(jnp.sin(x @ w["a"])) @ w["b"]


def gelu(x: Any, w: Any) -> Any:
    return jax.checkpoint(jax.nn.gelu)(x @ w["a"]) @ w["b"]


def gradient_of(layer: Layer, *, in_loop: bool = False) -> Callable[[Any, Any], Any]:
    def loss(weights: Any, x: Any) -> Any:
        if in_loop:
            x, _ = jax.lax.scan(lambda x, w: (layer(x, w), None), x, weights)
        for w in () if in_loop else weights:
            x = layer(x, w)
        return (x**2).mean()

    return jax.grad(loss)


def weights_of(count: int = 0) -> Any:
    shapes = {"a": (NARROW, WIDE), "b": (WIDE, NARROW)}
    if count:
        return {name: jax.ShapeDtypeStruct((count, *shape), "float32") for name, shape in shapes.items()}
    return [{name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in shapes.items()} for _ in range(LAYERS)]


X = jax.ShapeDtypeStruct((ROWS, NARROW), "float32")


def planned(layer: Layer) -> Executable:
    return plan(jax.jit(gradient_of(layer)), {"dp": 1}, args=(weights_of(), X), target="cuda:sm_90")


def flops_of_dots(layer: Layer) -> int:
    """Return the FLOPs of all GEMMs in the StableHLO text that JAX emits."""
    text = jax.jit(gradient_of(layer)).lower(weights_of(), X).as_text()
    pattern = r"dot_general [^\n]*contracting_dims = \[(\d)\][^\n]*: \(tensor<(\d+)x(\d+)xf32>, [^\n]* -> tensor<(\d+)x(\d+)xf32>"
    return sum(2 * int(m[4]) * int(m[5]) * int(m[2 + int(m[1])]) for m in re.finditer(pattern, text))


@pytest.mark.parametrize(
    ("name", "recomputed_layers"),
    [("checkpoint", LAYERS), ("dots are saved", 0), ("everything is saved", 0)],
)
def test_checkpoint_policy_decides_which_matmuls_are_recomputed(name: str, recomputed_layers: int) -> None:
    policy = {
        "dots are saved": POLICIES.dots_with_no_batch_dims_saveable,
        "everything is saved": POLICIES.everything_saveable,
    }
    layer = jax.checkpoint(mlp, policy=policy.get(name))
    executable, matmul_flops = planned(layer), 2 * ROWS * NARROW * WIDE
    assert flops_of_dots(layer) == flops_of_dots(mlp) + recomputed_layers * matmul_flops
    assert math.isclose(
        executable.cost.flops, flops_of_dots(layer), rel_tol=0.02
    )  # the other FLOPs are element-wise arithmetic


def test_checkpoint_memory_is_one_layer_plus_saved_values() -> None:
    plain, checkpointed = planned(mlp), planned(jax.checkpoint(mlp))
    dots = planned(jax.checkpoint(mlp, policy=POLICIES.dots_with_no_batch_dims_saveable))
    weights, hidden, narrow = 2 * WIDE * NARROW * 4, ROWS * WIDE * 4, ROWS * NARROW * 4
    fixed = 2 * LAYERS * weights + (LAYERS + 1) * narrow  # weights and their gradients, and the inputs of all layers
    assert checkpointed.memory.peak_bytes + (LAYERS - 1) * hidden < plain.memory.peak_bytes
    # In one layer, these are alive at the peak: the matmul result, its sine, the gradient, the factor of the gradient,
    # and two gradients of narrow size.
    assert checkpointed.memory.peak_bytes <= 1.05 * (fixed + 4 * hidden + 2 * narrow)
    assert dots.memory.peak_bytes <= 1.05 * (fixed + (LAYERS + 3) * hidden + 2 * narrow)


@pytest.mark.parametrize("policy", [None, POLICIES.dots_with_no_batch_dims_saveable])
def test_unrolled_layers_need_no_more_memory_than_loop(policy: Any) -> None:
    layer = jax.checkpoint(mlp, policy=policy)
    loop = jax.jit(gradient_of(layer, in_loop=True))
    looped = plan(loop, {"dp": 1}, args=(weights_of(LAYERS), X), target="cuda:sm_90")
    assert planned(layer).memory.peak_bytes <= 1.05 * looped.memory.peak_bytes


def test_checkpointed_elementwise_function_is_fused_as_epilogue() -> None:
    """The barrier is between a GEMM and the gradient of its epilogue. Fusion must ignore the barrier."""
    plain = planned(lambda x, w: jax.nn.gelu(x @ w["a"]) @ w["b"])
    checkpointed = planned(gelu)
    assert len(checkpointed.plan.items) <= len(plain.plan.items)
    assert checkpointed.cost.step_seconds <= 1.02 * plain.cost.step_seconds


def test_sharded_weights_are_gathered_on_both_sides_of_a_barrier() -> None:
    """A layer and its recomputation gather the weights separately. If they shared one gathered copy, it would be alive
    for the whole step.
    """
    specs = ([dict.fromkeys("ab", mg.P("dp")) for _ in range(LAYERS)], mg.P("dp"))
    x = jax.ShapeDtypeStruct((16 * ROWS, NARROW), "float32")
    plain, checkpointed = (
        plan(jax.jit(gradient_of(layer)), {"dp": 8}, args=(weights_of(), x), in_specs=specs, target="cuda:sm_90")
        for layer in (mlp, jax.checkpoint(mlp))
    )
    gathers = [sum(item.op == "all_gather" for item in executable.plan.items) for executable in (plain, checkpointed)]
    assert gathers == [2 * LAYERS, 4 * LAYERS]
