"""Records of the module and compile suites, for small programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen.benchmarks.compile import commands, stages
from meshgen.benchmarks.module import records
from meshgen.cli import main
from meshgen.pipeline import STAGES

PROGRAM = """shard.grid @m(shape = 2)
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = stablehlo.tanh %x : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
"""


def test_planning_saving_and_loading_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshgen.benchmarks.module.SIDE", 512)
    rows = {row["what"]: row for row in records(1, 2)}
    assert list(rows) == ["plan", "save", "load"] and [row["samples"] for row in rows.values()] == [1, 2, 2]
    assert rows["save"]["file_bytes"] >= rows["save"]["size"] == 512 * 512 * 4
    assert rows["save"]["peak_bytes"] > rows["save"]["size"] and all(row["us"] > 0 for row in rows.values())


@pytest.mark.usefixtures("few_objects")
def test_compile_suite_times_every_stage() -> None:
    rows = {row["what"]: row for row in stages("tanh", PROGRAM, 2)}
    assert set(rows) >= {"import", "propagate", "partition", "fuse", "all stages"} and rows.keys() - {"all stages"} <= {
        "import",
        *STAGES,
    }
    stage_sum_us = sum(row["least_us"] for what, row in rows.items() if what != "all stages")
    assert 0 < stage_sum_us <= rows["all stages"]["least_us"] * 1.01 and rows["all stages"]["schedule_bytes"] > 0


def test_compile_command_is_timed_with_cold_and_warm_cache() -> None:
    rows = {row["cache"]: row for row in commands("tanh", PROGRAM, 1)}
    assert list(rows) == ["cold", "warm"] and all(row["us"] > 0 for row in rows.values())


def test_unknown_programs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suite in ("compile", "overlap", "quality"):
        assert main(["bench", suite, "no-such-program"]) == 2
        assert "unknown program 'no-such-program'" in capsys.readouterr().err
    assert main(["bench", "compile", str(tmp_path / "none.mlir")]) == 2
    assert "MG0002" in capsys.readouterr().err
