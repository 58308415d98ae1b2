"""Test of multiply-add reductions across threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator.programs import cases_of

PROGRAM = """
func.func @main(%a: tensor<11x2x5x3xf32>, %b: tensor<11x1x5x3xf32>, %c: tensor<11x2x5x3xf32>) -> (tensor<11x2x5xf32>, tensor<11x5x3xf32>) {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %most = stablehlo.reduce(%a init: %least) applies stablehlo.maximum across dimensions = [3] : (tensor<11x2x5x3xf32>, tensor<f32>) -> tensor<11x2x5xf32>
  %wide = stablehlo.broadcast_in_dim %b, dims = [0, 1, 2, 3] : (tensor<11x1x5x3xf32>) -> tensor<11x2x5x3xf32>
  %product = stablehlo.multiply %wide, %c : tensor<11x2x5x3xf32>
  %sum = stablehlo.reduce(%product init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<11x2x5x3xf32>, tensor<f32>) -> tensor<11x5x3xf32>
  return %most, %sum : tensor<11x2x5xf32>, tensor<11x5x3xf32>
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_threads_with_the_same_sum_have_equal_bits(arch: str, tmp_path: Path) -> None:
    """Check sums that several threads write to one shared-memory address; the emulated GPU rejects unequal values."""
    pytest.importorskip("triton")
    path = tmp_path / "sums.mlir"
    path.write_text(PROGRAM)
    cases = list(cases_of(path, [arch]))
    assert any("reduce_add" in case.name for case in cases)
    assert all(case.excess(case.run()) <= 1 for case in cases)
