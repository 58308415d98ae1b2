"""Tests of refused programs: all errors are reported at once with their lines and a hint, never as a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from meshgen.errors import MeshgenError, ProgramError
from meshgen.mlir.text import parse_text
from tests.counting import calls

F = "tensor<4x6xf32>"


def faults(text: str, file: str = "m.mlir") -> list[tuple[str, str]]:
    with pytest.raises(ProgramError) as caught:
        parse_text(text, file)
    return [(fault.code, str(fault.loc)) for fault in caught.value.diagnostics]


def function(*lines: str) -> str:
    return f"func.func @main(%x: {F}) -> {F} {{\n" + "\n".join(lines) + f"\nreturn %x : {F}\n}}\n"


@pytest.mark.parametrize("text", ["", "  \n", "// nothing\n"])
def test_empty_text_is_refused(text: str) -> None:
    assert faults(text) == [("MG0102", "m.mlir")]


def test_each_unsupported_op_is_listed_once_before_other_faults() -> None:
    text = function(
        f"%0 = stablehlo.uniform_quantize %x : {F}",
        f'%1 = "custom.thing"(%x) : ({F}) -> {F}',
        f"%2 = stablehlo.uniform_quantize %x : {F}",
        "%3 = (",
    )
    assert faults(text) == [("MG0103", "m.mlir:2"), ("MG0103", "m.mlir:3")]


def test_malformed_ops_are_reported_together() -> None:
    text = function(
        f"%0 = stablehlo.transpose %x, dims = [0, 1] : ({F}) -> tensor<6x4xf32>",
        f'%1 = "stablehlo.add"(%x) : ({F}) -> {F}',
    )
    assert faults(text) == [("MG0104", "m.mlir:3")]  # errors of form are reported before errors of shape
    text = function(
        f"%0 = stablehlo.transpose %x, dims = [0, 1] : ({F}) -> tensor<6x4xf32>",
        f"%1 = stablehlo.slice %x [0:5, 0:6] : ({F}) -> tensor<5x6xf32>",
    )
    assert faults(text) == [("MG0104", "m.mlir:2"), ("MG0104", "m.mlir:3")]


def test_body_of_malformed_op_is_not_checked() -> None:
    text = f'"func.func"() <{{sym_name = "main"}}> ({{\n^bb0(%x: {F}):\n"func.return"(%x) : ({F}) -> ()\n}}) : () -> ()'
    assert faults(text) == [("MG0104", "m.mlir:1")]


def test_syntax_error_in_a_string_shows_line_and_caret() -> None:
    with pytest.raises(ProgramError) as caught:
        parse_text(function(f"%0 = stablehlo.add %x %x : {F}"), "-")
    shown = str(caught.value)
    assert "-:2: error MG0101" in shown
    line, caret = shown.splitlines()[-2:]
    assert line[caret.index("^")] == "%" and line[: caret.index("^")].endswith("stablehlo.add %x ")


def test_syntax_error_in_a_file_shows_its_line(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(function("%0 = stablehlo.add %x, %x : tensor<4x6xf99>"))
    with pytest.raises(ProgramError) as caught:
        parse_text(path.read_text(), str(path))
    assert "  | %0 = stablehlo.add" in str(caught.value)


@pytest.mark.parametrize(
    "line, location",
    [
        (f"%0 = stablehlo.add %x, %nowhere : {F}", "m.mlir:2"),
        ("%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>", "m.mlir:2"),
        ("%0 = stablehlo.constant dense<300> : tensor<3xi8>", "m.mlir:2"),
        ('%0 = stablehlo.constant dense<"0x00"> : tensor<3xf32>', "m.mlir:2"),
        (f'%0 = stablehlo.add %x, %x {{a = "b : {F}', "m.mlir:2"),
        (f"%0 = stablehlo.add %x, %x : {F}\n%0 = stablehlo.add %x, %x : {F}", "m.mlir:3"),
    ],
)
def test_unparsable_text_is_refused_at_its_line(line: str, location: str) -> None:
    assert faults(function(line)) == [("MG0101", location)]


@pytest.mark.parametrize("end", ["", "\n", "  // a note\n\n"])
def test_missing_closing_brace_is_reported_at_last_line(end: str) -> None:
    with pytest.raises(ProgramError, match="'}' at the end of the region") as caught:
        parse_text(f"func.func @main(%x: {F}) -> {F} {{{end}", "m.mlir")
    assert str(caught.value.diagnostics[0].loc) == "m.mlir:1"


def test_cf_branches_are_refused_with_a_hint() -> None:
    text = f"func.func @main(%x: {F}) -> {F} {{\n  cf.br ^end(%x : {F})\n^end(%y: {F}):\n  return %y : {F}\n}}"
    with pytest.raises(ProgramError, match="lift-cf-to-scf"):
        parse_text(text)


@pytest.mark.parametrize(
    "body", ["^a:\n^b:", '^a:\n"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()\n^b:']
)
def test_module_of_several_blocks_is_refused(body: str) -> None:
    module = '"builtin.module"() ({{\n{}\n}}) : () -> ()'
    assert faults(module.format(body)) == [("MG0104", "m.mlir:1")]
    assert faults(module.format(module.format(body))) == [("MG0104", "m.mlir:2")]


def test_use_before_definition_is_refused() -> None:
    text = function(f"%0 = stablehlo.tanh %1 : {F}", f"%1 = stablehlo.tanh %x : {F}")
    assert faults(text) == [("MG0104", "m.mlir:2")]


def test_unsupported_dtype_is_refused() -> None:
    text = function("%0 = stablehlo.iota dim = 0 : tensor<4xf4E2M1FN>")
    assert faults(text) == [("MG0103", "m.mlir:2")]


def test_invalid_functions_and_calls_are_refused() -> None:
    declaration = "func.func @a() { return }\n"
    assert faults(declaration + declaration.replace("@a", "@b")) == [("MG0104", "m.mlir:2")]
    assert faults(declaration.replace("@a", "private @a")) == [("MG0102", "m.mlir:1")]
    assert faults("// no function\nshard.grid @g(shape = 4)") == [("MG0102", "m.mlir:2")]
    call = f"%0 = func.call @f(%x) : ({F}) -> {F}"
    assert faults(function(call)) == [("MG0104", "m.mlir:2")]
    recursive = function(call) + function(call).replace("@main", "private @f")
    assert faults(recursive) == [("MG0103", "m.mlir:6")]
    mismatched = (
        function(call) + "func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    )
    assert faults(mismatched) == [("MG0104", "m.mlir:2")]
    assert faults(f"func.func @main(%x: {F}) {{\n %0 = stablehlo.tanh %x : {F}\n}}")[0][0] == "MG0104"


def test_unterminated_string_is_refused_in_linear_time() -> None:
    assert faults(function('%0 = "' + "a" * 5000))[0][0] == "MG0101"


def test_damaged_text_raises_only_meshgen_errors() -> None:
    rng = random.Random(11)
    text = function(
        f"%c = stablehlo.constant dense<1.0> : {F}",
        f"%0 = stablehlo.dot_general %x, %c, contracting_dims = [1] x [1] : ({F}, {F}) -> tensor<4x4xf32>",
        '"stablehlo.case"(%k) ({\nstablehlo.return\n}) : (tensor<i32>) -> ()',
    ).replace("(%x", "(%k: tensor<i32>, %x")
    parse_text(text)
    for _ in range(300):
        start, size = rng.randrange(len(text)), rng.randint(0, 3)
        damaged = text[:start] + rng.choice(["", "(", "]", '"', "%", "-1", ":", "<"]) + text[start + size :]
        try:
            parse_text(damaged)
        except MeshgenError as error:
            assert all(fault.message for fault in error.diagnostics)


GATHER = """%0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
 start_index_map = [0], FIELD>, slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<1x1xi32>) -> tensor<1x6xf32>"""
INDEX = "%i = stablehlo.constant dense<0> : tensor<1x1xi32>"


@pytest.mark.parametrize(
    "field", ["index_vectr_dim = 1", "index_vector_dim = 1 : i64", "index_vector_dim = 1; x = 2", "offset_dims = [0]"]
)
def test_unknown_gather_field_is_refused(field: str) -> None:
    """If a misspelled field were ignored, the field would keep its default value, and the gather would read wrong rows."""
    assert parse_text(function(INDEX, GATHER.replace("FIELD", "index_vector_dim = 1")))
    assert faults(function(INDEX, GATHER.replace("FIELD", field))) == [("MG0101", "m.mlir:3")]


@pytest.mark.parametrize("strides", ["2 : i64", '"2"', '["2", "2"]', "dense<2.0> : tensor<2xf32>"])
def test_window_strides_of_wrong_kind_are_refused(strides: str) -> None:
    window = f"""%z = stablehlo.constant dense<0.0> : tensor<f32>
