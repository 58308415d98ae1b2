"""Code in the page: from the program, from a module with PTX, as much as fits."""

from __future__ import annotations

from pathlib import Path

import pytest

import meshgen as mg
from meshgen.reports.page import kernels
from tests.reports.models import layers


def test_a_module_has_its_own_code(tmp_path: Path) -> None:
    executable = mg.compile(layers(1), target="cuda:sm_90")
    executable.save(tmp_path / "m.mgx")
    made, stored = kernels.code(executable), kernels.code(executable, mg.load(tmp_path / "m.mgx"))
    assert made["triton"] == stored["triton"] and made["ptx"] == stored["ptx"]
    assert {*made["triton"]} == {*executable.plan.kernels} and all(".entry" in text for text in made["ptx"].values())


def test_what_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = mg.compile(layers(1), target="cuda:sm_90")
    texts = {name: source.text for name, source in executable.sources.items()}
    longest = kernels.kernels(executable)[0]["name"]
    monkeypatch.setattr(kernels, "MOST_CODE", len(texts[longest]))
    found = kernels.code(executable)
    assert list(found["triton"]) == [longest] and {*found["left_out"]} >= {*texts} - {longest}
