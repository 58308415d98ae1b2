"""`explain`: chains from a value to an annotation, and collectives by value and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen import api
from meshgen.cli import main
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Timing
from meshgen.reports.collectives import served
from meshgen.reports.explain import explain_collective, explanations
from meshgen.reports.what_if import annotated_with
from meshgen.sharding.propagate import propagate, solve
from meshgen.sharding.propagation.annotate import annotated
from meshgen.spec import P
from tests.programs import mlp
from tests.reports.explained import CHAIN, LOOP, document


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.mlir"
    path.write_text(CHAIN)
    return path


def test_chain_follows_rules_to_annotation(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (record,) = document(capsys, "explain", file, "%d")["explanations"]
    (chain,) = record["chains"]
    assert (chain["axis"], chain["state"]) == ("x", "splits dim 1")
    ties = [(t["value"], t["state"], t["op"], t["location"]["line"]) for t in chain["ties"]]
    assert ties == [
        ("%c", "splits dim 1", "exponential", 5),
        ("%b", "splits dim 0", "transpose", 4),
        ("%a", "splits dim 0", "tanh", 3),
    ]
    assert chain["ties"][1]["rule"] == "a b -> b a"
    assert chain["annotation"].startswith("required annotation [{x}, {}] of input %a")


def test_chain_of_annotated_input_names_only_its_annotation(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (record,) = document(capsys, "explain", file, "a")["explanations"]
    assert record["chains"][0]["ties"] == [] and "input %a" in record["chains"][0]["annotation"]


def test_explain_text_shows_chain(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(file), "4", "--target", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "%c = transpose" in out and "as %b splits dim 0, by transpose 'a b -> b a'" in out and "%d" not in out


def test_every_sharded_axis_has_chain_to_annotation() -> None:
    module = parse_text(mlp())
    executable = api.plan(module, target="cpu")
    for record in explanations(executable):
        axes = {axis for axis in ("x", "y") if axis in record["sharding"]}
        assert {chain["axis"] for chain in record["chains"]} == axes, record["value"]
        assert all("annotation [" in chain["annotation"] for chain in record["chains"])


def test_explain_solves_to_same_shardings_as_compile() -> None:
    module = parse_text(mlp(w1=("x", "y")))
    first, second = propagate(module), annotated(solve(module))
    assert first.in_shardings == second.in_shardings
    assert [n.sharding for n in first.graph.nodes] == [n.sharding for n in second.graph.nodes]


def test_collectives_are_looked_up_by_value_and_line() -> None:
    executable = api.plan(mlp(), target="cpu")
    (collective,) = served(executable)
    assert collective.is_about("%y") and collective.is_about(6) and collective.row.kind == "all_reduce"
    assert not collective.is_about("h")
    assert "all_reduce" in executable.explain("y") and "all_reduce" not in executable.explain("h")


def test_values_in_loops_are_explained() -> None:
    text = CHAIN.replace(
        "  %d = stablehlo.exponential %c : tensor<4x8xf32>\n",
        """  %z = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %k = stablehlo.constant dense<1> : tensor<i32>
  %w:2 = stablehlo.while(%i = %z, %u = %c) : tensor<i32>, tensor<4x8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %k : tensor<i32>
      %v = stablehlo.tanh %u : tensor<4x8xf32>
      stablehlo.return %j, %v : tensor<i32>, tensor<4x8xf32>
    }
  %d = stablehlo.exponential %w#1 : tensor<4x8xf32>
""",
    )
    (record,) = explanations(api.plan(text, target="cpu"), "v")
    assert record["op"] == "tanh" and record["sharding"] == "[{}, {x}]"
    assert record["chains"][0]["ties"][-1]["op"] == "tanh" and "input %a" in record["chains"][0]["annotation"]


def test_collective_is_explained_by_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mlp.mlir"
    path.write_text(mlp())
    (record,) = document(capsys, "explain", path, "--collective", 0)["explained"]
    assert record["number"] == 0 and record["source"] == "mlp.mlir:6" and record["edges"][0]["alternatives"]
    assert main(["explain", str(path), "--collective", "0", "--target", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "#0 all_reduce sum over y" in out and "instead: reduce_scatter, all_gather" in out
    assert main(["explain", str(path), "--collective", "1", "--target", "cpu"]) == 2
    assert "no collective 1" in capsys.readouterr().err


def test_program_with_explicit_collectives_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "local.mlir"
    path.write_text("""shard.grid @g(shape = 2x4)
