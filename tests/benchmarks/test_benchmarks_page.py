"""The walk-through of docs/benchmarks.md, as it is written: each block is run by a shell in an empty directory."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import ROOT

BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "benchmarks.md").read_text(), re.DOTALL)
BIN = Path(sys.executable).parent


@pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or not (BIN / "mpiexec").exists(), reason="needs the extra 'mpi'"
)
def test_the_walk_through_runs_as_written(tmp_path: Path) -> None:
    """But for the installation, which is there."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, line in (("meshgen", f'exec {sys.executable} -m meshgen "$@"'), ("pip", "exit 0")):
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
        (tools / name).chmod(0o755)
    place = tmp_path / "empty"
    place.mkdir()
    own = os.environ | {"PATH": os.pathsep.join([str(tools), str(BIN), os.environ["PATH"]]), "PYTHONPATH": str(ROOT)}
    said: list[str] = []
    for block in BLOCKS:
        outcome = subprocess.run(
            [shutil.which("sh") or "sh", "-e", "-c", block], cwd=place, env=own, capture_output=True, text=True
        )
        assert outcome.returncode == 0, f"{block}\n{outcome.stdout}\n{outcome.stderr}"
        said.append(outcome.stdout)
    assert len(BLOCKS) == 5
    assert "first.json" in said[1] and "figures compared" in said[3] and "machine: here" in said[3]
    assert "all_reduce" in said[4]
    assert {path.name for path in place.iterdir()} >= {"first.json", "second.json", "here.json"}
