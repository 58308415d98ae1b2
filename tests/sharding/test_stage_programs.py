"""Memoized stages: the programs computed to compare a candidate are reused if it is chosen."""

from __future__ import annotations

import copy
import itertools
import pickle

import pytest

import meshgen as mg
from meshgen.compilation import Compilation
from meshgen.ir.graph import Graph, Module
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding import stages
from meshgen.sharding.stages import materialized, partitioned
from tests.sharding.test_axes import BETTER, mlp


def test_chosen_candidate_is_materialized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    materialized_modules: list[Module] = []
    materialize = stages.materialize

    def recording_materialize(module: Module) -> Module:
        materialized_modules.append(module)
        return materialize(module)

    monkeypatch.setattr(stages, "materialize", recording_materialize)
    staged = run_stages(parse_text(mlp(*BETTER[0][1])), Options(), Timing(), "materialize")
    assert len(materialized_modules) > 1, "candidates were compared"
    assert [candidate for candidate in materialized_modules if candidate is staged["propagate"]] == [
        staged["propagate"]
    ]


def test_memoized_stage_is_computed_once_and_recorded_per_trial() -> None:
    context = Compilation()
    staged = run_stages(parse_text(mlp(*BETTER[0][1])), Options(), Timing(), "optimize", context=context)
    first, second = context.trial(), context.trial()
    local = partitioned(staged["optimize"], "local", first)
    assert partitioned(staged["optimize"], "local", second) is local
    counted = [{name: record.fired for name, record in trial.records.items()} for trial in (first, second)]
    assert counted[0] == counted[1]
    assert partitioned(staged["optimize"], "global", context).arguments == "global"
    assert materialized(staged["propagate"], context) is staged["materialize"]


def test_memoized_stages_are_not_shared_between_compilations() -> None:
    context = Compilation()
    staged = run_stages(parse_text(mlp(*BETTER[0][1])), Options(), Timing(), "optimize", context=context)
    assert materialized(staged["propagate"], Compilation()) is not staged["materialize"]


def test_memoized_result_is_computed_once_per_subject_and_key() -> None:
    context, graph, calls = Compilation(), Graph("f"), itertools.count()
    assert [context.trial().once(graph, key, lambda: next(calls)) for key in (1, 2, 1)] == [0, 1, 0]
    assert context.once(Graph("f"), 1, lambda: next(calls)) == 2
    assert Compilation().once(graph, 1, lambda: next(calls)) == 3


def test_decisions_are_shared_by_copies_but_not_pickled() -> None:
    executable = mg.compile(parse_text(mlp(*BETTER[0][1])), target="cpu")
    assert executable.decisions["propagate"]
    assert copy.copy(executable).decisions is executable.decisions
    for other in (copy.deepcopy(executable), pickle.loads(pickle.dumps(executable))):
        assert other.decisions == {} and other.comms.counts == executable.comms.counts