func.func @f(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %b = shard.all_reduce %a on @g grid_axes = [1] : tensor<3x4xf32> -> tensor<3x4xf32>
  return %b : tensor<3x4xf32>
}""")
    figures = document(capsys, "explain", path, "--all")
    assert figures["counts"] == {"all_reduce": 1} and figures["explanations"] == []
    (record,) = document(capsys, "explain", path, "--collective", 0)["explained"]
    assert (
        record["why"] == "the program has an explicit all_reduce here (local.mlir:3)"
        and record["source"] == "local.mlir:3"
    )
    assert main(["explain", str(path), "%b", "--target", "cpu"]) == 2
    assert "after its shardings were chosen" in capsys.readouterr().err


def test_options_can_mix_with_positional_arguments(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("explain", str(file), "%c")
    for arguments in (
        [*words, "--target", "cpu"],
        [*words[:2], "--target", "cpu", "%c"],
        ["explain", "--target", "cpu", *words[1:]],
    ):
        assert main(arguments) == 0
        assert "%c = transpose" in capsys.readouterr().out
    assert main(["explain", str(file), "%c", "%d", "--target", "cpu"]) == 2
    assert "unrecognized arguments: %d" in capsys.readouterr().err


def test_loop_carried_value_is_explained_and_can_be_annotated() -> None:
    executable = api.plan(LOOP, target="cpu")
    (record,) = explanations(executable, "u")
    assert record["op"] == "argument of while" and record["spec"] == "_,_"
    assert "is estimated to take longer" in record["whole"]["x"] and "%a" in record["whole"]["x"]
    after = api.plan_module(annotated_with(parse_text(LOOP), {"u": P("x", None)}), executable.options, Timing())
    (*_, record) = explanations(after, "u")  # The annotation node has the same name, so it is the last record.
    assert record["sharding"] == "[{x}, {}]" and record["chains"][0]["annotation"].startswith(
        "required annotation [{x}"
    )


def test_merged_equal_values_are_explained_under_both_names() -> None:
    executable = api.plan(LOOP, target="cpu")
    (surviving,), (merged,) = (explanations(executable, name) for name in ("s", "t"))
    assert "it equals %s" in merged["note"] and surviving["note"] == ""
    assert (merged["value"], merged["location"]["line"]) == ("t", 14)
    assert [merged[key] for key in ("sharding", "chains", "whole")] == [
        surviving[key] for key in ("sharding", "chains", "whole")
    ]
    assert "it equals %s" in executable.explain("t")


def test_explanation_states_that_value_is_not_computed() -> None:
    """The dot's result is never computed, because slicing the weights makes two smaller dots."""
    text = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4096x64xf32>, %w: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<4096x128xf32> {
  %e = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<4096x64xf32>, tensor<64x256xf32>) -> tensor<4096x256xf32>
  %f = stablehlo.slice %e [0:4096, 0:128] : (tensor<4096x256xf32>) -> tensor<4096x128xf32>
  %g = stablehlo.slice %e [0:4096, 128:256] : (tensor<4096x256xf32>) -> tensor<4096x128xf32>
  %h = stablehlo.multiply %f, %g : tensor<4096x128xf32>
  return %h : tensor<4096x128xf32>
}"""
    executable = api.plan(text, target="cpu")
    (record,) = explanations(executable, "e")
    assert "it is not computed" in record["note"] and not record["chains"]
    assert "it is not computed" in executable.explain(3)


def test_number_of_value_instead_of_line_gets_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(CHAIN.replace("%d", "%70"))
    assert main(["explain", str(path), "70", "--target", "cpu"]) == 2
    assert "the value is %70" in capsys.readouterr().err


TWO_SUMS = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %b: tensor<8x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %s = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1] : (tensor<8x4096xf32>, tensor<8x4096xf32>) -> tensor<8x8xf32>
  %t = stablehlo.dot_general %b, %b, contracting_dims = [1] x [1] : (tensor<8x4096xf32>, tensor<8x4096xf32>) -> tensor<8x8xf32>
  return %s, %t : tensor<8x8xf32>, tensor<8x8xf32>
}
"""


def test_combined_collective_serves_edges_of_both_values() -> None:
    executable = api.plan(TWO_SUMS, target="cpu")
    (row,) = executable.comms
    (record,) = explain_collective(executable, 0)
    assert len(row.edges) == 2 and [edge["value"] for edge in record["edges"]] == ["s", "t"]
    (collective,) = served(executable)
    assert all(map(collective.is_about, ("s", "t", 3, 4))) and not collective.is_about("a")
    assert [
        node.notes.edges for node in parse_text(executable.as_text("partition")).graph.nodes if node.op == "all_reduce"
    ] == [row.edges]
