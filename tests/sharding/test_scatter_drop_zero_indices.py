"""The pass `scatter-drop-zero-indices`: full-size windows are tied to their dim only if their index is provably zero."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.registry import rule_of
from meshgen.ops.types.inference import verify_graph
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import analyze
from meshgen.sharding.rewrites.scatter_drop_zero_indices import scatter_drop_zero_indices
from meshgen.testing.oracle import check

HEADS = '{sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>}'
CLAMPED = """
    %zeros = stablehlo.constant dense<0> : tensor<3x2xi32>
    %at = stablehlo.concatenate %row, %zeros, dim = 1 : (tensor<3x1xi32>, tensor<3x2xi32>) -> tensor<3x3xi32>
    %last = stablehlo.constant dense<[15, 0, 0]> : tensor<3xi32>
    %most = stablehlo.broadcast_in_dim %last, dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
    %none = stablehlo.constant dense<0> : tensor<i32>
    %safe = stablehlo.clamp %none, %at, %most : (tensor<i32>, tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>"""
ZEROS = """
    %none = stablehlo.constant dense<0> : tensor<3x1xi32>
    %safe = stablehlo.concatenate %row, %none, %none, dim = 1
      : (tensor<3x1xi32>, tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x3xi32>"""
CAST = """
    %wide = stablehlo.convert %row : (tensor<3x1xi32>) -> tensor<3x1xi64>
    %big = stablehlo.constant dense<[[0], [0], [0]]> : tensor<3x1xi64>
    %least = stablehlo.minimum %big, %big : tensor<3x1xi64>
    %both = stablehlo.concatenate %wide, %least, dim = 1 : (tensor<3x1xi64>, tensor<3x1xi64>) -> tensor<3x2xi64>
    %safe = stablehlo.concatenate %both, %least, dim = 1 : (tensor<3x2xi64>, tensor<3x1xi64>) -> tensor<3x3xi64>"""
UNKNOWN = """
    %safe = stablehlo.concatenate %row, %row, %row, dim = 1
      : (tensor<3x1xi32>, tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x3xi32>"""


def program(index_lines: str, region: str = "stablehlo.add %a, %b : tensor<f32>") -> Module:
    """Return a scatter of rows into a cache, over all heads and features, at the indices that `index_lines` computes from
    `%row`.
    """
    kind = "i64" if "i64" in index_lines else "i32"
    return parse_text(f"""
module {{
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%cache: tensor<16x8x4xf32> {HEADS.replace('{}, {}, {"x"}', '{}, {"x"}, {}')}, %row: tensor<3x1xi32>,
      %new: tensor<3x1x8x4xf32>) -> tensor<16x8x4xf32> {{{index_lines}
    %y = "stablehlo.scatter"(%cache, %safe, %new) <{{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [1, 2, 3], scatter_dims_to_operand_dims = [0, 1, 2], index_vector_dim = 1>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = {region}
      stablehlo.return %c : tensor<f32>
    }}) : (tensor<16x8x4xf32>, tensor<3x3x{kind}>, tensor<3x1x8x4xf32>) -> tensor<16x8x4xf32>
    return %y : tensor<16x8x4xf32>
  }}
}}
""")


def partitioned(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "partition")["partition"]


def collectives(module: Module) -> list[str]:
    return [collective.kind for collective in analyze(partitioned(module)).collectives]


@pytest.mark.parametrize("index_lines", [CLAMPED, ZEROS, CAST])
def test_scatter_of_full_heads_at_zero_index_is_local(index_lines: str) -> None:
    module = program(index_lines)
    assert collectives(module) == []
    assert check(module, pipeline=partitioned).ok


def test_zero_scatter_index_is_dropped_with_same_result() -> None:
    module = program(CLAMPED)
    graph = scatter_drop_zero_indices.rewrite(module.graph)
    assert graph is not None
    assert not verify_graph(graph)
    (scatter,) = (node for node in graph.nodes if node.op == "scatter")
    assert scatter.attrs.scatter_dims_to_operand_dims == (0,)
    assert scatter.operands[1].type.sizes == (3, 1)
    rng = np.random.default_rng(0)
    args = [rng.normal(size=(16, 8, 4)), np.array([[-2], [5], [40]]), rng.normal(size=(3, 1, 8, 4))]
    typed_args = [arg.astype(value.type.numpy_dtype) for arg, value in zip(args, graph.inputs, strict=True)]
    for old, new in zip(evaluate(module.graph, typed_args), evaluate(graph, typed_args), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("region", ["stablehlo.add %a, %b : tensor<f32>", "stablehlo.subtract %a, %b : tensor<f32>"])
def test_scatter_at_unknown_index_is_not_local(region: str) -> None:
    """Updates from head 3 on belong to another device, and some are out of bounds."""
    module = program(UNKNOWN, region)
    assert scatter_drop_zero_indices.rewrite(module.graph) is None
    assert collectives(module) != []
    assert check(module, pipeline=partitioned).ok


def test_scatter_evaluates_fortran_ordered_operand() -> None:
    """Check a NumPy operand whose elements are in column-major order."""
    graph = program(UNKNOWN, "stablehlo.minimum %a, %b : tensor<f32>").graph
    cache = np.asfortranarray(np.ones((16, 8, 4), np.float32))
    (result,) = evaluate(graph, [cache, np.zeros((3, 1), np.int32), np.full((3, 1, 8, 4), -1, np.float32)])
    assert (result[0] == -1).all() and (result[1:] == 1).all()


def test_scatter_with_sharding_option_is_unchanged() -> None:
    module = program(CLAMPED)
    (scatter,) = (node for node in module.graph.nodes if node.op == "scatter")
    scatter.option = ((),) * len(rule_of(scatter).factors)
    assert scatter_drop_zero_indices.rewrite(module.graph) is None
    assert check(module, pipeline=partitioned).ok


def test_scatter_without_index_dims_is_unchanged() -> None:
    """For `jnp.polyadd` of equal shapes, JAX emits a scatter whose window is the entire array and whose index is empty."""
    module = parse_text("""
func.func @main(%a: tensor<4x6xf32>, %b: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %c = stablehlo.constant dense<> : tensor<0xi32>
  %y = "stablehlo.scatter"(%a, %c, %b) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1]>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<0xi32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}""")
    assert scatter_drop_zero_indices.rewrite(module.graph) is None
    one, other = (np.random.default_rng(seed).standard_normal((4, 6)).astype(np.float32) for seed in (0, 1))
    np.testing.assert_array_equal(evaluate(module.graph, [one, other])[0], one + other)
