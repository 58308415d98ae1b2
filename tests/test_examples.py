"""Every example runs in an empty folder, prints the expected output, and is short enough to read in a minute."""

from __future__ import annotations

import io
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import ROOT, lines_of, place, refuse

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MOST_LINES = 60
TOOL = "lower_transformer_block"  # this script prints the `.mlir` files in its folder
EXPECTED_OUTPUT = {
    "attention": r"whole: {'all_reduce': 1}, 786432 bytes\nresult split: {'reduce_scatter': 1}, 393216 bytes",
    "custom_op": r"^{}; largest difference from f32: 0\.[01]",
    TOOL: r"module @jit_block[^$]*sdy\.mesh @mesh",
    "mlp": r"all_reduce sum  tp[^$]*y: bfloat16\[8, 64, 256\]",
    "moe": r"2 experts on 8 devices[^$]*16 experts on 8 devices",
    "open_sizes": r"dp=2, 8 rows: \(8, 32\), 0\.7616\ndp=2, 16 rows: \(16, 32\), 0\.7616\ndp=3, 10 rows: \(10, 32\), 0\.7616",
    "pipeline": r"Mesh\(dp=2, tp=2\)[^$]*Mesh\(tp=2\)[^$]*y: \(16, 32\)",
    "search": r"40 MB:[^$]*layers\.\*\.w1, bf16\[512,2048\]: replicated[^$]*7 MB:[^$]*layers\.\*\.w1, bf16\[512,2048\]: by \w+ over",
    "server": r"^24\.0000\n56\.0000",
    "train_jax": r"'all_reduce': \d[^$]*losses \[",
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_expected_output(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "import jax" in path.read_text():
        pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    if path.stem == TOOL:  # needs a new process: JAX cannot change the number of devices after its first use
        output = subprocess.run([sys.executable, path, "float32"], capture_output=True, text=True, check=True).stdout
    else:
        monkeypatch.setattr(sys, "argv", [str(path), "cpu"])
        monkeypatch.setattr(sys, "stdin", io.StringIO("1 2\n3 4\n"))
        runpy.run_path(str(path), run_name="__main__")
        output = capsys.readouterr().out
    assert re.search(EXPECTED_OUTPUT[path.stem], output), output
    if path.stem == "train_jax":
        losses = [float(number) for number in re.findall(r"\d\.\d+", output.partition("losses")[2])]
        assert losses == sorted(losses, reverse=True) and len(set(losses)) == 5


def test_examples_are_short() -> None:
    refuse(
        [
            place(path, len(lines_of(path)))
            for path in EXAMPLES
            if path.stem != TOOL and len(lines_of(path)) > MOST_LINES
        ]
    )
