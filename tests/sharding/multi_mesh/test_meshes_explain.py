"""Explanations of programs on several meshes: chains over transfers, mesh assignment, and contents of transfers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.compiled.executable import Executable
from meshgen.compiled.multi_mesh import PartsExecutable
from meshgen.reports.explain import explain_collective, explanations

PROGRAM = """shard.grid @s0(shape = 2x2) {axis_names = ["dp", "tp"]}
shard.grid @s1(shape = 2) {axis_names = ["dp"]}
func.func @main(%x: tensor<64x32xf32> {meshgen.sharding = #meshgen.split<@s0, [["dp"], []]>}, %w0: tensor<32x64xf32> {meshgen.sharding = #meshgen.split<@s0, [[], ["tp"]]>}, %w1: tensor<64x32xf32>, %w2: tensor<32x16xf32>) -> tensor<64x16xf32> {
  %h = stablehlo.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  %a = stablehlo.tanh %h : tensor<64x64xf32>
  %k = stablehlo.dot_general %a, %w1, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %s = shard.sharding @s1 split_axes = [[], []] : !shard.sharding
  %p = shard.shard %k to %s {open_dims = array<i1: 1, 1>} : tensor<64x32xf32>
  %y = stablehlo.dot_general %p, %w2, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
  return %y : tensor<64x16xf32>
}
"""


@pytest.fixture(scope="module")
def executable() -> Executable:
    return mg.compile(PROGRAM, target="cpu")


def test_chain_follows_transfer_to_annotation(executable: Executable) -> None:
    (record,) = explanations(executable, "y")
    assert record["mesh"] == "s1" and record["placed"] == "its operands are there"
    (chain,) = record["chains"]
    assert chain["annotation"].startswith("required annotation [{dp}, {}] of input %x")
    ties = [(tie["value"], tie["op"]) for tie in chain["ties"]]
    assert ("%k on @s0", "transfer 0") in ties and ties[-1] == ("%x", "dot_general")
    assert record["rivals"]
    text = executable.explain("y")
    assert (
        "%y = dot_general on @s1 (its operands are there)" in text
        and "as %k on @s0 splits dim 0, by transfer 0" in text
    )


def test_chain_follows_transfer_to_annotated_output() -> None:
    def program(x: Any) -> Any:
        return mg.exp(mg.annotate(mg.tanh(mg.annotate(x, mesh="a")), mesh="b"))

    back = mg.compile(
        program, {"a": {"x": 2}, "b": {"x": 2}}, args=["f32[4096,64]"], out_specs=mg.P("x", mesh="b"), target="cpu"
    )
    (record,) = explanations(back, "x")
    (chain,) = record["chains"]
    assert record["mesh"] == "a" and "on @b" in "".join(tie["value"] for tie in chain["ties"])
    assert chain["annotation"].startswith("required annotation [{x}, {}] of output")


def test_transferred_value_is_explained_on_both_meshes(executable: Executable) -> None:
    producer, received, placed = explanations(executable, "k") + explanations(executable, "p")
    assert (producer["mesh"], producer["op"]) == ("s0", "dot_general")
    assert (received["mesh"], received["op"], received["type"]) == ("s1", "transfer_recv", "f32[64,32]")
    assert received["placed"].startswith("'k' is on @s0, an annotation puts it on @s1")
    assert (placed["mesh"], placed["op"]) == ("s1", "annotate")
    (weight,) = explanations(executable, "w2")
    assert weight["placed"] == "it is first used there"


def test_transfer_explanation_has_shardings_and_alternatives(executable: Executable) -> None:
    kinds = [(row.kind, row.mesh, row.way) for row in executable.comms]
    assert kinds == [
        ("reduce_scatter", "s0", "over tp"),
        ("transfer_send", "s0", "to @s1"),
        ("transfer_recv", "s1", "from @s0"),
    ]
    for collective_index in (1, 2):
        (record,) = explain_collective(executable, collective_index)
        assert record["number"] == collective_index
        crossing = record["crossing"]
        assert (crossing["made"], crossing["wanted"]) == ("[{dp}, {}] partial sum(tp)", "[{dp}, {}]")
        assert (crossing["source"], crossing["target"]) == ("[{dp,tp}, {}]", "[{dp}, {}]")
        assert crossing["alternatives"][0]["seconds"] >= crossing["seconds"] > 0
        assert {chain["value"] for chain in record["chains"]} == {"%k on @s0", "%k on @s1"}
    (record,) = explain_collective(executable, 0)
    assert record["mesh"] == "s0" and record["edges"] and "crossing" not in record
    assert "#1 transfer_send on @s0 to @s1" in executable.explain("k")


def test_step_time_covers_busy_time_of_every_mesh(executable: Executable) -> None:
    assert isinstance(executable, PartsExecutable)
    cost = executable.cost
    assert cost.serial_seconds >= cost.step_seconds
    for collective_index, part in enumerate(executable.parts):
        assert max(part.cost.serial_seconds / 2, 1e-9) < executable.busy_seconds(collective_index) <= cost.step_seconds
        ends = [s + item.seconds for s, item in zip(executable.started(collective_index), part.plan.items, strict=True)]
        assert max(ends) <= cost.step_seconds + 1e-12
    assert "busy for" in executable.explain()
    record = executable.record()
    assert [row["busy_seconds"] for row in record["parts"]] == [executable.busy_seconds(0), executable.busy_seconds(1)]


def test_report_has_timeline_of_every_mesh(executable: Executable, tmp_path: Path) -> None:
    executable.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    for text in ("@s0 computes", "@s1 communicates", "transfer_send to @s1 on @s0", "s1/dot", "[{}, {}] on @s1"):
        assert text in page


def test_what_if_moves_value_to_another_mesh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.mlir"
    file.write_text(PROGRAM)
    assert main(["explain", str(file), "--target", "cpu", "--what-if", "a=dp,_@s1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["changes"]["transfer_send"] == {"before": 1, "after": 1}
    assert any(row["kind"] == "transfer_send" and row["peer"] == "s1" for row in record["appear"])
    assert main(["explain", str(file), "--target", "cpu", "--what-if", "a=dp,_@s1"]) == 0
    assert "vanishes: transfer_send to @s1 of" in capsys.readouterr().out
    assert main(["explain", str(file), "--target", "cpu", "--what-if", "a=dp,_@s7"]) == 1
    assert "unknown mesh '@s7'" in capsys.readouterr().err


def test_specialization_on_several_meshes_is_explained() -> None:
    def stages(x: Any) -> Any:
        return mg.annotate(mg.tanh(x), mg.P("dp", mesh="b")) * 2.0

    meshes = {"a": {"dp": None}, "b": {"dp": 3}}
    exe = mg.compile(
        stages,
        meshes,
        args=["f32[6,4]"],
        in_specs={"x": mg.P("dp", mesh="a")},
        target="cpu",
        sizes=[{"mesh": {"a": {"dp": 2}}}],
    )
    sized = exe.at(mesh={"a": {"dp": 2}})
    assert [row.mesh for row in sized.comms] == ["a", "b"]
    line = sized.comms[0].line
    assert line is not None and "transfer_recv on @b from @a" in sized.explain(line)
