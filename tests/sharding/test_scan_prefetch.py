"""Collectives of a scan that run one iteration ahead: equally many, equal results, and a shorter step."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest

import meshgen as mg
from meshgen.api import plan, plan_module
from meshgen.codegen.passes import loop_unroll
from meshgen.codegen.planner import Planner
from meshgen.compilation import Compilation
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding import scan_prefetch as prefetching
from meshgen.sharding.scan_prefetch import scan_prefetch
from meshgen.testing.oracle import check
from tests.cost_models import use
from tests.runtime.cuda.steps import arguments, assert_same_bits, on_gpus, planned

STATE = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
ROWS_SHARDING = '<@mesh, [{"x"}, {}]>'
# Fully sharded weights that each layer gathers. The states are stacked.
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
      %s = sdy.sharding_constraint %h {ROWS_SHARDING} : tensor<64x32xf32>
      %row = stablehlo.dynamic_slice WEIGHTS, %i, %zero, %zero, sizes = [1, 32, 32] : (tensor<5x32x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x32xf32>
      %layer = stablehlo.reshape %row : (tensor<1x32x32xf32>) -> tensor<32x32xf32>
      %y = stablehlo.dot_general %s, %layer, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
      %t = stablehlo.tanh %y : tensor<64x32xf32>
      %c = sdy.sharding_constraint %t {ROWS_SHARDING} : tensor<64x32xf32>
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


def test_scan_gathers_weights_one_iteration_ahead(program: str) -> None:
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


def test_scan_with_prefetch_computes_same_bits(program: str, tmp_path: Path) -> None:
    assert check(parse_text(LAYERS), pipeline=fused).ok
    module = planned(LAYERS, tmp_path)
    inputs = arguments(module)
    for seed in range(3):
        assert_same_bits(on_gpus(module, inputs, seed), module.run(inputs))
    (tmp_path / "usual").mkdir()
    assert_same_bits(planned(LAYERS, tmp_path / "usual", skip=["scan-prefetch"]).run(inputs), module.run(inputs))


def test_gather_that_depends_on_state_is_not_prefetched(tmp_path: Path) -> None:
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


def training() -> tuple[Any, dict[str, Any]]:
    """Return a gradient descent step on fully sharded layers, with a forward and a backward scan."""
    jax = pytest.importorskip("jax")
    rows = jax.sharding.NamedSharding(jax.sharding.AbstractMesh((4,), ("x",)), jax.sharding.PartitionSpec("x"))

    def layer(x: Any, weights: Any) -> Any:
        # constrained, so that they are not gathered before the loop
        up, down = (jax.lax.with_sharding_constraint(weight, rows) for weight in weights)
        return x + jax.numpy.tanh(x @ up) @ down, None

    def loss(weights: Any, x: Any) -> Any:
        return (jax.lax.scan(jax.checkpoint(layer), x, weights)[0] ** 2).sum()

    def step(weights: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)], value

    options = {"mesh": {"x": 4}, "in_specs": {"weights*": mg.P(None, "x"), "x": mg.P("x")}}
    return jax.jit(step), options


def trained(width: int, inner: int, rows: int) -> Module:
    function, options = training()
    args = ([mg.spec(f"f32[6,{width},{inner}]"), mg.spec(f"f32[6,{inner},{width}]")], mg.spec(f"f32[{rows},{width}]"))
    return mg.lower(function, stage="import", args=args, **options)


def scans_of(executable: mg.Executable) -> list[int]:
    """Return the trip count of each scan of a step."""
    return [item.times for item in executable.plan.items if item.op == "scan"]


def test_forward_and_backward_scans_prefetch_weights() -> None:
    module = trained(512, 2048, 16384)
    ahead, usual = (plan_module(module, Options("cpu", skip=skip), Timing()) for skip in ((), ("scan-prefetch",)))
    assert ahead.passes["scan-prefetch"].kept == 1
    assert ahead.cost.step_seconds < 0.95 * usual.cost.step_seconds
    assert ahead.comms.counts == usual.comms.counts and ahead.comms.ring_bytes == usual.comms.ring_bytes
    assert scans_of(ahead) == [5, 1, 5, 1], "the last trips of the forward and of the backward scan are apart"


def test_training_scans_with_prefetch_are_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = itertools.count()
    monkeypatch.setattr(prefetching, "_step_seconds", lambda *_: -next(counter))

    def ahead(module: Module) -> Module:
        local = run_stages(module, Options("cpu", skip=("scan-prefetch",)), Timing(), "partition")["partition"]
        candidate = Planner("cuda:sm_90", None, Compilation()).candidate(scan_prefetch(local)).module
        assert [node.attrs.trips for node in candidate.graph.nodes if node.op == "scan"] == [5, 1, 5, 1]
        return candidate

    assert check(trained(16, 32, 64), pipeline=ahead).ok


def test_prefetch_is_applied_only_to_scans_that_get_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, step_times = prefetching._step_seconds, list[float]()

    def first_gets_longer(module: Module, planner: Planner) -> float:
        step_times.append(usual(module, planner))
        return step_times[-1] if len(step_times) > 1 else math.inf

    monkeypatch.setattr(prefetching, "_step_seconds", first_gets_longer)
    assert scans_of(plan_module(trained(512, 2048, 16384), Options("cpu"), Timing())) == [6, 5, 1]
