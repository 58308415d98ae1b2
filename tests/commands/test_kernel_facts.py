"""Resources, instructions and PTX of a kernel, which `inspect` shows and `compile --dump` writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshgen.cli import main

PROGRAM = """
func.func @add(%x: tensor<64x8xf32>, %y: tensor<64x8xf32>) -> tensor<64x8xf32> {
  %0 = stablehlo.add %x, %y : tensor<64x8xf32>
  return %0 : tensor<64x8xf32>
}
"""


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    (tmp_path / "add.mlir").write_text(PROGRAM)
    words = ["--mesh", "x=1", "--target", "cuda:sm_90", "--dump", str(tmp_path / "dump")]
    assert main(["compile", str(tmp_path / "add.mlir"), "-o", str(tmp_path / "add.mgx"), *words]) == 0
    capsys.readouterr()
    return tmp_path


def test_inspect_shows_resources_instructions_and_ptx(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(folder / "add.mgx"), "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernel_list"]
    binary = kernel["binaries"]["sm_90"]
    assert binary["instructions"]["LDG"] and binary["stack_bytes"] == 0
    assert main(["inspect", str(folder / "add.mgx"), "--kernel", "add"]) == 0
    shown = capsys.readouterr().out
    assert "@triton.jit" in shown and f"total {binary['instructions']['total']}" in shown and ".entry" not in shown
    assert main(["inspect", str(folder / "add.mgx"), "--kernel", "add", "--ptx"]) == 0
    assert ".entry" in capsys.readouterr().out


def test_dump_has_source_ptx_and_resources_of_each_kernel(folder: Path) -> None:
    files = {path.name: path.read_text() for path in (folder / "dump" / "kernels").iterdir()}
    assert sorted(files) == ["add.json", "add.py", "add.sm_90.ptx"]
    assert "@triton.jit" in files["add.py"] and ".entry" in files["add.sm_90.ptx"]
    assert json.loads(files["add.json"])["sm_90"]["regs"] > 0
