"""The source distribution contains the entire repository, so that its tests and Makefile work. `.ci/distribution.py`
builds and installs the distribution.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from setuptools.command.egg_info import FileList

from tests.sources import ROOT

ALWAYS = {"pyproject.toml", "LICENSE", "README.md", "MANIFEST.in"}  # files that setuptools always adds


def test_source_distribution_has_every_file_of_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = subprocess.run(["git", "ls-files", "--cached"], capture_output=True, text=True)
    tracked = {name for name in shown.stdout.splitlines() if Path(name).exists()}
    chosen = FileList()
    for line in Path("MANIFEST.in").read_text().splitlines():
        if line and not line.startswith("#"):
            chosen.process_template_line(line)
    assert sorted(tracked - {*chosen.files} - ALWAYS) == []
    assert not [name for name in chosen.files if name.endswith(".pyc")]
