"""The page from a PyTorch model to a module: its blocks run, in order, in one folder."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from meshgen.cli import main
from tests.sources import ROOT

pytest.importorskip("torch")
PAGE = ROOT / "docs" / "torch.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.filterwarnings("ignore")
def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    page = ModuleType("torch_page")
    monkeypatch.setitem(sys.modules, "torch_page", page)
    assert {language for language, _ in BLOCKS} == {"python", "console"}
    for language, text in BLOCKS:
        if language == "python":
            before = PAGE.read_text().partition(text)[0].count("\n")  # faults name the line of the page
            exec(compile("\n" * before + text, str(PAGE), "exec"), page.__dict__)
            continue
        for line in text.splitlines():
            program, *words = shlex.split(line.removeprefix("$ "))
            assert line.startswith("$ ") and program == "meshgen"
            assert main(words) == 0, capsys.readouterr().err
    assert "all_reduce" in capsys.readouterr().out
