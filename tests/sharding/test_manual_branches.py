"""Branches with collectives in parts that are written per device: the devices of a group go the same way, groups may differ."""

from __future__ import annotations

import numpy as np
import pytest

import meshgen as mg
from meshgen.ir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.oracle import check

# On devices 0, 1 (row 0) and 2, 3 (row 1): sums over the row's devices in row WAY, twice the tile in the other.
TEXT = """
shard.grid @g(shape = 2x2) {axis_names = ["x", "y"]}
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@g, [{"x", "y"}]>] out_shardings=[<@g, [{"x", "y"}]>] manual_axes={"x", "y"} (%a: tensor<2xf32>) {
    %p = stablehlo.partition_id : tensor<ui32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %row = stablehlo.divide %p, %two : tensor<ui32>
    %way = stablehlo.constant dense<WAY> : tensor<ui32>
    %c = stablehlo.compare EQ, %row, %way : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %r = "stablehlo.if"(%c) ({
      %s = "stablehlo.all_reduce"(%a) ({
      ^bb0(%u: tensor<f32>, %v: tensor<f32>):
        %w = stablehlo.add %u, %v : tensor<f32>
        stablehlo.return %w : tensor<f32>
      }) {replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<2xf32>) -> tensor<2xf32>
      stablehlo.return %s : tensor<2xf32>
    }, {
      %t = stablehlo.add %a, %a : tensor<2xf32>
      stablehlo.return %t : tensor<2xf32>
    }) : (tensor<i1>) -> tensor<2xf32>
    sdy.return %r : tensor<2xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


@pytest.mark.parametrize("way", [0, 1])
def test_each_group_takes_its_own_branch(way: int) -> None:
    text = TEXT.replace("WAY", str(way))
    x = np.arange(8, dtype=np.float32)
    rows = x.reshape(2, 2, 2)
    expected = np.where(np.arange(2)[:, None, None] == way, rows.sum(1, keepdims=True), 2 * rows).reshape(8)
    module = parse_text(text)
    fused = run_stages(module, Options("cpu"), Timing(), "fuse")["fuse"]
    assert check(module, pipeline=lambda _: fused).ok
    np.testing.assert_array_equal(mg.compile(text, target="cpu")(x), expected)
