"""The page from a JAX training step to a module: its blocks run, in order, in one folder."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from meshgen.cli import main
from meshgen.runtime.module_file import tensors
from tests.sources import ROOT

pytest.importorskip("jax")
PAGE = ROOT / "docs" / "jax.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def save_file(arrays: dict[str, np.ndarray], path: str) -> None:
    """That of `safetensors`, which need not be installed."""
    Path(path).write_bytes(tensors.encode(arrays))


def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    page = ModuleType("jax_page")
    monkeypatch.setitem(sys.modules, "jax_page", page)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", SimpleNamespace(save_file=save_file))  # type: ignore[arg-type]
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
