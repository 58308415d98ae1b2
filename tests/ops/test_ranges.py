"""Tests of integer ranges: the analysis derives them from the computation, and they contain every possible value."""

from __future__ import annotations

import pytest

from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.ranges import range_of


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("%v = stablehlo.constant dense<[[1, 7], [2, 5]]> : tensor<2x2xi32>", None, (1, 7)),
        ("%v = stablehlo.constant dense<[[1, 7], [2, 5]]> : tensor<2x2xi32>", (1, 1), (5, 7)),
        ("%v = stablehlo.convert %a : (tensor<2x2xi8>) -> tensor<2x2xi32>", (0, 1), (-128, 127)),
        ("%w = stablehlo.convert %a : (tensor<2x2xi8>) -> tensor<2x2xi32>\n"
         "%v = stablehlo.convert %w : (tensor<2x2xi32>) -> tensor<2x2xui8>", None, (0, 255)),
        ("%z = stablehlo.constant dense<3> : tensor<2x2xi8>\n %v = stablehlo.maximum %z, %a : tensor<2x2xi8>", None, (3, 127)),
        ("%z = stablehlo.constant dense<[-1, 4]> : tensor<2xi8>\n"
         "%w = stablehlo.broadcast_in_dim %z, dims = [0] : (tensor<2xi8>) -> tensor<2x2xi8>\n"
         "%v = stablehlo.minimum %w, %a : tensor<2x2xi8>", (0, 0), (-128, -1)),
        ("%z = stablehlo.constant dense<[[9, 9]]> : tensor<1x2xi8>\n"
         "%v = stablehlo.concatenate %a, %z, %a, dim = 0 : (tensor<2x2xi8>, tensor<1x2xi8>, tensor<2x2xi8>) -> tensor<5x2xi8>",
         (0, 2), (9, 9)),
        ("%v = stablehlo.add %a, %a : tensor<2x2xi8>", None, (-128, 127)),
    ],
)  # fmt: skip
def test_range_of_follows_the_computation(text: str, row: tuple[int, int] | None, expected: tuple[int, int]) -> None:
    kind = text.rsplit("tensor<", 1)[1]
    module = parse_text(
        f"func.func @main(%a: tensor<2x2xi8>) -> tensor<{kind} {{\n{text}\nreturn %v : tensor<{kind}\n}}"
    )
    graph = module.graph
    assert range_of(graph.outputs[0], graph.index.producers, row) == expected
