"""The quality suite compares plans with those of other partitioners, if these are installed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from meshgen.benchmarks import quality
from meshgen.cli import main

# A GEMM that is split along its contracted dim. Both partitioners must all-reduce the result.
PROGRAM = """module {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %w: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}
"""
SUM = {"collectives": {"all_reduce": 1}, "ring_bytes": 2 * 3 * 8 * 32 * 4 // 4}


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "p.mlir").write_text(PROGRAM)
    return str(tmp_path / "p.mlir")


def rows(program: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert main(["bench", "quality", program, "--json"]) == 0
    return {row["by"]: row for row in json.loads(capsys.readouterr().out)["records"]}


def test_plan_is_compared_with_xla(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jaxlib")
    records = rows(program, capsys)
    for by in ("meshgen", "XLA"):
        assert {key: records[by][key] for key in SUM} == SUM, by
        assert records[by]["communication_seconds"] == pytest.approx(records["meshgen"]["communication_seconds"])
    assert records["meshgen"]["launches"] == 1 and records["meshgen"]["step_seconds"]


def test_plan_is_compared_with_mlir_opt(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fake mlir-opt prints the result of the upstream passes, or an error if the program has no dot_general."""
    partitioned = """shard.grid @m(shape = 4)
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x32xf32>) -> tensor<8x32xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x32xf32>) -> tensor<8x32xf32>
  %1 = shard.all_reduce %0 on @m grid_axes = [0] : tensor<8x32xf32> -> tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}
"""
    tool = tmp_path / "mlir-opt"
    tool.write_text(
        f"#!/bin/sh\ngrep -q dot_general $1 || {{ echo cannot read it >&2; exit 1; }}\ncat <<'END'\n{partitioned}END\n"
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setitem(quality._PEERS, "XLA", lambda: False)
    records = rows(program, capsys)
    assert set(records) == {"meshgen", "mlir-opt"} and {key: records["mlir-opt"][key] for key in SUM} == SUM
    Path(program).write_text(
        "shard.grid @m(shape = 4)\nfunc.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n  return %x : tensor<8xf32>\n}\n"
    )
    assert rows(program, capsys)["mlir-opt"]["refused"] == "cannot read it"
