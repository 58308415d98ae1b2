"""File names that are not valid UTF-8: every command reads and writes such files, and escapes the names in its output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from meshgen.cli import main

PROGRAM = """sdy.mesh @m = <["x"=2]>
func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %b = stablehlo.tanh %a : tensor<8x4xf32>
  return %b : tensor<8x4xf32>
}
"""
ODD = os.fsdecode(b"odd\xff")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    (folder / f"{ODD}.mlir").write_text(PROGRAM)
    words = ["--target", "cpu", "--report", str(folder / f"{ODD}.compiled.html"), "--dump", str(folder / f"{ODD}.dump")]
    assert main(["compile", str(folder / f"{ODD}.mlir"), "-o", str(folder / f"{ODD}.mgx"), *words]) == 0
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "check {mlir}", "explain {mlir} --json", "opt {mlir} --passes propagate -o {out}", "search {mlir} -o {out}", "report {mlir} -o {out}",
        "report {mgx} -o {out}", "explain {mgx} --trace {out}", "run {mgx} --output {out}", "inspect {mgx}", "simulate {mgx} --trace {out}",
        "diff {mgx} {mgx}", "run {mgx} --expect {mlir}",
    ],
)  # fmt: skip
def test_file_name_that_is_not_utf_8_is_read_and_written(
    command: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = folder / f"{ODD}.out"
    out.unlink(missing_ok=True)
    names = {"mlir": str(folder / f"{ODD}.mlir"), "mgx": str(folder / f"{ODD}.mgx"), "out": str(out)}
    assert main([word.format(**names) for word in command.split()]) == 0
    assert out.exists() == ("{out}" in command)
    assert "internal error" not in capfd.readouterr().err


def test_fault_in_file_whose_name_is_not_utf_8_is_located(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(folder / f"{ODD}.mlir"), "--spec", "a=q"]) == 1
    assert "odd\\udcff.mlir:2: error MG0202" in capfd.readouterr().err
