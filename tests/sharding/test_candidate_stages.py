"""Stages run once for a program: what was made of a candidate to compare it is taken up when it is chosen."""

from __future__ import annotations

import pytest

from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text
from meshgen.pass_manager import PassManager
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


def test_what_passes_did_counts_each_time_and_options_are_told_apart() -> None:
    options = Options()
    found = run_stages(parse_text(mlp(*BETTER[0][1])), options, Timing(), "optimize")
    first, second = PassManager(), PassManager()
    local = partitioned(found["optimize"], "local", first)
    assert partitioned(found["optimize"], "local", second) is local
    counted = [{name: record.fired for name, record in each.records.items()} for each in (first, second)]
    assert counted[0] == counted[1]
    assert partitioned(found["optimize"], "global", PassManager()).arguments == "global"
    skipping = PassManager(frozenset({"collective-cse"}))
    assert partitioned(found["optimize"], "local", skipping) is not local
    assert materialized(found["propagate"], PassManager()) is found["materialize"]
