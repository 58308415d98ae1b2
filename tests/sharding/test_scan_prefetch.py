"""Collectives of a scan that run a trip ahead: as many as before, the same numbers, and a shorter step."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen.api import plan
from meshgen.codegen.passes import loop_unroll
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check
from tests.cost_models import use
from tests.runtime.cuda.steps import arguments, assert_same_bits, on_gpus, planned

STATE = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
KEPT = '<@mesh, [{"x"}, {}]>'
# Fully sharded weights: each layer gathers its own. The states are stacked.
FSDP = f"""
module {{
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%x: tensor<64x32xf32> {STATE}, %w: tensor<5x32x32xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}, {{}}]>}}) -> (tensor<64x32xf32> {STATE}, tensor<5x64x32xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}, {{}}]>}}) {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %empty = stablehlo.constant dense<0.0> : tensor<5x64x32xf32>
    %r:3 = stablehlo.while(%i = %zero, %h = %x, %ys = %empty) : tensor<i32>, tensor<64x32xf32>, tensor<5x64x32xf32>
    cond {{
      %n = stablehlo.constant dense<5> : tensor<i32>
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %s = sdy.sharding_constraint %h {KEPT} : tensor<64x32xf32>
      %row = stablehlo.dynamic_slice WEIGHTS, %i, %zero, %zero, sizes = [1, 32, 32] : (tensor<5x32x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x32xf32>
      %layer = stablehlo.reshape %row : (tensor<1x32x32xf32>) -> tensor<32x32xf32>
      %y = stablehlo.dot_general %s, %layer, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
      %t = stablehlo.tanh %y : tensor<64x32xf32>
      %c = sdy.sharding_constraint %t {KEPT} : tensor<64x32xf32>
      %part = stablehlo.reshape %c : (tensor<64x32xf32>) -> tensor<1x64x32xf32>
      %ys2 = stablehlo.dynamic_update_slice %ys, %part, %i, %zero, %zero : (tensor<5x64x32xf32>, tensor<1x64x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x64x32xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %c, %ys2 : tensor<i32>, tensor<64x32xf32>, tensor<5x64x32xf32>
    }}
    func.return %r#1, %r#2 : tensor<64x32xf32>, tensor<5x64x32xf32>
  }}
}}
"""
LAYERS = FSDP.replace("WEIGHTS", "%w")


@pytest.fixture(autouse=True)
def _no_unrolling(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"fusion.unrolled_messages": 0}, loop_unroll)


def fused(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "fuse")["fuse"]


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "layers.mlir").write_text(LAYERS)
    return str(tmp_path / "layers.mlir")


def test_weights_are_gathered_during_the_trip_before(program: str) -> None:
    ahead, usual = plan(program), plan(program, skip=["scan-prefetch"])
    assert ahead.cost.step_seconds < usual.cost.step_seconds
    assert ahead.comms.counts == usual.comms.counts == {"all_gather": 5}
    assert ahead.comms.ring_bytes == usual.comms.ring_bytes
    first, most, last = [item for item in ahead.plan.items if item.communicates or item.regions]
    assert (first.op, most.times, last.times) == ("all_gather", 4, 1)
    (body,) = most.regions
    (gather,) = [n for n, item in enumerate(body.items) if item.op == "all_gather"]
    (dot,) = [n for n, item in enumerate(body.items) if "dot" in item.kernel]
    assert body.items[gather].start == body.items[dot].start == 0
    assert not last.communicates and set(ahead.plan.kernels) <= set(usual.plan.kernels)


def test_it_computes_the_same(program: str, tmp_path: Path) -> None:
    assert check(parse_text(LAYERS), pipeline=fused).ok
    module = planned(LAYERS, tmp_path)
    given = arguments(module)
    for seed in range(3):
        assert_same_bits(on_gpus(module, given, seed), module.run(given))
    (tmp_path / "usual").mkdir()
    assert_same_bits(planned(LAYERS, tmp_path / "usual", skip=["scan-prefetch"]).run(given), module.run(given))


def test_what_needs_the_state_stays(tmp_path: Path) -> None:
    text = (
        FSDP.replace("WEIGHTS", "%late")
        .replace(
            "%row = ",
            """%sum = stablehlo.reduce(%s init: %nil) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x32xf32>, tensor<f32>) -> tensor<f32>
      %all = stablehlo.broadcast_in_dim %sum, dims = [] : (tensor<f32>) -> tensor<5x32x32xf32>
      %late = stablehlo.multiply %w, %all : tensor<5x32x32xf32>
      %row = """,
        )
        .replace("%one =", "%nil = stablehlo.constant dense<0.0> : tensor<f32>\n      %one =")
    )
    (tmp_path / "late.mlir").write_text(text)
    assert not plan(tmp_path / "late.mlir").passes["scan-prefetch"].fired
