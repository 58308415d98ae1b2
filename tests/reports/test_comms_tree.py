"""The tree of collectives, and every decision as one document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshgen import api
from meshgen.cli import main
from meshgen.pipeline import Options, Timing
from meshgen.reports.comms_tree import comms_tree
from meshgen.testing.random_graphs import random_program
from tests.acceptance.cases import small
from tests.plans import plan_of
from tests.programs import mlp

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = [path for path in map(small, ("mlp_train_zero3", "pipeline_roll", "conv_halo", "argmax_sharded")) if path.exists()]  # fmt: skip


def test_the_operation_the_reshard_and_the_collective() -> None:
    executable = api.plan(mlp(w1=("x", "y")), target="cpu")
    assert executable.tree().splitlines() == [
        "%h = dot_general: 192 B in 1 all_gather  at <text>:4",
        "  %w1 [{x}, {y}] -> [{}, {y}]",
        "    #0 all_gather over x: 192 B",
        "an output: 192 B in 1 all_reduce",
        "  %y [{x}, {}] partial sum(y) -> [{x}, {}]",
        "    #1 all_reduce over y: 192 B",
    ]
    assert executable.comms.count("all_gather") == 1


@pytest.mark.parametrize("path", [*FILES, *sorted(EXAMPLES.glob("*.mlir"))], ids=lambda path: path.name)
def test_every_collective_hangs_on_an_operation(path: Path) -> None:
    executable = plan_of(path)
    roots = comms_tree(executable)
    assert {n for root in roots for b in root.edges for n in b.collectives} == set(range(len(executable.comms)))
    assert all(root.ring_bytes == sum(executable.comms[n].ring_bytes for n in {n for b in root.edges for n in b.collectives}) for root in roots)  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_random_programs_have_whole_trees(seed: int) -> None:
    executable = api.plan_module(random_program(seed), Options("cpu"), Timing())
    roots = comms_tree(executable)
    assert {n for root in roots for b in root.edges for n in b.collectives} == set(range(len(executable.comms)))


def test_the_dump_holds_every_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, dump = tmp_path / "mlp.mlir", tmp_path / "dump"
    place.write_text(mlp(w1=("x", "y")))
    words = ["compile", str(place), "--target", "cpu", "-o", str(tmp_path / "m.mgx"), "--dump", str(dump)]
    assert main(words) == 0
    text = (dump / "decisions.json").read_text()
    found = json.loads(text)
    assert [each["kind"] for each in found["explained"]] == [each["kind"] for each in found["collectives"]]
    assert {each["value"] for each in found["explanations"]} >= {"x", "w1", "w2", "h", "t", "y"}
    assert found["gathers"][0]["value"] == "w1" and found["tree"] and found["hints_that_lost"] == []
    assert found["mesh"] == {"x": 2, "y": 2} and found["formula"]["ring_bytes"] == found["ring_bytes"]
    assert main(words) == 0 and (dump / "decisions.json").read_text() == text
    capsys.readouterr()
    assert main(["explain", str(place), "--tree", "--target", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tree"] == found["tree"]


def test_a_program_on_several_meshes_has_the_decisions_of_each(tmp_path: Path) -> None:
    words = ["compile", str(EXAMPLES / "pipeline_stages.mlir"), "--target", "cpu", "-o", str(tmp_path / "m.mgx")]
    assert main([*words, "--dump", str(tmp_path / "dump")]) == 0
    found = json.loads((tmp_path / "dump" / "decisions.json").read_text())
    assert len(found["meshes"]) == len(found["mesh"]) > 1 and all(part["explained"] for part in found["meshes"])
