"""`explain --what-if`: the program with another annotation, and the changes to its collectives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.errors import UsageError
from meshgen.mlir.text import parse_text
from meshgen.reports.what_if import annotated_with
from meshgen.sharding.propagate import propagate
from meshgen.spec import P
from meshgen.testing.oracle import check
from tests.acceptance.cases import small
from tests.programs import mlp
from tests.reports.explained import CHAIN, document


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.mlir"
    path.write_text(CHAIN)
    return path


def test_what_if_adds_a_required_annotation(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = document(capsys, "explain", file)
    assert before["counts"] == {}
    after = document(capsys, "explain", file, "--what-if", "%c=x,_")
    assert after["changes"]["ring_bytes"] == {"before": 0, "after": after["ring_bytes"]} and after["ring_bytes"] > 0
    assert after["changes"]["all_to_all"] == {"before": 0, "after": 1}
    assert document(capsys, "explain", file, "--what-if", "4=x,_")["counts"] == after["counts"]
    assert [row["kind"] for row in after["appear"]] == ["all_to_all"] and after["vanish"] == []
    main(["explain", str(file), "--what-if", "%c=x,_", "--target", "cpu"])
    assert "If %c were [{x}, {}]" in capsys.readouterr().out


def test_what_if_of_an_input_replaces_its_annotation(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    after = document(capsys, "explain", file, "--what-if", "a=_,x", "--what-if", "d=x,_")
    assert after["counts"] == {} and after["what_if"] == {"a": "[{}, {x}]", "d": "[{x}, {}]"}


@pytest.mark.parametrize("name", ["%c", "b", "3", "a"])
def test_what_if_program_computes_same_result(name: str) -> None:
    module = annotated_with(parse_text(CHAIN), {name: P(None, "x")})

    def lowered(entered: Any) -> Any:
        return mg.lower(entered, stage="partition")

    assert check(module, pipeline=lowered).ok
    assert parse_text(CHAIN).graph.nodes[0].op == "tanh"  # The original program is unchanged.


def test_what_if_replaces_annotation_of_annotated_value() -> None:
    text = CHAIN.replace("  %c =", '  %s = sdy.sharding_constraint %b <@mesh, [{"x"}, {}]> : tensor<8x4xf32>\n  %c =').replace("%c = stablehlo.transpose %b", "%c = stablehlo.transpose %s")  # fmt: skip
    module = annotated_with(parse_text(text), {"s": P(None, "x")})
    annotations = [node.attrs.sharding for node in module.graph.nodes if node.op == "annotate"]
    assert annotations == [P(None, "x")]


@pytest.mark.parametrize(
    "what_if, text", [("nope=x,_", "unknown value 'nope'"), ("99=x,_", "unknown value '99'"), ("c", "NAME=SPEC")]
)
def test_malformed_what_if_is_usage_error(
    file: Path, capsys: pytest.CaptureFixture[str], what_if: str, text: str
) -> None:
    assert main(["explain", str(file), "--what-if", what_if]) == 2
    error = capsys.readouterr().err
    assert text in error and "MG0001" in error


def test_what_if_with_invalid_sharding_is_located(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(file), "--what-if", "c=q,_"]) == 1
    error = capsys.readouterr().err
    assert "MG0202" in error and "p.mlir:4" in error


def test_what_if_requires_program_before_propagation() -> None:
    late = propagate(parse_text(CHAIN))
    with pytest.raises(UsageError, match="after its shardings were chosen"):
        annotated_with(replace(late), {"c": P("x")})


def test_what_if_on_line_with_several_values_is_ambiguous(tmp_path: Path) -> None:
    text = CHAIN.replace(
        "  %c = stablehlo.transpose", "  %q = stablehlo.abs %b : tensor<8x4xf32>  %c = stablehlo.transpose"
    )
    with pytest.raises(UsageError, match="is 2 values"):
        annotated_with(parse_text(text), {"4": P("x")})


def test_what_if_lists_changed_collectives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the annotation of `w2`, the all_reduce vanishes and an all_gather appears."""
    path = tmp_path / "mlp.mlir"
    path.write_text(mlp())
    after = document(capsys, "explain", path, "--what-if", "w2=_,_")
    assert [row["kind"] for row in after["vanish"]] == ["all_reduce"]
    assert [row["kind"] for row in after["appear"]] == ["all_gather"]
    assert main(["explain", str(path), "--what-if", "w2=_,_", "--target", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "vanishes: all_reduce over y" in out and "appears: all_gather over y" in out and "mlp.mlir:" in out
    assert main(["explain", str(path), "--what-if", "w2=y,_", "--target", "cpu"]) == 0
    assert "the same collectives" in capsys.readouterr().out


def test_what_if_accepts_spec_printed_by_explain(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (record,) = document(capsys, "explain", file, "%d")["explanations"]
    assert record["spec"] == "_,x"
    changed = document(capsys, "explain", file, "--what-if", f"%d={record['spec']}")
    assert not changed["vanish"] and not changed["appear"]


WHAT_IF_CASES = [
    ("mlp_train_zero3", "arg4", "_,dp"), ("moe_ep_nohint", "arg0", "_,x,_"), ("attn_tp", "arg4", "_,_,tp"),
    ("conv_halo", "arg0", "h,_,_,_"), ("decode_heads", "arg1", "tp,_,_,_"), ("xent_vocab_onehot", "arg0", "_,_,tp"),
]  # fmt: skip


@pytest.mark.parametrize("name, value, spec", [case for case in WHAT_IF_CASES if small(case[0]).exists()])
def test_what_if_figures_equal_compiled_figures(
    name: str, value: str, spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    what_if_document = document(capsys, "explain", small(name), "--what-if", f"{value}={spec}")
    spec_document = document(capsys, "explain", small(name), "--spec", f"{value}={spec}")
    for figure in ("collectives", "counts", "ring_bytes", "peak_memory_bytes", "step_seconds", "kernels"):
        assert what_if_document[figure] == spec_document[figure], figure
    assert what_if_document["changes"]["ring_bytes"]["after"] == spec_document["ring_bytes"]
