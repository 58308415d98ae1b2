"""The documentation pages as a web site. It builds without a warning and fetches nothing from the network, and its
stored pictures equal what Chromium renders now.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.sources import ROOT


def beside_pages(name: str, folder: str = "docs") -> ModuleType:
    """Import a file of docs/ or .ci/. These folders are not packages."""
    spec = importlib.util.spec_from_file_location(name, ROOT / folder / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_site_builds_without_warning_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert completed.returncode == 0, completed.stderr
    pages = sorted(tmp_path.glob("*.html"))
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= {page.stem for page in pages}
    fetched = [
        tag
        for page in pages
        for tag in re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*", page.read_text())
    ]
    assert fetched == []
    for page in pages:  # each page must have the elements that the theme's script looks up
        text = page.read_text()
        assert "darkmode.js" not in text or ('id="hljs-light"' in text and 'id="hljs-dark"' in text), page.name


def test_pages_missing_in_navigation_come_last(tmp_path: Path) -> None:
    for name in ("index", "named", "new"):
        (tmp_path / f"{name}.md").touch()
    config: Any = SimpleNamespace(
        nav=[{"Start": "index.md"}, {"Guides": [{"Named": "named.md"}]}], docs_dir=str(tmp_path)
    )
    assert beside_pages("site_hooks").on_config(config).nav[-1] == {"More": ["new.md"]}


def test_links_out_of_the_docs_folder_become_names() -> None:
    text = "[a.md](a.md), [raw](../bench/results/raw.jsonl)"
    assert beside_pages("site_hooks").on_page_markdown(text) == "[a.md](a.md), `bench/results/raw.jsonl`"


def test_pictures_have_light_and_dark_versions_and_are_small(tmp_path: Path) -> None:
    pictures = beside_pages("pictures")
    if not pictures.CHROMIUM:
        pytest.skip("needs Chromium")
    for written in pictures.write_pictures(tmp_path):
        assert 20_000 < written.stat().st_size < 150_000
        assert (ROOT / "docs" / "images" / written.name).stat().st_size < 150_000
    assert (tmp_path / "report-light.png").read_bytes() != (tmp_path / "report-dark.png").read_bytes()
