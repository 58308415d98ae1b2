"""Programs to explain, and a helper that runs a command and returns its JSON document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from meshgen.cli import main

CHAIN = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x8xf32> {
  %b = stablehlo.tanh %a : tensor<8x4xf32>
  %c = stablehlo.transpose %b, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %d = stablehlo.exponential %c : tensor<4x8xf32>
  return %d : tensor<4x8xf32>
}
"""


def document(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*map(str, words), "--target", "cpu", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


LOOP = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %w: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x4xf32> {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %k = stablehlo.constant dense<1> : tensor<i32>
  %l:2 = stablehlo.while(%i = %z, %u = %a) : tensor<i32>, tensor<8x4xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %k : tensor<i32>
      %v = stablehlo.dot_general %u, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      %s = stablehlo.tanh %v : tensor<8x4xf32>
      %t = stablehlo.tanh %v : tensor<8x4xf32>
      %o = stablehlo.add %s, %t : tensor<8x4xf32>
      stablehlo.return %j, %o : tensor<i32>, tensor<8x4xf32>
    }
  return %l#1 : tensor<8x4xf32>
}
"""
