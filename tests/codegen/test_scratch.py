"""Tests of private directories of compiler processes: removed after their process is killed, kept while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from meshgen.codegen.building.scratch import PREFIX, Scratch, remove_abandoned

SCRATCH_HOLDER = "import sys, tempfile\nfrom meshgen.codegen.building.scratch import Scratch\ntempfile.tempdir = sys.argv[1]\ns = Scratch()\nprint(s.path, flush=True)\nsys.stdin.read()\n"


def test_only_directories_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(other)
    (tmp_path / f"{PREFIX}file").write_text("")
    with subprocess.Popen(
        [sys.executable, "-c", SCRATCH_HOLDER, str(tmp_path)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        scratch_path = Path(process.stdout.readline().decode().strip())
        first = Scratch()
        remove_abandoned()
        assert scratch_path.is_dir() and first.path.is_dir()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert scratch_path.is_dir()
        remove_abandoned()
        assert not scratch_path.exists() and first.path.is_dir()
    first.remove()
    assert {entry.name for entry in tmp_path.iterdir()} == {"other", f"{PREFIX}link", f"{PREFIX}file"}


def test_missing_temporary_directory_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    remove_abandoned()
