"""The cost function of propagation: redundant arithmetic, and latencies that dominate short steps."""

from __future__ import annotations

import pytest

from meshgen.compilation import Compilation
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.analyze import Volume, analyze
from meshgen.sharding.arithmetic import work_of
from meshgen.sharding.propagate import Propagation, decisions_of, solve
from meshgen.sharding.propagation import axes, eliminate
from meshgen.sharding.propagation.chains import Reasons
from meshgen.testing.oracle import check
from meshgen.testing.random_graphs import random_program
from tests.cost_models import use

DOTS = "contracting_dims = [{}] x [0]"


def layer_and_large_matmul(rows: int, columns: int) -> str:
    """Return a layer with weights sharded over tp, followed by a large matmul that no annotation reaches along tp."""
    x, w, v, h = f"{rows}x512xf32", "512x1024xf32", "1024x512xf32", f"512x{columns}xf32"
    return f"""sdy.mesh @m = <["dp"=2, "tp"=4]>
func.func @main(%x: tensor<{x}> {{sdy.sharding = #sdy.sharding<@m, [{{"dp"}}, {{}}]>}},
    %w: tensor<{w}> {{sdy.sharding = #sdy.sharding<@m, [{{}}, {{"tp"}}]>}},
    %v: tensor<{v}> {{sdy.sharding = #sdy.sharding<@m, [{{"tp"}}, {{}}]>}},
    %h: tensor<{h}> {{sdy.sharding = #sdy.sharding<@m, [{{}}, {{}}]>}}) -> tensor<{rows}x{columns}xf32> {{
  %0 = stablehlo.dot_general %x, %w, {DOTS.format(1)} : (tensor<{x}>, tensor<{w}>) -> tensor<{rows}x1024xf32>
  %1 = stablehlo.tanh %0 : tensor<{rows}x1024xf32>
  %2 = stablehlo.dot_general %1, %v, {DOTS.format(1)} : (tensor<{rows}x1024xf32>, tensor<{v}>) -> tensor<{x}>
  %3 = stablehlo.dot_general %2, %h, {DOTS.format(1)} : (tensor<{x}>, tensor<{h}>) -> tensor<{rows}x{columns}xf32>
  return %3 : tensor<{rows}x{columns}xf32>
}}
"""


def loop(columns: int, trips: int) -> str:
    """Return a loop that sums the rows of a sharded tensor in every iteration."""
    x = f"16x{columns}xf32"
    split = '{sdy.sharding = #sdy.sharding<@m, [{"a"}, {}]>}'
    return f"""sdy.mesh @m = <["a"=4]>
func.func @main(%x: tensor<{x}> {split}) -> (tensor<{x}> {split}) {{
  %n = stablehlo.constant dense<0> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %n, %y = %x) : tensor<i32>, tensor<{x}>
    cond {{
      %m = stablehlo.constant dense<{trips}> : tensor<i32>
      %p = stablehlo.compare LT, %i, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<{x}>, tensor<f32>) -> tensor<{columns}xf32>
      %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<{columns}xf32>) -> tensor<{x}>
      %t = stablehlo.tanh %b : tensor<{x}>
      %z = stablehlo.add %t, %y : tensor<{x}>
      stablehlo.return %j, %z : tensor<i32>, tensor<{x}>
    }}
  return %r#1 : tensor<{x}>
}}
"""


def propagation(text: str) -> Propagation | None:
    context = Compilation()
    stages_by_name = run_stages(parse_text(text), Options(), Timing(), "propagate", context=context)
    return decisions_of(stages_by_name["propagate"], context.decisions)


def stages(text: str) -> dict[str, Module]:
    return run_stages(parse_text(text), Options(), Timing(), "partition")


def partitioned(module: Module) -> Module:
    return run_stages(module, Options(), Timing(), "partition")["partition"]


def redundant_share(text: str) -> float:
    """Return the fraction of a device's arithmetic that another device also does."""
    module = stages(text)["optimize"]
    work = work_of(module.graph, module.mesh, {})
    return sum(item.redundant for item in work) / sum(item.flops for item in work)


def volume(text: str) -> Volume:
    return analyze(stages(text)["partition"])


def test_large_matmul_is_sharded_without_annotation() -> None:
    assert redundant_share(layer_and_large_matmul(4096, 32768)) < 0.01


def test_matmul_sharded_without_annotation_is_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    text = layer_and_large_matmul(64, 2048)
    assert redundant_share(text) > 0.1
    use(monkeypatch, {"search.repeated_seconds": 0.0}, axes)
    assert redundant_share(text) < 0.01
    assert check(parse_text(text), pipeline=partitioned).ok


def scatter_add_program(updates: int) -> str:
    """Return a scatter-add of sharded edges into nodes. Sharding the columns instead would replicate all edges."""
    x, e, i = "1024x128xf32", f"{updates}x128xf32", f"{updates}x1xi32"
    return f"""sdy.mesh @m = <["a"=8]>
func.func @main(%x: tensor<{x}>, %i: tensor<{i}> {{sdy.sharding = #sdy.sharding<@m, [{{"a"}}, {{}}]>}},
    %e: tensor<{e}> {{sdy.sharding = #sdy.sharding<@m, [{{}}, {{"a"}}]>}}) -> tensor<{x}> {{
  %s = "stablehlo.scatter"(%x, %i, %e) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %t = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %t : tensor<f32>
  }}) : (tensor<{x}>, tensor<{i}>, tensor<{e}>) -> tensor<{x}>
  return %s : tensor<{x}>
}}
"""


@pytest.mark.parametrize(("updates", "kinds"), [(4096, {"all_gather"}), (131072, {"all_to_all", "reduce_scatter"})])
def test_scatter_of_many_updates_is_not_sharded_by_columns(updates: int, kinds: set[str]) -> None:
    """Sharding by columns would make every device rank all updates, with n^2 comparisons."""
    assert {
        collective.kind for collective in volume(scatter_add_program(updates)).collectives if collective.ring_bytes
    } == kinds


def test_axis_without_annotation_is_not_used() -> None:
    text = layer_and_large_matmul(4096, 32768).replace('"tp"}', "}")
    solved = propagation(text)
    assert solved is not None
    assert all(label.factor is None for label in solved.solved.labels["tp"])


def test_reason_of_sharded_matmul_names_its_work() -> None:
    decisions = propagation(layer_and_large_matmul(4096, 32768))
    assert decisions is not None
    last = decisions.solved.module.graph.outputs[0]
    assert [chain.annotation for chain in Reasons(decisions.solved).chains(last) if chain.axis == "tp"] == [
        "the work of 'dot_general' (-:9)"
    ]


@pytest.mark.parametrize("seed", [2, 12])
def test_unproven_solution_reports_optimality_gap(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not list(solve(random_program(seed)).gaps())
    use(monkeypatch, {"search.narrow_cells": 1, "search.table_cells": 2}, eliminate)
    gaps = list(solve(random_program(seed)).gaps())
    assert gaps and all(0 <= gap.least_seconds <= gap.seconds and "above the best" in str(gap) for gap in gaps)


@pytest.mark.parametrize("trips, kind", [(4, "all_reduce"), (64, "all_gather")])
def test_latency_determines_collective_of_small_loop(trips: int, kind: str) -> None:
    """Check the choice between one small all_reduce per iteration and one gather of all rows before the loop."""
    assert set(volume(loop(64, trips)).counts) == {kind}
    assert check(parse_text(loop(64, trips)), pipeline=partitioned).ok


def test_bytes_determine_collective_of_large_loop() -> None:
    assert set(volume(loop(1 << 22, 64)).counts) == {"all_reduce"}
