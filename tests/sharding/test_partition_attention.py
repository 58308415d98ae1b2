"""Partition of attention ops: sharded rows, heads and batch (also uneven), with global positions."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen import api
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check

TEXT = """module @attention {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%q: tensor<3x5x2x4xf32> {SPLIT}, %k: tensor<3x7x2x4xf32>, %v: tensor<3x7x2x6xf32>, %bias: tensor<2x5x7xf32>) -> tensor<3x5x2x6xf32> {
    %o, %l = "sched.attention"(%q, %k, %v, %bias) <{factors = "b t h d, b s h d, b s h e, h t s -> b t h e, b h t", positions = ["t", "s"], zero_empty = false}> ({
    ^bb0(%score: tensor<f32>, %b: tensor<f32>, %t: tensor<i32>, %s: tensor<i32>):
      %c = stablehlo.compare GE, %t, %s : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %n = stablehlo.constant dense<-1.0e30> : tensor<f32>
      %a = stablehlo.add %score, %b : tensor<f32>
      %m = stablehlo.select %c, %a, %n : tensor<i1>, tensor<f32>
      stablehlo.return %m : tensor<f32>
    }, {
    ^bb0(%p: tensor<f32>, %b: tensor<f32>, %t: tensor<i32>, %s: tensor<i32>):
      stablehlo.return %p : tensor<f32>
    }) : (tensor<3x5x2x4xf32>, tensor<3x7x2x4xf32>, tensor<3x7x2x6xf32>, tensor<2x5x7xf32>) -> (tensor<3x5x2x6xf32>, tensor<3x2x5xf32>)
    return %o : tensor<3x5x2x6xf32>
  }
}
"""


def program(*dims: str) -> str:
    """Return the program with the queries sharded: `dims` names the mesh axes of each dim."""
    listed = ", ".join("{" + ", ".join(f'"{axis}"' for axis in axes) + "}" for axes in dims)
    return TEXT.replace("{SPLIT}", f"{{sdy.sharding = #sdy.sharding<@mesh, [{listed}]>}}")


SPLITS = (("", "x", "y", ""), ("x", "y", "", ""), ("", "xy", "", ""), ("", "", "x", "y"))


@pytest.mark.parametrize("dims", SPLITS)
def test_attention_with_sharded_rows_and_heads_is_correct(dims: tuple[str, ...]) -> None:
    module = parse_text(program(*dims))
    stages = run_stages(module, Options("cpu"), Timing(), "fuse")
    result = check(module, pipeline=lambda _: stages["fuse"])
    assert result.ok, result.faults
    rows = [node.results[0].type.sizes for node in stages["partition"].graph.nodes if node.op == "attention"]
    parts = [np.prod([2.0 for _ in axes]) for axes in dims]
    assert rows == [tuple(-(-size // int(n)) for size, n in zip((3, 5, 2, 6), (*parts[:3], 1), strict=True))]
    for stage in ("import", "propagate", "materialize", "optimize", "partition", "fuse"):
        text = print_text(stages[stage])
        assert "sched.attention" in text and print_text(parse_text(text)) == text


def test_attention_composite_is_compiled_into_one_kernel() -> None:
    executable = api.plan(program("", "x", "y", ""))
    assert not executable.passes["expand-composites"].kept
    assert [node.op for body in executable.plan.kernels.values() for node in body.nodes if node.regions] == [
        "attention"
    ]
