"""Tests of dead ops in reduction regions: the importer recognizes the same reduction as without these ops."""

from __future__ import annotations

import pytest

from meshgen.mlir.text import parse_text

REDUCE = """func.func @main(%x: tensor<6xf16>) -> tensor<f16> {{
  %one = stablehlo.constant dense<1.0> : tensor<f16>
  %r = "stablehlo.reduce"(%x, %one) ({{
  ^bb0(%a: tensor<f16>, %b: tensor<f16>):
    {dead}
    %s = stablehlo.add %a, %b : tensor<f16>
    stablehlo.return %s : tensor<f16>
  }}) {{dimensions = array<i64: 0>}} : (tensor<6xf16>, tensor<f16>) -> tensor<f16>
  return %r : tensor<f16>
}}
"""
SCATTER = """mesh.cluster @m(rank = 1, dim_sizes = [2])
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x2xf32> attributes {{mesh_cluster = @m}} {{
  %r = "stablehlo.reduce_scatter"(%x) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    {dead}
    %s = stablehlo.add %a, %b : tensor<f32>
    %t = stablehlo.negate %s : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }}) {{scatter_dimension = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}} : (tensor<2x4xf32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}}
"""
DEAD = {
    "twice": "%d = stablehlo.multiply %a, %b : tensor<KIND>",
    "a chain": "%d = stablehlo.multiply %a, %b : tensor<KIND>\n    %e = stablehlo.tanh %d : tensor<KIND>",
    "an array": "%d = stablehlo.constant dense<0.0> : tensor<2x4xf32>",
}


@pytest.mark.parametrize("dead", DEAD.values(), ids=DEAD)
@pytest.mark.parametrize(("text", "kind"), [(REDUCE, "f16"), (SCATTER, "f32")], ids=["reduce", "reduce_scatter"])
def test_dead_ops_in_reduction_region_do_not_change_import(text: str, kind: str, dead: str) -> None:
    ops = [
        [(node.op, getattr(node.attrs, "kind", None)) for node in parse_text(text.format(dead=dead_op)).graph.nodes]
        for dead_op in ("", dead.replace("KIND", kind))
    ]
    assert ops[0] == ops[1]
