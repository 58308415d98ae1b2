"""Stages run once for a program: what was made of a candidate to compare it is taken up when it is chosen."""

from __future__ import annotations

import pytest

from meshgen.compilation import Compilation
from meshgen.ir.graph import Graph, Module
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding import kept_stages
from meshgen.sharding.kept_stages import materialized, partitioned
from tests.sharding.test_axes import BETTER, mlp


def test_the_chosen_candidate_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Module] = []
    materialize = kept_stages.materialize

    def noted(module: Module) -> Module:
        taken.append(module)
        return materialize(module)

    monkeypatch.setattr(kept_stages, "materialize", noted)
    found = run_stages(parse_text(mlp(*BETTER[0][1])), Options(), Timing(), "materialize")
    assert len(taken) > 1, "candidates were compared"
    assert [each for each in taken if each is found["propagate"]] == [found["propagate"]]


def test_stages_are_computed_once_in_a_compilation_and_counted_each_time() -> None:
    context = Compilation()
    found = run_stages(parse_text(mlp(*BETTER[0][1])), Options(), Timing(), "optimize", context=context)
    first, second = context.trial(), context.trial()
    local = partitioned(found["optimize"], "local", first)
    assert partitioned(found["optimize"], "local", second) is local
    counted = [{name: record.fired for name, record in each.records.items()} for each in (first, second)]
    assert counted[0] == counted[1]
    assert partitioned(found["optimize"], "global", context).arguments == "global"
    assert materialized(found["propagate"], context) is found["materialize"]


def test_compilations_share_nothing() -> None:
    context = Compilation()
    found = run_stages(parse_text(mlp(*BETTER[0][1])), Options(), Timing(), "optimize", context=context)
    assert materialized(found["propagate"], Compilation()) is not found["materialize"]


def test_analysis_is_computed_once_for_a_subject_and_its_arguments() -> None:
    calls: list[int] = []

    def size(graph: Graph, factor: int) -> int:
        calls.append(factor)
        return factor * len(graph.nodes)

    context, graph = Compilation(), Graph("f")
    for factor in (1, 2, 1):
        assert context.trial().analysis(size, graph, factor) == 0
    assert calls == [1, 2]
    context.analysis(size, Graph("f"), 1)
    Compilation().analysis(size, graph, 1)
    assert calls == [1, 2, 1, 1]
