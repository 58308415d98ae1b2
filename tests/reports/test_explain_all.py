"""Completeness of explanations over many programs.

Every axis of every value has a chain to an annotation; every collective has a reason and a source line.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meshgen import api
from meshgen.compiled.executable import Executable
from meshgen.ir.graph import Graph, Node
from meshgen.ir.reasons import reason_of
from meshgen.mlir.text import parse_text
from meshgen.reports.explain import explain_collective
from meshgen.reports.value_reasons import Known, known_of
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimize import optimize
from meshgen.sharding.propagate import solve
from meshgen.sharding.propagation.alternatives import overridden_hints
from meshgen.sharding.propagation.annotate import annotated
from meshgen.sharding.propagation.chains import Reasons
from meshgen.testing.random_graphs import random_program
from tests.acceptance.cases import realistic_names, small
from tests.plans import plan_of
from tests.programs import mlp
from tests.trials import trials

ROOT = Path(__file__).parents[2]
FILES = [
    *sorted((ROOT / "tests" / "data").glob("*.mlir")),
    *sorted((ROOT / "examples").glob("*.mlir")),
    *(path for path in map(small, realistic_names()) if path.exists()),
]


def assert_axes_have_chains(records: list[dict[str, Any]], explained: Known) -> None:
    assert explained.solved is not None
    for record in records:
        if record["note"]:  # The note says that the value is inside a manual computation or is a splat.
            reasons = ("the program says", "one number everywhere")
            assert any(reason in record["note"] for reason in reasons) and not record["chains"]
            continue
        chains = {chain["axis"]: chain for chain in record["chains"]}
        decided = set(explained.solved.decisions)
        assert set(chains) | set(record["whole"]) >= decided, record["value"]
        assert not set(chains) & set(record["whole"])
        for chain in chains.values():
            assert "annotation [" in chain["annotation"] or "sharding option of" in chain["annotation"], record
        assert all(why for why in record["whole"].values())


def all_nodes(graph: Graph) -> list[Node]:
    return [n for node in graph.nodes for region in node.regions for n in all_nodes(region)] + graph.nodes


def assert_used_axes_are_explained(explained: Known) -> None:
    """Check that a chain names each axis in the shardings. Splats are excepted: their users determine the sharding."""
    reasons, solved = explained.reasons, explained.solved
    assert reasons is not None and solved is not None
    for node in all_nodes(explained.module.graph):
        if node.sharding is None or node.op in ("while", "case", "if"):
            continue
        for value, sharding in zip(node.results, node.sharding.results, strict=True):
            parts = set(solved.axes.parts.refine(sharding.used_axes))
            if reasons.note(value):
                continue
            assert parts <= {part for chain in reasons.chains(value) for part in solved.axes.parts.refine([chain.axis])}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_axis_has_chain_and_every_collective_has_reason(path: Path) -> None:
    executable = plan_of(path)
    for part in executable.parts:
        if "import" not in part.stages:
            continue
        explained = known_of(part)
        assert_axes_have_chains(explained.values(), explained)
        assert_used_axes_are_explained(explained)
    assert_collectives_have_reasons(executable)


def assert_collectives_have_reasons(executable: Executable) -> None:
    for row in executable.comms:
        assert row.why and row.line, row
        assert all(word not in row.why for word in ("unknown", "None")), row.why


@pytest.mark.parametrize("seed", trials(15))
def test_every_axis_of_random_programs_is_explained(seed: int) -> None:
    module = random_program(seed)
    solved = solve(module)
    explained = Known(annotated(solved), module, solved, Reasons(solved), {})
    assert_axes_have_chains(explained.values(), explained)
    assert_used_axes_are_explained(explained)
    late = optimize(materialize(explained.module))
    assert all(reason_of(node) for node in all_nodes(late.graph) if node.op.startswith("all_") or node.op == "retile")


HEAD = 'sdy.mesh @mesh = <["x"=2, "y"=2]>\n'
ROWS = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'


def test_unsharded_axis_is_explained_as_unreached() -> None:
    module = parse_text(f"{HEAD}func.func @main(%a: tensor<8x4xf32> {ROWS}) -> tensor<8x4xf32> {{\n  %b = stablehlo.tanh %a : tensor<8x4xf32>\n  return %b : tensor<8x4xf32>\n}}")  # fmt: skip
    a, b = known_of(api.plan(module, target="cpu")).values()
    assert a["whole"]["y"].startswith("required annotation [{x}, {}] of %a") and "leaves y out" in a["whole"]["y"]
    assert b["whole"] == {"y": "no annotation reaches this value along y"}


def test_indivisible_reshape_dim_is_explained() -> None:
    """The minor dim of size 3 cannot be split into even halves."""
    text = f"""{HEAD}func.func @main(%a: tensor<6x4xf32> {ROWS}) -> tensor<2x3x4xf32> {{
  %b = stablehlo.reshape %a : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %c = stablehlo.reverse %b, dims = [0] : tensor<2x3x4xf32>
  return %c : tensor<2x3x4xf32>
}}"""
    b, c = (known_of(api.plan(text, target="cpu")).values(name)[0] for name in ("b", "c"))
    assert b["chains"][0]["state"] == "splits dim 0" and b["chains"][0]["ties"][0]["rule"] == "(a b) c -> a b c"
    assert set(c["whole"]) | {chain["axis"] for chain in c["chains"]} == {"x", "y"}


def test_overridden_hint_is_reported_with_its_cost() -> None:
    text = mlp(x=("x", ""), w1=("", "y"), w2=("y", ""), y=("x", ""))
    text = text.replace("  %t = stablehlo.tanh %h", '  %s = sdy.sharding_constraint %h <@mesh, [{"y"}, {"x"}]> : tensor<8x16xf32>\n  %t = stablehlo.tanh %s')  # fmt: skip
    for small_size, large in (("8x12", "4096x1024"), ("12x16", "1024x4096"), ("16x12", "4096x1024"), ("8x16", "4096x4096")):  # fmt: skip
        text = text.replace(small_size, large)
    module = parse_text(text)
    hint = next(node for node in module.graph.nodes if node.op == "annotate")
    hint.attrs = replace(hint.attrs, required=False)
    hints = list(overridden_hints(solve(module)))
    assert {(hint.axis, hint.asked, hint.chosen) for hint in hints} == {
        ("x", "splits dim 1", "it splits dim 0"),
        ("y", "splits dim 0", "it splits dim 1"),
    }
    assert all("us longer" in hint.why and hint.location for hint in hints)
    assert "Hints that lost" in api.plan(module, target="cpu").explain()


def test_collective_explanation_has_edge_chain_and_alternatives() -> None:
    (record,) = explain_collective(api.plan(mlp(), target="cpu"), 0)
    (edge,) = record["edges"]
    assert (edge["value"], edge["source"]) == ("y", "[{x}, {}] partial sum(y)")
    assert edge["alternatives"][0]["steps"] == ["reduce_scatter", "all_gather"]
    (chain,) = record["chains"]
    assert chain["axis"] == "y" and chain["annotation"].startswith("required annotation [{y}, {}] of input %w2")
    assert any("'y' on whole values" in rival["text"] for rival in record["rivals"])
