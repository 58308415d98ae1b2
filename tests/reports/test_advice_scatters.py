"""Advice to shard the user of a partial sum if this is profitable, with the figures of the compiled program."""

from __future__ import annotations

import meshgen as mg
from meshgen import api
from meshgen.notation import parse_sharding
from meshgen.reports.advice_scatters import scatters
from meshgen.reports.what_if import annotated_with

SUMMED = """sdy.mesh @mesh = <["tp"=4]>
func.func @main(%x: tensor<16384x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}, %w: tensor<2048x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}, %b: tensor<16384x2048xf32>) -> tensor<2048xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16384x2048xf32>, tensor<2048x2048xf32>) -> tensor<16384x2048xf32>
  %h = stablehlo.tanh %d : tensor<16384x2048xf32>
  %e = stablehlo.exponential %h : tensor<16384x2048xf32>
  %y = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [0] : (tensor<16384x2048xf32>, tensor<f32>) -> tensor<2048xf32>
  return %y : tensor<2048xf32>
}
"""


def test_advice_turns_all_reduce_into_reduce_scatter() -> None:
    executable = api.plan(SUMMED, target="cuda:sm_90")
    assert {*executable.comms.counts} == {"all_reduce"}
    best = next(advice_item for advice_item in mg.advise(executable) if advice_item.value == "h")
    assert best.change == "annotate %h as tp,_" and best.after["step_seconds"] < executable.cost.step_seconds
    after = api.plan(annotated_with(executable.stages["import"], {"h": parse_sharding(best.spec)}), target="cuda:sm_90")
    assert after.cost.step_seconds == best.after["step_seconds"] and "reduce_scatter" in after.comms.counts


def test_uneven_dims_are_not_advised_for_scatter() -> None:
    executable = api.plan(SUMMED.replace("16384x", "16383x"), target="cuda:sm_90")
    assert [change.text for change in scatters(executable, None)] == ["annotate %h as _,tp"]
    assert list(scatters(executable, [])) == []
