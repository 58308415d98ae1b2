"""What is too large is refused with its line, before memory or time is spent on it."""

from __future__ import annotations

import pytest

from meshgen.errors import ProgramError
from meshgen.ir.inline import MAX_NODES
from meshgen.ir.text import parse_text


def function(kind: str) -> str:
    return f"func.func @main(%a: {kind}) -> {kind} {{\n  %b = stablehlo.tanh %a : {kind}\n  return %b : {kind}\n}}"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (f"tensor<{'1x' * 33}f32>", "a tensor of rank 33"),
        (f"tensor<{2**51 + 1}xf32>", "2^53 bytes and more; a tensor may have 2^53 at most"),
        (f"tensor<{2**60}x{2**60}xi8>", "bytes"),
        (f"tensor<{'9' * 400}xf32>", "bytes"),
    ],
)
def test_tensors_that_are_too_large_are_refused(kind: str, message: str) -> None:
    with pytest.raises(ProgramError, match="MG0108") as caught:
        parse_text(function(kind))
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", [f"tensor<{'1x' * 32}f32>", f"tensor<{2**51}xf32>", f"tensor<0x{2**60}xf32>"])
def test_what_is_just_not_too_large_is_read(kind: str) -> None:
    assert len(parse_text(function(kind)).graph.nodes) == 1


def test_calls_that_double_the_program_at_each_level_are_counted_first() -> None:
    levels = [
        f"func.func private @f{n}(%a: tensor<f32>) -> tensor<f32> {{\n"
        f"  %b = call @f{n + 1}(%a) : (tensor<f32>) -> tensor<f32>\n"
        f"  %c = call @f{n + 1}(%b) : (tensor<f32>) -> tensor<f32>\n  return %c : tensor<f32>\n}}"
        for n in range(60)
    ]
    last = "func.func private @f60(%a: tensor<f32>) -> tensor<f32> {\n  %b = stablehlo.tanh %a : tensor<f32>\n  return %b : tensor<f32>\n}"
    main = "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  %b = call @f0(%a) : (tensor<f32>) -> tensor<f32>\n  return %b : tensor<f32>\n}"
    with pytest.raises(ProgramError, match=r"MG0108.*2\^60 operations") as caught:
        parse_text("\n".join([*levels, last, main]))
    assert str(MAX_NODES) in str(caught.value) and caught.value.diagnostics[0].loc is not None


def test_functions_that_call_in_a_row_are_no_matter_of_depth() -> None:
    row = [
        f"func.func private @f{n}(%a: tensor<f32>) -> tensor<f32> {{\n"
        f"  %b = call @f{n + 1}(%a) : (tensor<f32>) -> tensor<f32>\n  return %b : tensor<f32>\n}}"
        for n in range(600)
    ]
    last = "func.func private @f600(%a: tensor<f32>) -> tensor<f32> {\n  %b = stablehlo.tanh %a : tensor<f32>\n  return %b : tensor<f32>\n}"
    main = "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  %b = call @f0(%a) : (tensor<f32>) -> tensor<f32>\n  return %b : tensor<f32>\n}"
    assert [node.op for node in parse_text("\n".join([*row, last, main])).graph.nodes] == ["tanh"]
