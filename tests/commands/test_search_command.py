"""`meshgen search`: words, a document, and an annotated program that plans as promised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshgen import api
from meshgen.cli import main
from tests.acceptance.cases import small

CASE = small("mlp_1d_ws_8")


@pytest.mark.skipif(not CASE.exists(), reason="needs the cases")
def test_the_program_that_is_written_is_what_was_promised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "found.mlir"
    assert main(["search", str(CASE), "--target", "cpu", "--seconds", "5", "-o", str(place), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    again = api.plan(place, target="cpu")
    assert again.plan.step_seconds == document["step_seconds"]
    assert again.plan.arena_bytes == document["peak_memory_bytes"]
    assert document["gap"] == 0 and set(document["specs"]) == {"arg0", "arg1", "arg2"}


@pytest.mark.skipif(not CASE.exists(), reason="needs the cases")
def test_it_says_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", str(CASE), "--target", "cpu", "--seconds", "5"]) == 0
    out = capsys.readouterr().out
    assert "arg0, " in out and "A step takes" in out and "proven the best" in out
