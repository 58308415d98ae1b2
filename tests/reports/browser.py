"""Runs scripts on a page in headless Chromium. Tests that need it are skipped if Chromium is not installed."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


def evaluate_on_page(page: Path, script: str) -> dict[str, Any]:
    """Return the result of `script`, which runs after the page has loaded.

    The result also has the `errors` of the page's own scripts and its load time in `seconds`.
    """
    before = "<script>window.faults = []; addEventListener('error', (e) => faults.push(String(e.message)));</script>"
    after = (
        "<script>addEventListener('load', () => { const ms = performance.now(); let found; "
        f"try {{ found = (() => {{ {script} }})(); }} catch (error) {{ faults.push(String(error)); }} "
        "const out = document.createElement('output'); out.id = 'found'; "
        "out.textContent = JSON.stringify({...found, errors: faults, seconds: ms / 1000}); document.body.append(out); });</script>"
    )
    copy = page.with_name(f"{page.stem}-tried.html")
    copy.write_text(page.read_text().replace("<head>", f"<head>{before}", 1) + after)
    dom = _run(page.parent, "--dump-dom", copy.as_uri())
    match = re.search(r'<output id="found">(.*?)</output>', dom, re.DOTALL)
    assert match, dom[-2000:]
    return json.loads(html.unescape(match[1]))


def screenshot(page: Path, to: Path, *, height: int = 2400) -> None:
    """Write a screenshot of the page, 1400 pixels wide, to `to`."""
    _run(page.parent, f"--window-size=1400,{height}", f"--screenshot={to}", page.as_uri())


def _run(folder: Path, *flags: str) -> str:
    profile = f"--user-data-dir={folder / 'chromium'}"
    done = subprocess.run([CHROMIUM, *_FLAGS, profile, *flags], capture_output=True, text=True, timeout=300, check=True)
    return done.stdout
