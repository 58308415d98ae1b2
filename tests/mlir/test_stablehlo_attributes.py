"""Tests of StableHLO attributes in forms that tools other than JAX print."""

from __future__ import annotations

import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text, print_text

RAW = """func.func @main(%a: tensor<1x4x5x3xf32>, %k: tensor<2x3x3x6xf32>) -> tensor<1x6x3x3xf32> {
  %0 = "stablehlo.convolution"(%a, %k) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<NUMBERS>} : (tensor<1x4x5x3xf32>, tensor<2x3x3x6xf32>) -> tensor<1x6x3x3xf32>
  return %0 : tensor<1x6x3x3xf32>
}"""
NUMBERS = """raw input_batch_dimension = 0, input_feature_dimension = 3, input_spatial_dimensions = [1, 2],
    kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3, kernel_spatial_dimensions = [0, 1],
    output_batch_dimension = 0, output_feature_dimension = 1, output_spatial_dimensions = [2, 3]"""
ACCURATE = "exponential exponential_minus_one log log_plus_one logistic tanh sqrt rsqrt cbrt sine cosine tan"


def test_raw_dimension_numbers_import_like_bracketed_ones() -> None:
    raw = parse_text(RAW.replace("NUMBERS", NUMBERS))
    assert print_text(raw) == print_text(parse_text(RAW.replace("NUMBERS", "[b, 0, 1, f]x[0, 1, i, o]->[b, f, 0, 1]")))
    short = NUMBERS.replace("input_batch_dimension = 0, ", "", 1).replace("output_batch_dimension = 0, ", "")
    assert print_text(parse_text(RAW.replace("NUMBERS", short))) == print_text(raw), "omitted dimension numbers are 0"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("input_spatial_dimensions = [1, 2]", "input_spatial_dimensions = [1, 3]", "dims of the input must be numbered"),
        ("kernel_spatial_dimensions = [0, 1]", "kernel_spatial_dimensions = [0, 4]", "dims of the kernel must be numbered"),
        ("output_batch_dimension", "output_dimension", "unknown field 'output_dimension'"),
        ("= 0, input_feature", "= 0 input_feature", "expected a list of fields"),
    ],
)  # fmt: skip
def test_invalid_raw_dimension_numbers_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        parse_text(RAW.replace("NUMBERS", NUMBERS.replace(old, new)))
    assert caught.value.diagnostics[0].code == "MG0101"


ACCURACY = [
    "mode = #stablehlo.result_accuracy_mode<HIGHEST>",
    "atol = 1.000000e-05, rtol = 0.000000e+00, ulps = 1, mode = #stablehlo.result_accuracy_mode<TOLERANCE>",
]


@pytest.mark.parametrize("accuracy", ACCURACY, ids=["mode", "tolerance"])
@pytest.mark.parametrize("op", ACCURATE.split())
def test_result_accuracy_is_accepted_and_ignored(op: str, accuracy: str) -> None:
    attribute = f"result_accuracy = #stablehlo.result_accuracy<{accuracy}>"
    pretty = f"stablehlo.{op} %a {{{attribute}}} : tensor<8xf32>"
    generic = f'"stablehlo.{op}"(%a) <{{{attribute}}}> : (tensor<8xf32>) -> tensor<8xf32>'
    for operation in (pretty, generic):
        text = f"func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{\n  %0 = {operation}\n  return %0 : tensor<8xf32>\n}}"
        (node,) = parse_text(text).graph.nodes
        assert (node.op, dict(node.attrs)) == (op, {})
