"""Branches with collectives in per-device code: each device gets the results of the branch that it chooses."""

from __future__ import annotations

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import RuntimeFailure
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.runtime.simulate import simulate
from meshgen.testing.oracle import check

# The devices of mesh row WAY (0, 1 or 2, 3) take a branch that sums over the row. The other two double their tile.
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
def test_device_groups_can_take_different_branches(way: int) -> None:
    text = TEXT.replace("WAY", str(way))
    x = np.arange(8, dtype=np.float32)
    rows = x.reshape(2, 2, 2)
    expected = np.where(np.arange(2)[:, None, None] == way, rows.sum(1, keepdims=True), 2 * rows).reshape(8)
    module = parse_text(text)
    fused = run_stages(module, Options("cpu"), Timing(), "fuse")["fuse"]
    assert check(module, pipeline=lambda _: fused).ok
    np.testing.assert_array_equal(mg.compile(text, target="cpu")(x), expected)


@pytest.mark.parametrize("stage", ["partition", "fuse"])
@pytest.mark.parametrize("number", ["%p", "%row"])
def test_devices_of_one_group_can_take_different_branches(stage: str, number: str) -> None:
    """Check devices that choose a branch by device index or by mesh row.

    A device gets the result that it would get if all devices took its branch.
    """
    text = TEXT.replace("EQ, %row", f"EQ, {number}").replace("WAY", "1")
    x = np.arange(8, dtype=np.float32)
    tiles = x.reshape(2, 2, 2)
    takes = np.arange(4).reshape(2, 2, 1) == 1 if number == "%p" else np.arange(2)[:, None, None] == 1
    expected = np.where(takes, tiles.sum(1, keepdims=True), 2 * tiles).reshape(8)
    module = parse_text(text)
    local = run_stages(module, Options("cpu"), Timing(), stage)[stage]
    assert check(module, pipeline=lambda _: local).ok
    np.testing.assert_array_equal(simulate(local, [x])[0], expected)
    if stage == "partition":  # The local program can also be compiled from its text, with the same results.
        entered = parse_text(print_text(local))
        fused = run_stages(entered, Options("cpu"), Timing(), "fuse")["fuse"]
        assert check(entered, pipeline=lambda _: fused, args=[x]).ok


def test_loop_trip_count_can_differ_between_devices() -> None:
    """Row r adds its row sum r + 1 times. The sum is loop-invariant, so it is hoisted."""
    start, end = TEXT.index("    %way ="), TEXT.index("    sdy.return %r")
    reduction = TEXT[TEXT.index('"stablehlo.all_reduce"') : TEXT.index("      stablehlo.return %s")]
    loop = f"""    %zero = stablehlo.constant dense<0> : tensor<ui32>
    %one = stablehlo.constant dense<1> : tensor<ui32>
    %l:2 = stablehlo.while(%i = %zero, %d = %a) : tensor<ui32>, tensor<2xf32> cond {{
      %go = stablehlo.compare LE, %i, %row : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    }} do {{
      %s = {reduction}
      %n = stablehlo.add %d, %s : tensor<2xf32>
      %j = stablehlo.add %i, %one : tensor<ui32>
      stablehlo.return %j, %n : tensor<ui32>, tensor<2xf32>
    }}
    %r = stablehlo.add %l#1, %a : tensor<2xf32>
"""
    module = parse_text(TEXT[:start] + loop + TEXT[end:])
    x = np.arange(8, dtype=np.float32)
    tiles = x.reshape(2, 2, 2)
    expected = 2 * tiles + np.array([1, 2])[:, None, None] * tiles.sum(1, keepdims=True)
    fused = run_stages(module, Options("cpu"), Timing(), "fuse")["fuse"]
    assert check(module, pipeline=lambda _: fused).ok
    np.testing.assert_array_equal(simulate(fused, [x])[0], expected.reshape(8))


def test_branch_with_unbounded_loop_is_not_speculated() -> None:
    """Only branches that terminate are speculated; this one contains an unbounded loop."""
    body = "%w = stablehlo.add %u, %v : tensor<f32>"
    text = TEXT.replace("EQ, %row", "EQ, %p").replace("WAY", "1").replace("%t = stablehlo.add %a, %a : tensor<2xf32>", """%one = stablehlo.constant dense<1.0> : tensor<2xf32>
      %t = stablehlo.while(%i = %a) : tensor<2xf32> cond {
        %e = stablehlo.slice %i [0:1] : (tensor<2xf32>) -> tensor<1xf32>
        %f = stablehlo.reshape %e : (tensor<1xf32>) -> tensor<f32>
        %ten = stablehlo.constant dense<10.0> : tensor<f32>
        %g = stablehlo.compare LT, %f, %ten : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %g : tensor<i1>
      } do {
        %h = stablehlo.add %i, %one : tensor<2xf32>
        stablehlo.return %h : tensor<2xf32>
      }""")  # fmt: skip
    assert body in text
    local = run_stages(parse_text(text), Options("cpu"), Timing(), "partition")["partition"]
    with pytest.raises(RuntimeFailure, match=r"MG0604.*choose differently"):
        simulate(local, [np.arange(8, dtype=np.float32)])


def test_speculated_branches_are_reported_as_warning() -> None:
    (warning,) = mg.compile(TEXT.replace("WAY", "1"), target="cpu").warnings
    assert warning.code == "MG0403" and warning.loc and "each device selects the results of its own" in warning.message
    assert (
        "may choose differently"
        not in mg.compile(
            TEXT.replace("%p = stablehlo.partition_id", "%p = stablehlo.constant dense<1>").replace("WAY", "1"),
            target="cpu",
        )
        .warnings[0]
        .message
    )
