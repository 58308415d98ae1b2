"""Names of loop-carried values. They are named after the arguments at any nesting depth, so that the texts of stages
stay readable.
"""

from __future__ import annotations

import pytest

from meshgen.api import lower, plan
from meshgen.ir.predicates import is_loop
from meshgen.ir.regions import all_nodes
from meshgen.mlir.text import parse_text, print_text

# A nested loop that carries a weight, a counter and a sum. JAX names its loop-carried values iterArg, iterArg_0, ...
NESTED = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%weight: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %n: tensor<i32>) -> tensor<8x8xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %0:3 = stablehlo.while(%iterArg = %weight, %iterArg_0 = %c, %iterArg_1 = %zero) : tensor<8x8xf32>, tensor<i32>, tensor<8x8xf32>
    cond {
      %go = stablehlo.compare LT, %iterArg_0, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %1:2 = stablehlo.while(%iterArg_2 = %iterArg, %iterArg_3 = %iterArg_1) : tensor<8x8xf32>, tensor<8x8xf32>
        cond {
          %go = stablehlo.compare LT, %iterArg_0, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %go : tensor<i1>
        } do {
          %h = stablehlo.dot_general %iterArg_3, %iterArg_2, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
          stablehlo.return %iterArg_2, %h : tensor<8x8xf32>, tensor<8x8xf32>
        }
      %next = stablehlo.add %iterArg_0, %one : tensor<i32>
      stablehlo.return %1#0, %next, %1#1 : tensor<8x8xf32>, tensor<i32>, tensor<8x8xf32>
    }
  return %0#2 : tensor<8x8xf32>
}
"""


def test_carried_value_is_named_after_initial_argument() -> None:
    module = lower(NESTED, stage="import")
    outer, inner = (node for node in all_nodes(module.graph) if is_loop(node))
    for loop in (outer, inner):
        assert [region.inputs[0].name for region in loop.regions] == ["weight", "weight"]
    assert [value.name for value in outer.regions[1].inputs[1:3]] == ["iterArg_0", "iterArg_1"]
    assert print_text(parse_text(print_text(module))) == print_text(module)


def test_explanation_names_argument_of_carried_value() -> None:
    """Sentences about the carried value use the argument's name `weight`, and `explain` accepts this name."""
    executable = plan(NESTED, target="cpu")
    assert "iterArg " not in executable.explain() and "`iterArg`" not in executable.explain()
    assert executable.explain("weight").count("%weight = input") == 1


def test_generated_argument_name_is_not_inherited() -> None:
    text = NESTED.replace("%weight", "%arg0")
    loop = next(node for node in all_nodes(lower(text, stage="import").graph) if is_loop(node))
    assert loop.regions[1].inputs[0].name == "iterArg"


def test_carried_values_of_jax_have_leaf_names() -> None:
    jax = pytest.importorskip("jax")

    def step(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(
            lambda c: c[1].sum() < 9, lambda c: (c[0], jax.numpy.tanh(c[1] @ c[0])), (params["w"], x)
        )[1]

    args = {"w": jax.ShapeDtypeStruct((8, 8), "float32")}, jax.ShapeDtypeStruct((8, 8), "float32")
    loop = next(n for n in all_nodes(lower(jax.jit(step), {"x": 2}, args=args, stage="import").graph) if is_loop(n))
    assert {value.name for value in loop.regions[1].inputs} >= {"params.w", "x"}
