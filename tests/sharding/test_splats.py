"""Splats (values with one number everywhere): propagation makes no decision for them, and they need no collectives."""

from __future__ import annotations

import pytest

from meshgen.ir.graph import Module, Node
from meshgen.mlir.text import parse_text
from meshgen.notation import format_sharding
from meshgen.sharding.materialize import materialize
from meshgen.sharding.propagate import propagate, solve

HEAD = 'sdy.mesh @mesh = <["x"=4]>\n'
ROWS = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
COLUMNS = '{sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}'
SCALED = (
    HEAD
    + f"""
func.func @main(%x: tensor<64x32xf32> {ROWS}) -> tensor<64x32xf32> {{
  %c = stablehlo.constant dense<0.1> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
  %n = stablehlo.negate %b : tensor<64x32xf32>
  %y = stablehlo.multiply %x, %n : tensor<64x32xf32>
  return %y : tensor<64x32xf32>
}}"""
)
SHARED = (
    HEAD
    + f"""
func.func @main(%x: tensor<64x32xf32> {ROWS}, %z: tensor<64x32xf32> {COLUMNS}) -> (tensor<64x32xf32>, tensor<64x32xf32>) {{
  %b = stablehlo.constant dense<0.1> : tensor<64x32xf32>
  %y = stablehlo.multiply %x, %b : tensor<64x32xf32>
  %w = stablehlo.multiply %z, %b : tensor<64x32xf32>
  return %y, %w : tensor<64x32xf32>, tensor<64x32xf32>
}}"""
)
LOOPED = (
    HEAD
    + f"""
func.func @main(%x: tensor<64x32xf32> {ROWS}) -> tensor<64x32xf32> {{
  %i = stablehlo.constant dense<0> : tensor<i32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
  %r:2 = stablehlo.while(%k = %i, %sum = %s) : tensor<i32>, tensor<64x32xf32>
  cond {{
    %n = stablehlo.constant dense<3> : tensor<i32>
    %t = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %half = stablehlo.constant dense<0.5> : tensor<64x32xf32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %part = stablehlo.multiply %x, %half : tensor<64x32xf32>
    %more = stablehlo.add %sum, %part : tensor<64x32xf32>
    stablehlo.return %next, %more : tensor<i32>, tensor<64x32xf32>
  }}
  return %r#1 : tensor<64x32xf32>
}}"""
)


def nodes(module: Module) -> dict[str, Node]:
    top_level_nodes = {node.results[0].name: node for node in module.graph.nodes}
    return top_level_nodes | {
        n.results[0].name: n for node in module.graph.nodes for r in node.regions for n in r.nodes
    }


def sharding(module: Module, name: str) -> str:
    decided = nodes(module)[name].sharding
    assert decided is not None
    return format_sharding(decided.results[0])


def test_splats_are_not_propagation_sites() -> None:
    sites = solve(parse_text(SCALED)).sites
    assert [site.node.op for site in sites] == ["input", "multiply", "output"]
    assert sites[1].splats == (1,)


def test_splat_gets_sharding_of_its_user() -> None:
    module = propagate(parse_text(SCALED))
    assert [sharding(module, name) for name in "cbn"] == ["", "x,_", "x,_"]
    assert [node.op for node in materialize(module).graph.nodes] == [
        "constant",
        "broadcast_in_dim",
        "negate",
        "multiply",
    ]


def test_splat_with_several_shardings_is_replicated_and_sliced() -> None:
    """Check a splat with several uses: each use has the sharding of its op's other operand."""
    module = propagate(parse_text(SHARED))
    assert [sharding(module, name) for name in "byw"] == ["_,_", "x,_", "_,x"]
    ops = [node.op for node in materialize(module).graph.nodes]
    assert sorted(ops) == ["all_slice", "all_slice", "constant", "multiply", "multiply"]


def test_splats_in_loops_get_sharding_of_users() -> None:
    module = propagate(parse_text(LOOPED))
    assert [sharding(module, name) for name in ("s", "half", "more")] == ["x,_"] * 3


@pytest.mark.parametrize("text", [SCALED, SHARED, LOOPED], ids=["scaled", "shared", "looped"])
def test_propagation_of_splats_is_deterministic(text: str) -> None:
    first = propagate(parse_text(text))
    second = propagate(parse_text(text))
    assert [node.sharding for node in first.graph.nodes] == [node.sharding for node in second.graph.nodes]
