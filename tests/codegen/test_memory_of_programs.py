"""Tests of complete programs whose values share memory, in ways that random tests found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen import api
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate

# A separate kernel computes a value that is read only through a view.
SORTED = """
func.func @main(%x: tensor<1xi32>, %n: tensor<i32>) -> tensor<1xi32> {
  %a, %b = "stablehlo.sort"(%x, %x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %less = stablehlo.compare LT, %l, %r : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<1xi32>, tensor<1xi32>) -> (tensor<1xi32>, tensor<1xi32>)
  %y = "stablehlo.reduce_window"(%a, %n) <{window_dimensions = array<i64: 1>}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %sum = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %sum : tensor<i32>
  }) : (tensor<1xi32>, tensor<i32>) -> tensor<1xi32>
  return %y : tensor<1xi32>
}"""
# The operands of a loop body are outside of the body's arena, so equal offsets do not mean that they share bytes.
LOOP = """
func.func @main(%x: tensor<2x5xf32>, %n: tensor<i32>) -> tensor<2x5xf32> {
  %low = stablehlo.constant dense<-9.0> : tensor<f32>
  %i, %y = stablehlo.while(%k = %n, %v = %x) : tensor<i32>, tensor<2x5xf32>
    cond {
      %last = stablehlo.constant dense<4> : tensor<i32>
      %more = stablehlo.compare LT, %k, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %k, %one : tensor<i32>
      %most = stablehlo.reduce(%v init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
      %wide = stablehlo.broadcast_in_dim %most, dims = [0] : (tensor<2xf32>) -> tensor<2x5xf32>
      %less = stablehlo.subtract %v, %wide : tensor<2x5xf32>
      %abs = stablehlo.abs %less : tensor<2x5xf32>
      %sum = stablehlo.reduce(%abs init: %low) applies stablehlo.add across dimensions = [0] : (tensor<2x5xf32>, tensor<f32>) -> tensor<5xf32>
      %flat = stablehlo.broadcast_in_dim %sum, dims = [1] : (tensor<5xf32>) -> tensor<2x5xf32>
      %part = stablehlo.divide %less, %flat : tensor<2x5xf32>
      %new = stablehlo.multiply %part, %x : tensor<2x5xf32>
      stablehlo.return %next, %new : tensor<i32>, tensor<2x5xf32>
    }
  return %y : tensor<2x5xf32>
}"""


@pytest.mark.parametrize("text", [SORTED, LOOP], ids=["sorted", "loop"])
def test_program_with_shared_memory_matches_reference(text: str, tmp_path: Path) -> None:
    graph = parse_text(text).graph
    rng = np.random.default_rng(0)
    args = [rng.uniform(1, 3, value.type.sizes).astype(value.type.numpy_dtype) for value in graph.inputs]
    api.plan(text, {"x": 1}, target="cpu").save(tmp_path / "m.mgx")
    results = mg.load(tmp_path / "m.mgx").run(args)
    for got, want in zip(results, evaluate(graph, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
