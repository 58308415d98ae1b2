"""Lines like one before are read, verified and converted with it, and differ from it in their values, names and places only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from xdsl.ir import Operation
from xdsl.traits import IsolatedFromAbove

from meshgen.errors import Diagnostic, ProgramError
from meshgen.ir.graph import Node
from meshgen.mlir.alike import Lines
from meshgen.mlir.parser import TextParser
from meshgen.mlir.recipes import Recipe
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
    """The nodes of a function of these lines, the first of which is line 2 of the text."""
    returned = lines[-1].partition(" = ")[0]
    body = "\n".join(f"  {line}" for line in lines)
    text = f"func.func @main({arguments}) -> {T} {{\n{body}\n  return {returned} : {T}\n}}\n{aliases}"
    return parse_text(text, "t.mlir", is_written=is_written).graph.nodes


def faults_of(*lines: str) -> Sequence[Diagnostic]:
    with pytest.raises(ProgramError) as caught:
        nodes_of(*lines)
    return caught.value.diagnostics


def followed(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """The recipes that are followed from now on."""
    found: list[Recipe] = []
    follow = Recipe.follow

    def noted(self: Recipe, *args: object) -> object:
        found.append(self)
        return follow(self, *args)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Recipe, "follow", noted)
    return found


def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    """The operations that are split into tokens from now on."""
    found: list[Operation] = []
    parse = TextParser.parse_operation
    monkeypatch.setattr(TextParser, "parse_operation", lambda self: found.append(parse(self)) or found[-1])
    return found


def test_places_in_locations_do_not_tell_lines_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    read = parsed(monkeypatch)
    first, second = nodes_of(
        f"%0 = stablehlo.negate %a : {T} loc(#loc1)", f"%1 = stablehlo.negate %0 : {T} loc(#loc2)", is_written=False,
        aliases='#loc1 = loc("m.py":7:1)\n#loc2 = loc("f/layer_1/neg"("m.py":9:1))\n',
    )  # fmt: skip
    assert [operation.name for operation in read].count("stablehlo.negate") == 1
    assert first.loc is not None and second.loc is not None
    assert [(each.file, each.line, each.scope) for each in (first.loc, second.loc)] == [
        ("m.py", 7, ""),
        ("m.py", 9, "f/layer_1"),
    ]
    assert second.result.loc == second.loc


def test_a_comment_that_looks_like_a_location_is_none() -> None:
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
def test_what_becomes_several_nodes_is_converted_as_the_one_before(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = followed(monkeypatch)
    found = nodes_of(f"%0 = {line.format('%a')}", f"%1 = {line.format('%b')}", f"%2 = stablehlo.add %a, %b : {T}")
    assert len(recipes) == 1
    half = len(found) // 2
    assert [(node.op, node.attrs) for node in found[:half]] == [
        (node.op, node.attrs) for node in found[half : 2 * half]
    ]
    first, second = (
        {value.name for node in part for value in node.operands} for part in (found[:half], found[half:-1])
    )
    assert "a" in first and "b" not in first and "b" in second and "a" not in second
    assert {result.name for node in found[half:-1] for result in node.results} >= {"1"}


@pytest.mark.parametrize("pairs", [("aa", "ab", "bb"), ("ab", "aa", "ba"), ("ab", "ba", "aa")])
def test_operands_that_are_the_same_are_no_model_for_different_ones(pairs: Sequence[str]) -> None:
    found = nodes_of(*(f"%{number} = stablehlo.subtract %{x}, %{y} : {T}" for number, (x, y) in enumerate(pairs)))
    assert ["".join(value.name for value in node.operands) for node in found] == list(pairs)


def test_two_names_of_one_value_are_no_model_for_two_values() -> None:
    found = nodes_of(
        f"%0 = chlo.conj %a : {T} -> {T}", f"%1 = stablehlo.subtract %0, %a : {T}",
        f"%2 = stablehlo.subtract %b, %a : {T}", f"%3 = stablehlo.subtract %a, %b : {T}",
    )  # fmt: skip
    assert ["".join(value.name for value in node.operands) for node in found] == ["aa", "ba", "ab"]


def test_results_of_one_name_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    read = parsed(monkeypatch)
    sort = f'%0:2 = "stablehlo.sort"(%a, %b) <{{dimension = 0 : i64, is_stable = false}}> ({{\n^bb0(%c: tensor<f32>, %d: tensor<f32>, %e: tensor<f32>, %f: tensor<f32>):\n%g = stablehlo.compare LT, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %g : tensor<i1>\n}}) : ({T}, {T}) -> ({T}, {T})'
    found = nodes_of(sort, *(f"%{n + 1} = stablehlo.subtract %0#{n}, %0#{1 - n} : {T}" for n in (0, 1)))
    pack = found[0].results
    assert [node.operands for node in found[1:]] == [pack, pack[::-1]]
    assert [operation.name for operation in read].count("stablehlo.subtract") == 1


def test_reductions_share_what_they_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    read, recipes = parsed(monkeypatch), followed(monkeypatch)
    reduce = "stablehlo.reduce(%{} init: %i) applies stablehlo.maximum across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>"
    found = nodes_of(
        "%i = stablehlo.constant dense<0.0> : tensor<f32>", f"%0 = {reduce.format('a')}", f"%1 = {reduce.format('b')}",
        f"%2 = stablehlo.add %a, %b : {T}",
    )  # fmt: skip
    assert [node.attrs.kind for node in found if node.op == "reduce"] == ["maximum", "maximum"]
    assert [operation.name for operation in read].count("stablehlo.reduce") == 1 and len(recipes) == 1


def test_each_line_that_is_malformed_is_named() -> None:
    line = "stablehlo.transpose %{}, dims = [1] : (tensor<4xf32>) -> tensor<4xf32>"
    faults = faults_of(f"%0 = {line.format('a')}", f"%1 = {line.format('b')}", f"%2 = stablehlo.add %a, %b : {T}")
    assert [(fault.code, fault.loc and fault.loc.line) for fault in faults] == [("MG0104", 2), ("MG0104", 3)]


def test_a_value_of_another_function_is_refused_where_it_is_used() -> None:
    text = f"func.func private @f(%x: {T}) -> {T} {{\n%y = stablehlo.negate %x : {T}\nreturn %y : {T}\n}}\n%x = stablehlo.constant dense<0.0> : {T}\nfunc.func @main() -> {T} {{\n%y = stablehlo.negate %x : {T}\nreturn %y : {T}\n}}"
    with pytest.raises(ProgramError) as caught:
        parse_text(text, "t.mlir")
    found = [(fault.message, fault.loc and fault.loc.line) for fault in caught.value.diagnostics]
    assert ("stablehlo.negate: operand 0 is used before it is defined", 7) in found


def test_what_is_around_an_operation_counts_where_it_depends_on_it() -> None:
    """A second annotation of a value is of what is read from there on, whatever one like it before was."""
    mesh = 'sdy.mesh @mesh = <["x"=2]>\n'
    line = '%{} = sdy.sharding_constraint %{} <@mesh, [{{"x"}}]> : tensor<4xf32>'
    other = "%{} = sdy.sharding_constraint %{} <@mesh, [{{}}]> : tensor<4xf32>"
    body = "\n".join([line.format(0, "a"), other.format(1, 0), line.format(2, 1)])
    text = f"{mesh}func.func @main(%a: {T}) -> {T} {{\n{body}\nreturn %2 : {T}\n}}"
    assert [node.attrs.as_result for node in parse_text(text).graph.nodes] == [True, False, False]


def test_what_xdsl_checks_comes_back_when_threads_overlap() -> None:
    """Two that read at the same time do not end in the order in which they began."""
    own, first, second = IsolatedFromAbove.verify, visible_once(), visible_once()
    first.__enter__()
    second.__enter__()
    assert IsolatedFromAbove.verify is not own
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert IsolatedFromAbove.verify is own


def read_one_by_one(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a text says where every line is read by itself."""
    with monkeypatch.context() as patch:
        patch.setattr(Lines, "replay", lambda *_: None)
        return print_text(parse_text(text))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_stages_read_as_line_by_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = run_stages(parse_text(path.read_text()), Options("cpu"), Timing())
    for text in map(print_text, stages.values()):
        assert print_text(parse_text(text)) == read_one_by_one(text, monkeypatch)


@pytest.mark.parametrize("seed", trials(20))
def test_random_programs_read_as_line_by_line(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = print_text(program_of(seed))
    assert print_text(parse_text(text)) == read_one_by_one(text, monkeypatch)


def test_a_line_like_one_before_is_checked_on_its_own_values() -> None:
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


def test_a_line_like_one_before_keeps_its_own_place_and_name() -> None:
    first, second = nodes_of(f"%0 = stablehlo.negate %a : {T}", f"%name = stablehlo.negate %0 : {T}")
    assert second.operands == first.results and second.result.name == "name"
    assert first.loc is not None and second.loc is not None and (first.loc.line, second.loc.line) == (2, 3)
