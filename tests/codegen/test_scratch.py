"""Private directories of compiler processes: none stays when its process is killed, and none goes while it is used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from meshgen.codegen.building.scratch import PREFIX, Scratch, remove_abandoned

HOLDS = "import sys, tempfile\nfrom meshgen.codegen.building.scratch import Scratch\ntempfile.tempdir = sys.argv[1]\ns = Scratch()\nprint(s.path, flush=True)\nsys.stdin.read()\n"


def test_what_a_killed_process_left_is_removed_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(other)
    (tmp_path / f"{PREFIX}file").write_text("")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        place = Path(process.stdout.readline().decode().strip())
        first = Scratch()
        remove_abandoned()
        assert place.is_dir() and first.path.is_dir()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert place.is_dir()
        remove_abandoned()
        assert not place.exists() and first.path.is_dir()
    first.remove()
    assert {entry.name for entry in tmp_path.iterdir()} == {"other", f"{PREFIX}link", f"{PREFIX}file"}


def test_without_a_place_for_temporary_files_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    remove_abandoned()
