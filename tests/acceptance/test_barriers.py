"""Optimization barriers the whole way: numbers of random programs, and the memory and work of what `jax.checkpoint` computes again."""

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
def test_random_programs_with_barriers_have_the_right_numbers(seed: int) -> None:
    module = program_with_barriers(seed)
    assert find_fault(module, options_of(seed), seed) is None
    text = print_text(parse_text(print_text(module)))  # with what loops take from outside as operands of theirs
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
    """Operations of the products in the text that JAX gives."""
    text = jax.jit(gradient_of(layer)).lower(weights_of(), X).as_text()
    form = r"dot_general [^\n]*contracting_dims = \[(\d)\][^\n]*: \(tensor<(\d+)x(\d+)xf32>, [^\n]* -> tensor<(\d+)x(\d+)xf32>"
    return sum(2 * int(m[4]) * int(m[5]) * int(m[2 + int(m[1])]) for m in re.finditer(form, text))


@pytest.mark.parametrize(
    ("name", "again"),
    [("checkpoint", LAYERS), ("dots are saved", 0), ("everything is saved", 0)],
)
def test_layers_are_computed_again_as_the_program_says(name: str, again: int) -> None:
    policy = {
        "dots are saved": POLICIES.dots_with_no_batch_dims_saveable,
        "everything is saved": POLICIES.everything_saveable,
    }
    layer = jax.checkpoint(mlp, policy=policy.get(name))
    found, product = planned(layer), 2 * ROWS * NARROW * WIDE
    assert flops_of_dots(layer) == flops_of_dots(mlp) + again * product
    assert math.isclose(found.cost.flops, flops_of_dots(layer), rel_tol=0.02)  # the rest is arithmetic of elements


def test_memory_is_that_of_one_layer_and_of_what_is_saved() -> None:
    plain, again = planned(mlp), planned(jax.checkpoint(mlp))
    dots = planned(jax.checkpoint(mlp, policy=POLICIES.dots_with_no_batch_dims_saveable))
    weights, hidden, narrow = 2 * WIDE * NARROW * 4, ROWS * WIDE * 4, ROWS * NARROW * 4
    fixed = 2 * LAYERS * weights + (LAYERS + 1) * narrow  # weights, their gradients, inputs of layers
    assert again.memory.peak_bytes + (LAYERS - 1) * hidden < plain.memory.peak_bytes
    # Of one layer: the product, its sine, the gradient, what is multiplied with it, and both of the narrow gradients.
    assert again.memory.peak_bytes <= 1.05 * (fixed + 4 * hidden + 2 * narrow)
    assert dots.memory.peak_bytes <= 1.05 * (fixed + (LAYERS + 3) * hidden + 2 * narrow)


@pytest.mark.parametrize("policy", [None, POLICIES.dots_with_no_batch_dims_saveable])
def test_unrolled_layers_take_no_more_memory_than_a_loop(policy: Any) -> None:
    layer = jax.checkpoint(mlp, policy=policy)
    loop = jax.jit(gradient_of(layer, in_loop=True))
    looped = plan(loop, {"dp": 1}, args=(weights_of(LAYERS), X), target="cuda:sm_90")
    assert planned(layer).memory.peak_bytes <= 1.05 * looped.memory.peak_bytes


def test_a_checkpointed_function_of_elements_is_an_epilogue_all_the_same() -> None:
    """The barrier is between a product and the gradient of what follows it: reading through it, one kernel has both."""
    plain = planned(lambda x, w: jax.nn.gelu(x @ w["a"]) @ w["b"])
    again = planned(gelu)
    assert len(again.plan.items) <= len(plain.plan.items)
    assert again.cost.step_seconds <= 1.02 * plain.cost.step_seconds


def test_sharded_weights_are_gathered_on_both_sides_of_a_barrier() -> None:
    """A gathered copy that the recomputed layer shared with the first one would be kept for the whole step."""
    specs = ([dict.fromkeys("ab", mg.P("dp")) for _ in range(LAYERS)], mg.P("dp"))
    x = jax.ShapeDtypeStruct((16 * ROWS, NARROW), "float32")
    plain, again = (
        plan(jax.jit(gradient_of(layer)), {"dp": 8}, args=(weights_of(), x), in_specs=specs, target="cuda:sm_90")
        for layer in (mlp, jax.checkpoint(mlp))
    )
    gathers = [sum(item.op == "all_gather" for item in each.plan.items) for each in (plain, again)]
    assert gathers == [2 * LAYERS, 4 * LAYERS]
