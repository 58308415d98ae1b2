"""Tests of the limit on nested regions during inlining."""

from __future__ import annotations

import pytest

from meshgen.errors import ProgramError
from meshgen.ir.limits import MAX_NESTING
from meshgen.ir.regions import nodes_with_depth
from meshgen.mlir.text import parse_text

T = "tensor<4xf32>"


def nested(depth: int, inside: str) -> str:
    """Return the statements `inside`, which define %t, wrapped in `depth` nested `if` ops."""
    for _ in range(depth):
        inside = f'%t = "stablehlo.if"(%p) ({{\n{inside}stablehlo.return %t : {T}\n}}, {{\nstablehlo.return %x : {T}\n}}) : (tensor<i1>) -> {T}\n'
    return inside


def function(name: str, body: str) -> str:
    return f"func.func {name}(%p: tensor<i1>, %x: {T}) -> {T} {{\n{body}return %t : {T}\n}}\n"


@pytest.mark.parametrize("around", [0, 1, 20, MAX_NESTING])
def test_nesting_limit_counts_regions_of_caller_and_callee(around: int) -> None:
    def program(inside: int) -> str:
        call = f"%t = func.call @f(%p, %x) : (tensor<i1>, {T}) -> {T}\n"
        callee = function("private @f", nested(inside, f"%t = stablehlo.tanh %x : {T}\n"))
        return f"module {{\n{function('@main', nested(around, call))}{callee}}}\n"

    graph = parse_text(program(MAX_NESTING - around)).graph
    assert max(depth for _, depth in nodes_with_depth(graph)) == MAX_NESTING
    with pytest.raises(ProgramError, match=f"nested {MAX_NESTING + 1} deep after inlining"):
        parse_text(program(MAX_NESTING - around + 1))
