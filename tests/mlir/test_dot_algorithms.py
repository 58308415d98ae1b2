"""Tests of the `algorithm` of dot_general: it determines the dtype to which operands are rounded, and the precision."""

from __future__ import annotations

import pytest

from meshgen.mlir.text import parse_text
from meshgen.ops.precision import multiplied_as

DOT = """
func.func @main(%x: tensor<4x8x{kind}>, %y: tensor<8x4x{kind}>) -> tensor<4x4x{kind}> {{
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = {left}, rhs_precision_type = {left}, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = {count}, allow_imprecise_accumulation = false> : (tensor<4x8x{kind}>, tensor<8x4x{kind}>) -> tensor<4x4x{kind}>
  return %0 : tensor<4x4x{kind}>
}}"""


@pytest.mark.parametrize(
    "kind, left, count, ops, multiplied",
    [
        ("f32", "tf32", 1, ["dot_general"], "tf32"),
        ("f32", "tf32", 3, ["dot_general"], "tf32x3"),
        ("f32", "f32", 1, ["dot_general"], "f32"),
        ("f32", "bf16", 1, ["convert", "convert", "dot_general"], "bf16"),
        ("f32", "bf16", 3, ["dot_general"], "tf32x3"),
        ("f32", "bf16", 6, ["dot_general"], "f32"),
        ("f32", "bf16", 9, ["dot_general"], "f32"),
        ("bf16", "bf16", 1, ["dot_general", "convert"], "bf16"),
    ],
)
def test_dot_algorithm_sets_rounding_and_precision(
    kind: str, left: str, count: int, ops: list[str], multiplied: str
) -> None:
    graph = parse_text(DOT.format(kind=kind, left=left, count=count)).graph
    assert [node.op for node in graph.nodes] == ops
    (dot,) = (node for node in graph.nodes if node.op == "dot_general")
    assert multiplied_as(dot) == multiplied
