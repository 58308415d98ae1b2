"""The table in which `bench.launches` compares launches with XLA's."""

from __future__ import annotations

import json
from pathlib import Path

from bench.launches import Row, rows_of, table

ADD = """module @m {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %y = stablehlo.add %x, %x : tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}
"""


def test_programs_with_xla_figures_are_planned(tmp_path: Path) -> None:
    peers = {"add": {"xla_gpu": {"kernels": 2, "device_bytes": 512}}, "loop": {"xla_gpu": {"counts": {}}}, "none": {}}
    (tmp_path / "peers.json").write_text(json.dumps(peers))
    (tmp_path / "add.shardy.mlir").write_text(ADD)
    assert rows_of(tmp_path) == [Row("add", 1, 2, 256, 512)]


def test_figures_above_xla_are_marked() -> None:
    lines = table([Row("one", 4, 2, 10**6, 4 * 10**6), Row("two", 1, 8, 2 * 10**6, 2 * 10**6)]).splitlines()
    assert lines[2] == "| one | **4** | 2 | 1.0 | 4.0 |"
    assert lines[3] == "| two | 1 | 8 | 2.0 | 2.0 |"
    assert lines[-1].startswith("Geometric means of the ratios: launches 0.50, bytes 0.50")


def test_program_without_xla_figures_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "peers.json").write_text(json.dumps({"one": {"xla_gpu": None}}))
    assert rows_of(tmp_path) == []
