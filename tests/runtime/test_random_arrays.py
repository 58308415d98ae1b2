"""Test that random kernel operands satisfy the assumptions of the kernel body."""

from __future__ import annotations

import numpy as np

from meshgen import api
from meshgen.runtime.random_arrays import random_operands

SUMS = """func.func @main(%rows: tensor<40x8xf32>, %at: tensor<40x1xi32>) -> tensor<16x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<16x8xf32>
  %sums = "stablehlo.scatter"(%zero, %at, %rows) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = ORDERED} : (tensor<16x8xf32>, tensor<40x1xi32>, tensor<40x8xf32>) -> tensor<16x8xf32>
  return %sums : tensor<16x8xf32>
}
"""


def test_random_scatter_indices_are_sorted_if_required() -> None:
    (body,) = api.plan(SUMS.replace("ORDERED", "true"), target="cuda:sm_90").plan.kernels.values()
    by_type = {v.type.dtype: array for v, array in zip(body.inputs, random_operands(body, [0]), strict=True)}
    indices = by_type["i32"].ravel()
    assert (np.diff(indices) >= 0).all() and len(set(indices)) > 1
    assert not (np.diff(by_type["f32"].ravel()) >= 0).all()
