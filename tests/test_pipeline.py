"""The verifier runs between stages. If a pass breaks a graph, the message names the pass and the value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from meshgen import compilation, pipeline
from meshgen.compilation import Compilation, Pass
from meshgen.errors import UsageError
from meshgen.ir.graph import Graph, Module
from meshgen.mlir.text import parse_text
from meshgen.passes import PASSES
from meshgen.pipeline import STAGES, Options, Timing, run_pass, run_stages
from meshgen.sharding import optimize

TEXT = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %b = stablehlo.tanh %a : tensor<4x6xf32>
  %c = "stablehlo.sort"(%b) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %l = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %l : tensor<i1>
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %d = stablehlo.negate %c : tensor<4x6xf32>
  return %d : tensor<4x6xf32>
}"""
Break = Callable[[Graph], Graph]


def _without_first(graph: Graph) -> Graph:
    """Return the graph without its first node, whose result is still used."""
    return Graph(graph.name, graph.inputs, graph.nodes[1:], graph.outputs)


def _backwards(graph: Graph) -> Graph:
    return Graph(graph.name, graph.inputs, graph.nodes[::-1], graph.outputs)


def _twice(graph: Graph) -> Graph:
    return Graph(graph.name, graph.inputs, [*graph.nodes, graph.nodes[-1]], graph.outputs)


BREAKS: dict[str, tuple[Break, str]] = {
    "dropped": (_without_first, "which is not defined before it"),
    "backwards": (_backwards, "which is not defined before it"),
    "twice": (_twice, "is defined twice"),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("damage_name", BREAKS)
def test_verifier_names_the_stage_that_breaks_a_graph(
    stage: str, damage_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, words = BREAKS[damage_name]
    original = STAGES[stage]

    def broken(module: Module, context: Compilation) -> Module:
        result = original(module, context)
        return replace(result, graph=damage(result.graph))

    monkeypatch.setattr(pipeline, "STAGES", {**STAGES, stage: broken})
    with pytest.raises(AssertionError, match=rf"^{stage} made a malformed program: .*{words}"):
        run_stages(parse_text(TEXT), Options("cpu"), Timing(), "schedule")


@pytest.mark.parametrize("damage_name", BREAKS)
def test_verifier_refuses_a_malformed_input_program(damage_name: str) -> None:
    module = parse_text(TEXT)
    damage, words = BREAKS[damage_name]
    with pytest.raises(AssertionError, match=rf"^import made a malformed program: .*{words}"):
        run_stages(replace(module, graph=damage(module.graph)), Options("cpu"), Timing(), "propagate")


def test_verifier_names_the_optimization_that_breaks_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(module: Module, context: Compilation) -> Module:
        return replace(module, graph=_without_first(module.graph))

    monkeypatch.setattr(optimize, "PASSES", (Pass("careless", careless, ("materialize",), "unless more expensive"),))
    with pytest.raises(AssertionError, match=r"^careless made a malformed program: .*reads %b : f32\[4,6\]"):
        run_stages(parse_text(TEXT), Options("cpu"), Timing(), "optimize")


def test_verifier_names_fuse_if_it_runs_inside_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """`partition` also runs fuse, to compare messages. The message for a malformed program then names fuse."""
    from meshgen.codegen import planner

    original = planner.fuse

    def broken(module: Module, context: Compilation) -> Module:
        result = original(module, context)
        return replace(result, graph=_without_first(result.graph))

    monkeypatch.setattr(planner, "fuse", broken)
    with pytest.raises(AssertionError, match=r"^fuse made a malformed program"):
        run_stages(parse_text(TEXT), Options("cpu"), Timing(), "fuse")


def test_single_pass_runs_only_at_its_stages() -> None:
    module = run_stages(parse_text(TEXT), Options("cpu"), Timing(), "partition")["partition"]
    assert run_pass("collective-cse", module, Compilation()).graph.outputs
    with pytest.raises(UsageError, match="'collective-cse' takes a program at stage"):
        run_pass("collective-cse", replace(module, stage="fuse"), Compilation())


def test_seconds_of_repeated_pass_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 102.0, 110.0, 111.0])
    monkeypatch.setattr(compilation.time, "perf_counter", lambda: next(clock))
    context, timed_pass = Compilation(), next(iter(PASSES.values()))
    for _ in range(2):
        with context.timed(timed_pass):
            pass
    assert context.record(timed_pass.name).seconds == 3.0
