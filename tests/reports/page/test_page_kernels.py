"""Kernel code in the report page, from a program or from the PTX in a module, up to a size limit."""

from __future__ import annotations

from pathlib import Path

import pytest

import meshgen as mg
from meshgen.reports.page import kernels
from tests.reports.models import layers


def test_page_shows_kernel_code_stored_in_module(tmp_path: Path) -> None:
    executable = mg.compile(layers(1), target="cuda:sm_90")
    executable.save(tmp_path / "m.mgx")
    generated, stored = kernels.code(executable), kernels.code(executable, mg.load(tmp_path / "m.mgx"))
    assert generated["triton"] == stored["triton"] and generated["ptx"] == stored["ptx"]
    assert {*generated["triton"]} == {*executable.plan.kernels} and all(
        ".entry" in text for text in generated["ptx"].values()
    )


def test_kernels_beyond_code_limit_are_listed_as_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = mg.compile(layers(1), target="cuda:sm_90")
    texts = {name: source.text for name, source in executable.sources.items()}
    longest = kernels.kernels(executable)[0]["name"]
    monkeypatch.setattr(kernels, "MOST_CODE", len(texts[longest]))
    page_code = kernels.code(executable)
    assert list(page_code["triton"]) == [longest] and {*page_code["left_out"]} >= {*texts} - {longest}
