"""Stages run once for a program: what was made of a candidate to compare it is taken up when it is chosen."""

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


def test_the_chosen_candidate_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Module] = []
    materialize = stages.materialize

    def noted(module: Module) -> Module:
        taken.append(module)
        return materialize(module)

    monkeypatch.setattr(stages, "materialize", noted)
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


def test_results_are_computed_once_for_a_subject_and_a_key() -> None:
    context, graph, calls = Compilation(), Graph("f"), itertools.count()
    assert [context.trial().once(graph, key, lambda: next(calls)) for key in (1, 2, 1)] == [0, 1, 0]
    assert context.once(Graph("f"), 1, lambda: next(calls)) == 2
    assert Compilation().once(graph, 1, lambda: next(calls)) == 3


def test_decisions_are_shared_by_copies_and_left_out_of_pickles() -> None:
    executable = mg.compile(parse_text(mlp(*BETTER[0][1])), target="cpu")
    assert executable.decisions["propagate"]
    assert copy.copy(executable).decisions is executable.decisions
    for other in (copy.deepcopy(executable), pickle.loads(pickle.dumps(executable))):
        assert other.decisions == {} and other.comms.counts == executable.comms.counts
