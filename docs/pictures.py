"""Write the pictures docs/images/report-*.png: the report on examples/transformer_block.mlir in light and dark colors.

python docs/pictures.py     needs Chromium; tests/test_site.py writes the same pictures into its own folder
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from meshgen import api

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
SCHEMES = {"light": 1, "dark": 0}  # values of the setting `prefers-color-scheme` in Blink, the engine of Chromium
WIDTH, HEIGHT = 1200, 900  # pixels


def write_pictures(to: Path) -> list[Path]:
    """Write a picture of the top of the page in each color scheme, and return the files."""
    to.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with tempfile.TemporaryDirectory() as profile:
        page = Path(profile, "report.html")
        api.compile(ROOT / "examples" / "transformer_block.mlir", target="cpu").report(page)
        for name, scheme in SCHEMES.items():
            written.append(to / f"report-{name}.png")
            words = [
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={profile}/{name}",
            ]
            words += [f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={WIDTH},{HEIGHT}"]
            words += [f"--screenshot={written[-1]}", page.as_uri()]
            subprocess.run([CHROMIUM, *words], check=True, capture_output=True, timeout=120)
    return written


if __name__ == "__main__":
    if not CHROMIUM:
        sys.exit("Chromium is not installed")
    write_pictures(ROOT / "docs" / "images")
