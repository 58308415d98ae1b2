"""Tests of the functions of the `check_builds` script, which converts programs to bf16 and builds their kernels."""

from __future__ import annotations

import pytest
from check_builds import as_bf16, bodies_of, built

ATTENTION = """func.func @main(%x: tensor<256x512xf32>, %w: tensor<512x512xf32>) -> tensor<256x512xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32>
  %m = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<256x512xf32>, tensor<f32>) -> tensor<256xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<256xf32>) -> tensor<256x512xf32>
  %d = stablehlo.subtract %s, %b : tensor<256x512xf32>
  %e = stablehlo.exponential %d : tensor<256x512xf32>
  %t = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<256x512xf32>, tensor<f32>) -> tensor<256xf32>
  %u = stablehlo.broadcast_in_dim %t, dims = [0] : (tensor<256xf32>) -> tensor<256x512xf32>
  %r = stablehlo.divide %e, %u : tensor<256x512xf32>
  return %r : tensor<256x512xf32>
}
"""


def test_bf16_conversion_truncates_constant_bits() -> None:
    text = as_bf16(ATTENTION)
    assert "dense<0xFF80> : tensor<bf16>" in text and "xbf16>" in text and "xf32" not in text


@pytest.mark.parametrize("arch, units", [("sm_80", "HMMA"), ("sm_90", "HGMMA"), ("sm_100", "UTCHMMA")])
def test_bf16_attention_kernels_do_not_spill(arch: str, units: str) -> None:
    ((mesh, bodies),) = bodies_of(as_bf16(ATTENTION), arch)
    kernels = built(mesh, bodies, arch)
    assert len(kernels) == 2 and not any(kernel.spill_bytes for kernel in kernels.values())
    assert sum(units in kernel.instructions for kernel in kernels.values()) == 1