%0 = "stablehlo.reduce_window"(%x, %z) <{{window_dimensions = array<i64: 1, 2>, window_strides = {strides}}}> ({{
^bb0(%p: tensor<f32>, %q: tensor<f32>):
  %s = stablehlo.add %p, %q : tensor<f32>
  stablehlo.return %s : tensor<f32>
}}) : ({F}, tensor<f32>) -> tensor<4x5xf32>"""
    assert faults(function(window)) == [("MG0104", "m.mlir:3")]


def test_unknown_rng_distribution_is_refused() -> None:
    lines = [
        "%a, %b = stablehlo.constant dense<0.0> : tensor<f32>".replace(", %b", ""),
        "%s = stablehlo.constant dense<3> : tensor<1xi64>",
        "%0 = stablehlo.rng %a, %a, %s, distribution = CAUCHY : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>",
    ]
    assert ("MG0104", "m.mlir:4") in faults(function(*lines))


@pytest.mark.parametrize("literal", ["1.0", "[1.0, 2.0]", '"0x0000803F"', ""])
def test_constant_of_unknown_size_is_refused(literal: str) -> None:
    text = f"func.func @main() -> tensor<?xf32> {{\n  %0 = stablehlo.constant dense<{literal}> : tensor<?xf32>\n  return %0 : tensor<?xf32>\n}}"
    with pytest.raises(ProgramError, match=r":2: error MG0101.*a tensor type of static shape"):
        parse_text(text)


@pytest.mark.parametrize("name", ["reduce_window", "select_and_scatter", "reduce", "sort", "map", "concatenate"])
def test_op_without_operands_is_refused(name: str) -> None:
    """All ops in the list need at least one operand."""
    fold = "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n    %1 = stablehlo.add %x, %y : tensor<f32>\n    stablehlo.return %1 : tensor<f32>\n  "
    body = "" if name == "concatenate" else f" ({{\n  {fold}}})"
    attrs = "{dimension = 0 : i64, dimensions = array<i64: 0>, window_dimensions = array<i64: 2>}"
    text = f'func.func @main() -> tensor<2xf32> {{\n  %0 = "stablehlo.{name}"(){body} {attrs} : () -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}}'
    with pytest.raises(ProgramError, match=r":2: error MG010[14]"):
        parse_text(text)


def test_many_faults_are_reported_in_linear_time() -> None:
    """No error may hold a copy of the text of the whole program."""

    def work(count: int) -> int:
        lines = [f'%{i} = "stablehlo.add"(%x, %x, %x) : ({F}, {F}, {F}) -> tensor<{i + 1}x6xf32>' for i in range(count)]
        call_count, reported = calls(lambda: faults(function(*lines)))
        assert reported == [("MG0104", "m.mlir:2")]
        return call_count

    assert work(160) < 2.5 * work(80)


def test_invalid_value_name_is_refused() -> None:
    text = "func.func @main(%\N{LATIN SMALL LIGATURE FF}: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
    with pytest.raises(ProgramError, match=r"MG0101: Expected suffix identifier after '%'"):
        parse_text(text, "p.mlir")
