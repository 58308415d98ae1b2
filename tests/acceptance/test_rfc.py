"""The weight-stationary MLPs of the RFC: the collectives of each variant, and the expected text of every stage.

Rewrite the expected texts with `MESHGEN_REWRITE_GOLDEN=1 pytest tests/acceptance/test_rfc.py`, and read the diff.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from meshgen import api
from meshgen.cli import main
from meshgen.compiled.executable import Executable
from meshgen.ir.graph import Value
from meshgen.mlir.text import parse_text, print_text

DATA = Path(__file__).resolve().parents[1] / "data"
GOLDEN = DATA / "golden"
PASSES = ["propagate", "materialize", "optimize", "partition", "fuse", "schedule"]
STAGES = ["import", *PASSES]
FIGURE_2B = ["rfc_fig2b_plain", "rfc_fig2b_annotated", "rfc_fig2b_option"]
COMMUNICATION = ("all_gather", "all_reduce", "reduce_scatter", "all_to_all", "permute", "retile")


def hand_bytes() -> int:
    """Compute by hand the bytes that a device sends in figure 2b: AG_yz(x) + RS_x(h) + AG_x(h) + RS_yz(out).

    Shapes are x[2,4,8] and h[2,4,32] in f32, on x=y=z=2.
    """
    x_per_x = 2 * 4 * (8 // 2) * 4  # the output has the same shape, so the factor 2 below counts both
    h_per_yz = 2 * 4 * (32 // 4) * 4
    return 2 * (x_per_x * 3 // 4) + 2 * (h_per_yz // 2)


def planned(name: str) -> Executable:
    return api.plan(DATA / f"{name}.mlir", target="cpu")


def communicated_weights(executable: Executable) -> list[str]:
    """List the collectives whose operand is a weight (any input but the first) or a sliced, reshaped or transposed
    weight.
    """
    graph = executable.stages["partition"].graph
    weights: set[Value] = set(graph.inputs[1:])
    collectives: list[str] = []
    for node in graph.nodes:
        if any(value in weights for value in node.operands):
            if node.op in COMMUNICATION:
                collectives.append(node.op)
            if node.op in (*COMMUNICATION, "all_slice", "slice", "reshape", "transpose"):
                weights.update(node.results)
    return collectives


def test_figure_2a_gathers_input_and_reduce_scatters_result() -> None:
    executable = planned("rfc_fig2a")
    assert executable.comms.counts == {"all_gather": 1, "reduce_scatter": 1}
    x = 2 * 4 * 8 * 4  # bytes of x, and of the output
    assert executable.cost.ring_bytes == 2 * (x // 2)
    assert communicated_weights(executable) == []


def test_figure_2a_as_matmul_option_communicates_alike() -> None:
    executable = planned("rfc_fig2a_option")
    assert executable.comms.counts == {"all_gather": 1, "reduce_scatter": 1}
    assert communicated_weights(executable) == []


@pytest.mark.parametrize("name", FIGURE_2B)
def test_figure_2b_does_not_move_weights(name: str) -> None:
    executable = planned(name)
    assert communicated_weights(executable) == []
    assert executable.cost.ring_bytes <= hand_bytes()


@pytest.mark.parametrize("name", ["rfc_fig2a", "rfc_fig2a_option", *FIGURE_2B, "rfc_fig2b_materialized"])
def test_sharded_program_matches_unsharded_results(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = DATA / f"{name}.mlir"
    code = main(["check", str(path), "--target", "cpu"])
    assert code == 0, capsys.readouterr().err


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the text of figure 2a at every stage, as the command line prints it."""
    folder, stage_texts = tmp_path_factory.mktemp("stages"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(DATA)  # so that provenance has the same file names as on the command line
        for index, stage in enumerate(STAGES):
            path = folder / f"{stage}.mlir"
            assert main(["opt", "rfc_fig2a.mlir", "--passes", ",".join(PASSES[:index]), "-o", str(path)]) == 0
            stage_texts[stage] = path.read_text()
    return stage_texts


@pytest.mark.parametrize("stage", STAGES)
def test_stage_text_matches_golden_file(stage: str, texts: dict[str, str]) -> None:
    path = GOLDEN / f"rfc_fig2a_{STAGES.index(stage):02}_{stage}.mlir"
    if os.environ.get("MESHGEN_REWRITE_GOLDEN"):
        path.write_text(texts[stage])
    assert texts[stage] == path.read_text()


@pytest.mark.parametrize("stage", STAGES)
def test_stage_text_round_trips(stage: str, texts: dict[str, str]) -> None:
    module = parse_text(texts[stage])
    assert module.stage == stage
    assert print_text(module) == texts[stage]


def without_locations(text: str) -> str:
    """Mask the file and line in provenance: they differ between stages, because each stage reads the text of the stage
    before.
    """
    return re.sub(r"\S*\.mlir:\d+", "PLACE", text)


@pytest.mark.parametrize("stage", STAGES)
def test_pipeline_resumes_from_the_text_of_each_stage(stage: str, texts: dict[str, str], tmp_path: Path) -> None:
    start, end = tmp_path / "start.mlir", tmp_path / "end.mlir"
    start.write_text(texts[stage])
    rest = PASSES[STAGES.index(stage) :]
    assert main(["opt", str(start), "--passes", ",".join(rest), "-o", str(end)]) == 0
    assert without_locations(end.read_text()) == without_locations(texts["schedule"])


def test_stage_texts_follow_the_design(texts: dict[str, str]) -> None:
    """After materialize, types are global and have shardings; after partition, types are local; after fuse, there is
    one call per kernel.
    """
    assert "shard.shard %" in texts["propagate"] and "shard.all_gather" not in texts["propagate"]
    for stage in ("materialize", "optimize"):
        assert "shard.shard %" not in texts[stage]
        assert texts[stage].count("shard.all_gather") == texts[stage].count("shard.reduce_scatter") == 1
        assert "tensor<2x4x8xf32, #meshgen.split<@mesh0, [[], [], [0]]>>" in texts[stage]
    assert "%arg0: tensor<2x4x4xf32>" in texts["partition"]
    assert texts["fuse"].count("func.call") == texts["schedule"].count("func.call") == 2
    assert "stream" not in texts["fuse"] and "stream 1" in texts["schedule"]
