"""The tree of collectives, and the dump of all decisions as one document."""

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


def test_tree_shows_operation_reshard_and_collective() -> None:
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
def test_every_collective_has_root_operation(path: Path) -> None:
    executable = plan_of(path)
    roots = comms_tree(executable)
    assert {n for root in roots for b in root.edges for n in b.collectives} == set(range(len(executable.comms)))
    assert all(root.ring_bytes == sum(executable.comms[n].ring_bytes for n in {n for b in root.edges for n in b.collectives}) for root in roots)  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_trees_of_random_programs_contain_all_collectives(seed: int) -> None:
    executable = api.plan_module(random_program(seed), Options("cpu"), Timing())
    roots = comms_tree(executable)
    assert {n for root in roots for b in root.edges for n in b.collectives} == set(range(len(executable.comms)))


def test_dump_contains_every_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, dump = tmp_path / "mlp.mlir", tmp_path / "dump"
    path.write_text(mlp(w1=("x", "y")))
    words = ["compile", str(path), "--target", "cpu", "-o", str(tmp_path / "m.mgx"), "--dump", str(dump)]
    assert main(words) == 0
    text = (dump / "decisions.json").read_text()
    decisions = json.loads(text)
    assert [record["kind"] for record in decisions["explained"]] == [
        record["kind"] for record in decisions["collectives"]
    ]
    assert {record["value"] for record in decisions["explanations"]} >= {"x", "w1", "w2", "h", "t", "y"}
    assert decisions["gathers"][0]["value"] == "w1" and decisions["tree"] and decisions["hints_that_lost"] == []
    assert decisions["mesh"] == {"x": 2, "y": 2} and decisions["formula"]["ring_bytes"] == decisions["ring_bytes"]
    assert main(words) == 0 and (dump / "decisions.json").read_text() == text
    capsys.readouterr()
    assert main(["explain", str(path), "--tree", "--target", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tree"] == decisions["tree"]


def test_dump_contains_decisions_of_each_mesh(tmp_path: Path) -> None:
    words = ["compile", str(EXAMPLES / "pipeline_stages.mlir"), "--target", "cpu", "-o", str(tmp_path / "m.mgx")]
    assert main([*words, "--dump", str(tmp_path / "dump")]) == 0
    decisions = json.loads((tmp_path / "dump" / "decisions.json").read_text())
    assert len(decisions["meshes"]) == len(decisions["mesh"]) > 1 and all(
        part["explained"] for part in decisions["meshes"]
    )
