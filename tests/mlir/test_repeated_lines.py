"""Tests of repeated lines: the parser reuses the parse and conversion of an earlier equal line, with the new line's own
values and location.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from xdsl.ir import Operation
from xdsl.traits import IsolatedFromAbove

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Node
from meshgen.mlir.conversion_replay import Recipe
from meshgen.mlir.parser import TextParser
from meshgen.mlir.repeated_lines import Lines
from meshgen.mlir.text import parse_text, print_text
from meshgen.mlir.verifying import visible_once
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.random_programs import program_of
from tests.trials import trials

T = "tensor<4xf32>"
EXAMPLES = [
    Path(__file__).parents[2] / "examples" / name for name in ("pipeline_stages.mlir", "transformer_block.mlir")
]


def nodes_of(
    *lines: str, arguments: str = f"%a: {T}, %b: {T}", is_written: bool = True, aliases: str = ""
) -> list[Node]:
    """Return the nodes of a function whose body is `lines`. The first of them is line 2 of the text."""
    returned = lines[-1].partition(" = ")[0]
    body = "\n".join(f"  {line}" for line in lines)
    text = f"func.func @main({arguments}) -> {T} {{\n{body}\n  return {returned} : {T}\n}}\n{aliases}"
    return parse_text(text, "t.mlir", is_written=is_written).graph.nodes


def faults_of(*lines: str) -> Sequence[Diagnostic]:
    with pytest.raises(ProgramError) as caught:
        nodes_of(*lines)
    return caught.value.diagnostics


def record_replays(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """Return a list to which each later replay of a conversion recipe is appended."""
    recipes: list[Recipe] = []
    follow = Recipe.follow

    def recorded_follow(self: Recipe, *args: object) -> object:
        recipes.append(self)
        return follow(self, *args)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Recipe, "follow", recorded_follow)
    return recipes


def record_parses(monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    """Return a list to which each operation that is later parsed from tokens is appended."""
    operations: list[Operation] = []
    parse = TextParser.parse_operation
    monkeypatch.setattr(TextParser, "parse_operation", lambda self: operations.append(parse(self)) or operations[-1])
    return operations


def test_lines_that_differ_in_location_share_a_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    operations = record_parses(monkeypatch)
    first, second = nodes_of(
        f"%0 = stablehlo.negate %a : {T} loc(#loc1)", f"%1 = stablehlo.negate %0 : {T} loc(#loc2)", is_written=False,
        aliases='#loc1 = loc("m.py":7:1)\n#loc2 = loc("f/layer_1/neg"("m.py":9:1))\n',
    )  # fmt: skip
    assert [operation.name for operation in operations].count("stablehlo.negate") == 1
    assert first.loc is not None and second.loc is not None
    assert [(loc.file, loc.line, loc.scope) for loc in (first.loc, second.loc)] == [
        ("m.py", 7, ""),
        ("m.py", 9, "f/layer_1"),
    ]
    assert second.result.loc == second.loc


def test_location_inside_a_comment_is_ignored() -> None:
    lines = [f"%{number} = stablehlo.negate %a : {T} // loc(#loc{number})" for number in (1, 2)]
    aliases = '#loc1 = loc("m.py":7:1)\n#loc2 = loc("m.py":9:1)\n'
    assert all(node.loc is None for node in nodes_of(*lines, is_written=False, aliases=aliases))


@pytest.mark.parametrize(
    "line",
    [
        "chlo.square {} : tensor<4xf32> -> tensor<4xf32>",
        "chlo.is_inf {} : tensor<4xf32> -> tensor<4xi1>",
        "stablehlo.convert {} : (tensor<4xf32>) -> tensor<4xf16>",
    ],
)
def test_multi_node_conversion_is_replayed(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = record_replays(monkeypatch)
    nodes = nodes_of(f"%0 = {line.format('%a')}", f"%1 = {line.format('%b')}", f"%2 = stablehlo.add %a, %b : {T}")
    assert len(recipes) == 1
    half = len(nodes) // 2
    assert [(node.op, node.attrs) for node in nodes[:half]] == [
        (node.op, node.attrs) for node in nodes[half : 2 * half]
    ]
    first, second = (
        {value.name for node in part for value in node.operands} for part in (nodes[:half], nodes[half:-1])
    )
    assert "a" in first and "b" not in first and "b" in second and "a" not in second
    assert {result.name for node in nodes[half:-1] for result in node.results} >= {"1"}


@pytest.mark.parametrize("pairs", [("aa", "ab", "bb"), ("ab", "aa", "ba"), ("ab", "ba", "aa")])
def test_line_with_equal_operands_is_not_reused_for_different_ones(pairs: Sequence[str]) -> None:
    nodes = nodes_of(*(f"%{number} = stablehlo.subtract %{x}, %{y} : {T}" for number, (x, y) in enumerate(pairs)))
    assert ["".join(value.name for value in node.operands) for node in nodes] == list(pairs)


def test_line_with_aliased_operands_is_not_reused_for_distinct_values() -> None:
    nodes = nodes_of(
        f"%0 = chlo.conj %a : {T} -> {T}", f"%1 = stablehlo.subtract %0, %a : {T}",
        f"%2 = stablehlo.subtract %b, %a : {T}", f"%3 = stablehlo.subtract %a, %b : {T}",
    )  # fmt: skip
    assert ["".join(value.name for value in node.operands) for node in nodes] == ["aa", "ba", "ab"]


def test_results_of_a_multi_result_op_stay_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    operations = record_parses(monkeypatch)
    sort = f'%0:2 = "stablehlo.sort"(%a, %b) <{{dimension = 0 : i64, is_stable = false}}> ({{\n^bb0(%c: tensor<f32>, %d: tensor<f32>, %e: tensor<f32>, %f: tensor<f32>):\n%g = stablehlo.compare LT, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %g : tensor<i1>\n}}) : ({T}, {T}) -> ({T}, {T})'
    nodes = nodes_of(sort, *(f"%{n + 1} = stablehlo.subtract %0#{n}, %0#{1 - n} : {T}" for n in (0, 1)))
    results = nodes[0].results
    assert [node.operands for node in nodes[1:]] == [results, results[::-1]]
    assert [operation.name for operation in operations].count("stablehlo.subtract") == 1


def test_pretty_reductions_share_a_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    operations, recipes = record_parses(monkeypatch), record_replays(monkeypatch)
    reduce = "stablehlo.reduce(%{} init: %i) applies stablehlo.maximum across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>"
    nodes = nodes_of(
        "%i = stablehlo.constant dense<0.0> : tensor<f32>", f"%0 = {reduce.format('a')}", f"%1 = {reduce.format('b')}",
        f"%2 = stablehlo.add %a, %b : {T}",
    )  # fmt: skip
    assert [node.attrs.kind for node in nodes if node.op == "reduce"] == ["maximum", "maximum"]
    assert [operation.name for operation in operations].count("stablehlo.reduce") == 1 and len(recipes) == 1


def test_every_malformed_line_is_reported() -> None:
    line = "stablehlo.transpose %{}, dims = [1] : (tensor<4xf32>) -> tensor<4xf32>"
    faults = faults_of(f"%0 = {line.format('a')}", f"%1 = {line.format('b')}", f"%2 = stablehlo.add %a, %b : {T}")
    assert [(fault.code, fault.loc and fault.loc.line) for fault in faults] == [("MG0104", 2), ("MG0104", 3)]


def test_value_of_another_function_is_refused_at_its_use() -> None:
    text = f"func.func private @f(%x: {T}) -> {T} {{\n%y = stablehlo.negate %x : {T}\nreturn %y : {T}\n}}\n%x = stablehlo.constant dense<0.0> : {T}\nfunc.func @main() -> {T} {{\n%y = stablehlo.negate %x : {T}\nreturn %y : {T}\n}}"
    with pytest.raises(ProgramError) as caught:
        parse_text(text, "t.mlir")
    messages = [(fault.message, fault.loc and fault.loc.line) for fault in caught.value.diagnostics]
    assert ("stablehlo.negate: operand 0 is used before it is defined", 7) in messages


def test_repeated_constraint_depends_on_its_context() -> None:
    """A second annotation of a value is for its users, even if an equal earlier line was a first annotation."""
    mesh = 'sdy.mesh @mesh = <["x"=2]>\n'
    line = '%{} = sdy.sharding_constraint %{} <@mesh, [{{"x"}}]> : tensor<4xf32>'
    other = "%{} = sdy.sharding_constraint %{} <@mesh, [{{}}]> : tensor<4xf32>"
    body = "\n".join([line.format(0, "a"), other.format(1, 0), line.format(2, 1)])
    text = f"{mesh}func.func @main(%a: {T}) -> {T} {{\n{body}\nreturn %2 : {T}\n}}"
    assert [node.attrs.as_result for node in parse_text(text).graph.nodes] == [True, False, False]


def test_patched_xdsl_verifier_is_restored_by_overlapping_threads() -> None:
    """Two threads patch the verifier. The first one may end first, so they cannot restore it in reverse order."""
    original, first, second = IsolatedFromAbove.verify, visible_once(), visible_once()
    first.__enter__()
    second.__enter__()
    assert IsolatedFromAbove.verify is not original
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert IsolatedFromAbove.verify is original


def parse_line_by_line(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Parse `text` without reusing earlier lines, and return the module as text."""
    with monkeypatch.context() as patch:
        patch.setattr(Lines, "replay", lambda *_: None)
        return print_text(parse_text(text))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_stage_text_parses_as_line_by_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = run_stages(parse_text(path.read_text()), Options("cpu"), Timing())
    for text in map(print_text, stages.values()):
        assert print_text(parse_text(text)) == parse_line_by_line(text, monkeypatch)


@pytest.mark.parametrize("seed", trials(20))
def test_random_program_parses_as_line_by_line(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = print_text(program_of(seed))
    assert print_text(parse_text(text)) == parse_line_by_line(text, monkeypatch)


def test_repeated_line_is_checked_on_its_own_values() -> None:
    text = """func.func @main(%a: tensor<4xf32>, %b: tensor<8xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %a : tensor<4xf32>
  %1 = stablehlo.negate %b : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0101" and fault.loc is not None and fault.loc.line == 3


def test_repeated_line_keeps_its_location_and_name() -> None:
    first, second = nodes_of(f"%0 = stablehlo.negate %a : {T}", f"%name = stablehlo.negate %0 : {T}")
    assert second.operands == first.results and second.result.name == "name"
    assert first.loc is not None and second.loc is not None and (first.loc.line, second.loc.line) == (2, 3)
