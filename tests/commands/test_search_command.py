"""`meshgen search`: its text, its JSON document, and the annotated program that it writes, whose plan has the reported
cost.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshgen import api
from meshgen.cli import main
from tests.acceptance.cases import small

CASE = small("mlp_1d_ws_8")


@pytest.mark.skipif(not CASE.exists(), reason="needs the cases")
def test_annotated_program_plans_with_the_reported_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "found.mlir"
    assert main(["search", str(CASE), "--target", "cpu", "--seconds", "5", "-o", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    replanned = api.plan(path, target="cpu")
    assert replanned.plan.step_seconds == document["step_seconds"]
    assert replanned.plan.arena_bytes == document["peak_memory_bytes"]
    assert document["gap"] == 0 and set(document["specs"]) == {"arg0", "arg1", "arg2"}


@pytest.mark.skipif(not CASE.exists(), reason="needs the cases")
def test_search_prints_annotations_step_time_and_proof(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", str(CASE), "--target", "cpu", "--seconds", "5"]) == 0
    out = capsys.readouterr().out
    assert "arg0, " in out and "A step takes" in out and "proven the best" in out
