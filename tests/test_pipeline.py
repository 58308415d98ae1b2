"""The verifier between stages: a pass that breaks a graph is named, with the value."""

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
    """What the first node made is read, or an output."""
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
@pytest.mark.parametrize("how", BREAKS)
def test_the_stage_that_breaks_a_graph_is_named(stage: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    damage, words = BREAKS[how]
    right = STAGES[stage]

    def wrong(module: Module, context: Compilation) -> Module:
        made = right(module, context)
        return replace(made, graph=damage(made.graph))

    monkeypatch.setattr(pipeline, "STAGES", {**STAGES, stage: wrong})
    with pytest.raises(AssertionError, match=rf"^{stage} made a malformed program: .*{words}"):
        run_stages(parse_text(TEXT), Options("cpu"), Timing(), "schedule")


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_program_does_not_get_in(how: str) -> None:
    module = parse_text(TEXT)
    damage, words = BREAKS[how]
    with pytest.raises(AssertionError, match=rf"^import made a malformed program: .*{words}"):
        run_stages(replace(module, graph=damage(module.graph)), Options("cpu"), Timing(), "propagate")


def test_the_optimisation_that_breaks_a_graph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(module: Module, context: Compilation) -> Module:
        return replace(module, graph=_without_first(module.graph))

    monkeypatch.setattr(optimize, "PASSES", (Pass("careless", careless, ("materialize",), "unless more expensive"),))
    with pytest.raises(AssertionError, match=r"^careless made a malformed program: .*reads %b : f32\[4,6\]"):
        run_stages(parse_text(TEXT), Options("cpu"), Timing(), "optimize")


def test_a_fault_of_fuse_is_seen_where_schedules_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """`partition` fuses to see which messages are better: what is wrong then is a fault of fuse."""
    from meshgen.codegen import planner

    right = planner.fuse

    def wrong(module: Module, context: Compilation) -> Module:
        made = right(module, context)
        return replace(made, graph=_without_first(made.graph))

    monkeypatch.setattr(planner, "fuse", wrong)
    with pytest.raises(AssertionError, match=r"^fuse made a malformed program"):
        run_stages(parse_text(TEXT), Options("cpu"), Timing(), "fuse")


def test_a_pass_runs_by_itself_on_programs_of_its_stages() -> None:
    module = run_stages(parse_text(TEXT), Options("cpu"), Timing(), "partition")["partition"]
    assert run_pass("collective-cse", module, Compilation()).graph.outputs
    with pytest.raises(UsageError, match="'collective-cse' takes a program at stage"):
        run_pass("collective-cse", replace(module, stage="fuse"), Compilation())


def test_seconds_of_a_pass_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 102.0, 110.0, 111.0])
    monkeypatch.setattr(compilation.time, "perf_counter", lambda: next(clock))
    context, each = Compilation(), next(iter(PASSES.values()))
    for _ in range(2):
        with context.timed(each):
            pass
    assert context.record(each.name).seconds == 3.0
