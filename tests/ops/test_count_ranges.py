"""Tests of the analysis that finds upper bounds of counts, such as histograms and their running totals."""

from __future__ import annotations

import pytest

from meshgen.mlir.text import parse_text
from meshgen.ops.count_ranges import is_ascending, largest_count

ADD = """({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  })"""
HISTOGRAM = f"""
  %zeros = stablehlo.constant dense<0> : tensor<8xi32>
  %ones = stablehlo.constant dense<1> : tensor<100xi32>
  %0 = "stablehlo.scatter"(%zeros, %i, %ones) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> {ADD} : (tensor<8xi32>, tensor<100x1xi32>, tensor<100xi32>) -> tensor<8xi32>"""
ONE_HOT = """
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %e = stablehlo.iota dim = 1 : tensor<100x8xi32>
  %k = stablehlo.broadcast_in_dim %i, dims = [0, 1] : (tensor<100x1xi32>) -> tensor<100x8xi32>
  %m = stablehlo.compare EQ, %k, %e : (tensor<100x8xi32>, tensor<100x8xi32>) -> tensor<100x8xi1>
  %n = stablehlo.convert %m : (tensor<100x8xi1>) -> tensor<100x8xi32>
  %0 = stablehlo.reduce(%n init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<100x8xi32>, tensor<i32>) -> tensor<8xi32>"""
GIVEN = """
  %0 = stablehlo.reshape %g : (tensor<8x1xi32>) -> tensor<8xi32>"""
DIFFERENCE = f"""{HISTOGRAM}
  %1 = stablehlo.subtract %0, %0 : tensor<8xi32>"""
TOO_MANY = f"""{HISTOGRAM}
  %far = stablehlo.constant dense<2147483600> : tensor<8xi32>
  %1 = stablehlo.add %far, %0 : tensor<8xi32>"""
TOTAL = """"stablehlo.reduce_window"({x}, %c) <{{window_dimensions = array<i64: 8>, padding = dense<[[{low}, {high}]]> : tensor<1x2xi64>}}> {add}
    : (tensor<8xi32>, tensor<i32>) -> tensor<8xi32>"""


def analyze_total(body: str, last: str, low: int = 7) -> tuple[int | None, bool]:
    """Return the largest count of `last`, a value that `body` defines, and whether the running total of `last` ascends."""
    total = TOTAL.format(x=last, low=low, high=7 - low, add=ADD)
    module = parse_text(f"""func.func @main(%i: tensor<100x1xi32>, %g: tensor<8x1xi32>) -> tensor<8xi32> {{{body}
  %c = stablehlo.constant dense<0> : tensor<i32>
  %t = {total}
  return %t : tensor<8xi32>
}}""")
    producer = module.graph.index.producers.get
    (total_value,) = module.graph.outputs
    node = producer(total_value)
    assert node is not None
    return largest_count(node.operands[0], producer), is_ascending(total_value, producer)


@pytest.mark.parametrize("body", [HISTOGRAM, ONE_HOT])
def test_histogram_counts_are_at_most_the_number_of_rows(body: str) -> None:
    assert analyze_total(body, "%0") == (100, True)


@pytest.mark.parametrize(("body", "last"), [(GIVEN, "%0"), (DIFFERENCE, "%1"), (TOO_MANY, "%1")])
def test_integers_that_may_wrap_or_be_negative_are_not_counts(body: str, last: str) -> None:
    assert analyze_total(body, last) == (None, False)


def test_suffix_total_does_not_ascend() -> None:
    assert analyze_total(HISTOGRAM, "%0", low=0) == (100, False)
