"""Passes on the command line: list them, run one alone, skip some, print the program after each, and time them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshgen.cli import main
from meshgen.passes import PASSES

PROGRAM = """shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%p: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %a = shard.all_reduce %p on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
  %b = shard.all_reduce %p on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
  %r = stablehlo.multiply %a, %b : tensor<8x12xf32>
  return %r : tensor<8x12xf32>
}
"""
MESHES = Path(__file__).parents[2] / "examples" / "pipeline_stages.mlir"


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "one_sum_twice.mlir"
    path.write_text(PROGRAM)
    return str(path)


def text_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["opt", *words]) == 0
    return capsys.readouterr().out


def test_list_passes_describes_every_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--list-passes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(PASSES)
    assert all(len(line.split()) > 4 for line in lines)


def test_pass_runs_alone_or_is_skipped(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    def reductions(*words: str) -> int:
        return text_of(capsys, program, *words).count("shard.all_reduce")

    assert reductions() == 2
    assert reductions("--passes", "convert-sink") == 2
    assert reductions("--passes", "collective-cse") == reductions("--passes", "optimize") == 1
    skipped = [
        word
        for name in ("collective-cse", "collective-combine", "collective-combine-large")
        for word in ("--skip", name)
    ]
    assert reductions("--passes", "optimize", *skipped) == 2


@pytest.mark.parametrize("watched, shown", [
    ("collective-cse", ["collective-cse"]),
    ("collective-licm", []),
    ("optimize", ["optimize"]),
    ("all", ["collective-cse", "optimize"]),
])  # fmt: skip
def test_print_after_shows_program_after_changing_passes(
    watched: str, shown: list[str], program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["opt", program, "--passes", "optimize", "--print-after", watched]) == 0
    heads = [line.split()[3] for line in capsys.readouterr().err.splitlines() if line.startswith("// -----")]
    assert heads == shown


@pytest.mark.parametrize("words, reason", [
    (["--passes", "colective-cse"], "did you mean 'collective-cse'"),
    (["--skip", "everything"], "meshgen opt --list-passes"),
    (["--print-after", "fused"], "did you mean 'fuse'"),
    (["--passes", "slice-into-dot"], "'slice-into-dot' takes a program at stage import, not at stage 'partition'"),
])  # fmt: skip
def test_unknown_pass_or_pass_of_another_stage_is_refused(
    words: list[str], reason: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["opt", program, *words]) == 2
    error = capsys.readouterr().err
    assert "MG0001" in error and reason in error


def test_program_on_several_meshes_must_be_propagated_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", str(MESHES), "--passes", "cse"]) == 2
    assert "until it is propagated" in capsys.readouterr().err
    before = text_of(capsys, str(MESHES), "--passes", "propagate,materialize")
    after = text_of(capsys, str(MESHES), "--passes", "propagate,materialize,collective-cse")
    assert after == before


def test_compile_timing_reports_what_each_pass_did(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compile", program, "--target", "cpu", "-o", str(tmp_path / "m.mgx")]
    assert main([*command, "--timing"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("collective-cse"))
    assert row.split()[1:4] == ["1", "1", "0"] and "1.15 kB" in row and "576 B" in row
    assert main([*command, "--json"]) == 0
    records = {record["name"]: record for record in json.loads(capsys.readouterr().out)["passes"]}
    assert records["collective-cse"]["before"] == 2 * records["collective-cse"]["after"] > 0
    assert records["collective-licm"]["fired"] == 0
