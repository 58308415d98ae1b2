"""The cause of a collective as a plain sentence, one form per kind of collective."""

from __future__ import annotations

import pytest

from meshgen import api
from meshgen.reports.causes import groups_of
from tests.reports.models import layers

GATHER = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<32x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<64x16xf32> {
  %b = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  return %b : tensor<64x16xf32>
}
"""
EXCHANGE = """sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %b = stablehlo.tanh %a : tensor<64x64xf32>
  return %b : tensor<64x64xf32>
}
"""
MAXIMUM = """sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<64xf32> {
  %z = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %b = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  %c = stablehlo.tanh %b : tensor<64xf32>
  return %c : tensor<64xf32>
}
"""
SCATTERED = (
    MAXIMUM.replace("-> tensor<64xf32> {", '-> (tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {', 1)
    .replace("maximum", "add")
    .replace("0xFF800000", "0.0")
)


@pytest.mark.parametrize(
    ("program", "parts"),
    [
        (GATHER, ["you split argument `w` over x; dot_general", "needs all of it, because its own work is split over x (you annotated `a`)"]),
        (EXCHANGE, ["over x", "needs it split along another dim (dim 1 over x)"]),
        (MAXIMUM, ["you split dim 0 of `a` over x and reduce", "takes the maximum over it, so each device has a partial maximum"]),
        (SCATTERED, ["so each device has a partial sum", "needs its own part of it (dim 0 over x)"]),
    ],
    ids=["all_gather", "all_to_all", "maximum", "reduce_scatter"],
)  # fmt: skip
def test_cause_sentence_for_each_collective_kind(program: str, parts: list[str]) -> None:
    (group,) = groups_of(api.plan(program, target="cpu"))
    assert all(part in group.sentence for part in parts), group.sentence


def test_cause_of_explicit_collective_is_its_recorded_reason() -> None:
    text = api.plan(layers(1), target="cpu").as_text("optimize")
    (group,) = groups_of(api.plan(text, target="cpu"))
    assert group.kind == "all_reduce" and group.sentence and "you split" not in group.sentence
