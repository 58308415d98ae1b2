"""Test that mutated modules end in refusals, run-time failures or results. `mutate_modules.py` runs larger campaigns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.mutate_modules import mutate, originals

KINDS = [
    "weights",
    "rows",
    "collectives",
    "two meshes",
    "open sizes",
    "donated",
    "entry functions",
    "loop",
    "regions",
    "wide program 19",
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_mutated_modules_cause_no_internal_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    sources = originals(tmp_path, KINDS)
    monkeypatch.chdir(tmp_path / "empty")
    table, reports = mutate(sources, 0, 48, tmp_path)
    assert reports == []
    outcomes = {code for _, code in table}
    assert {0, 1} <= outcomes
