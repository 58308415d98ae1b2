"""Softmax over sharded rows that reads its elements once, also on uneven tiles and rows without a finite maximum."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ir.graph import Module
from meshgen.ir.matchers import depends_on
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check, simulate

TEXT = """module @softmax {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<5x9xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<5xf32>, tensor<5x9xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<5x9xf32>, tensor<f32>) -> tensor<5xf32>
    SHIFT
    %c = stablehlo.reshape %h : (tensor<5xf32>) -> tensor<5x1xf32>
    %w = stablehlo.broadcast_in_dim %c, dims = [0, 1] : (tensor<5x1xf32>) -> tensor<5x9xf32>
    %d = stablehlo.subtract %x, %w : tensor<5x9xf32>
    %e = stablehlo.exponential %d : tensor<5x9xf32>
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<5x9xf32>, tensor<f32>) -> tensor<5xf32>
    %v = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<5xf32>) -> tensor<5x9xf32>
    %p = stablehlo.divide %e, %v : tensor<5x9xf32>
    return %s, %p : tensor<5xf32>, tensor<5x9xf32>
  }
}
"""
PLAIN = "%i = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<f32>) -> tensor<5xf32>\n%h = stablehlo.maximum %i, %m : tensor<5xf32>"
FINITE = """%f = stablehlo.is_finite %m : (tensor<5xf32>) -> tensor<5xi1>
    %z = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<5xf32>
    %h = stablehlo.select %f, %m, %z : tensor<5xi1>, tensor<5xf32>"""


def program(shift: str) -> Module:
    return parse_text(TEXT.replace("SHIFT", shift))


def arguments() -> np.ndarray:
    """Return elements far from 0, and rows of -inf, with inf, with NaN, with tiles of -inf, and of small numbers."""
    x = np.random.default_rng(0).normal(-200, 30, (5, 9)).astype(np.float32)
    x[0], x[1, 3], x[2, 8], x[3, :6] = -np.inf, np.inf, np.nan, -np.inf
    return x


def sum_waits_for_maximum(module: Module) -> bool:
    """Whether the local sums depend on a maximum over all devices."""
    local = run_stages(module, Options("cpu"), Timing(), "partition")["partition"].graph
    maxima = {node.result for node in local.nodes if node.op == "all_reduce" and node.attrs.kind == "max"}
    sums = [node for node in local.nodes if node.op == "reduce" and node.attrs.kind == "add"]
    assert len(maxima) == len(sums) == 1
    return depends_on(sums[0].operands, maxima, local.index.producers.get)


@pytest.mark.parametrize("shift", [PLAIN, FINITE])
def test_sharded_softmax_reads_elements_once(shift: str) -> None:
    module = program(shift)
    stages = run_stages(module, Options("cpu"), Timing(), "fuse")
    assert not sum_waits_for_maximum(module) and check(module, pipeline=lambda _: stages["fuse"]).ok
    x = arguments()
    (sums, shares), expected = (
        simulate(stages["partition"], [x], tolerance=None),
        reference_row_sums(x, is_finite=shift == FINITE),
    )
    np.testing.assert_allclose(sums, expected, rtol=1e-6)
    np.testing.assert_allclose(shares.sum(1)[3:], 1, rtol=1e-6)


def reference_row_sums(x: np.ndarray, *, is_finite: bool) -> np.ndarray:
    """Return the row sums that the program should compute, in f64."""
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        top = wide.max(1)
        shift = np.where(np.isfinite(top), top, 0) if is_finite else top
        return np.exp(wide - shift[:, None]).sum(1)


def test_bf16_softmax_reads_elements_twice() -> None:
    assert sum_waits_for_maximum(
        parse_text(TEXT.replace("SHIFT", PLAIN).replace("f32", "bf16").replace("0xFF800000", "0xFF80"))
    )


def test_softmax_with_maximum_of_other_values_waits_for_maximum() -> None:
    other = "%a = stablehlo.abs %x : tensor<5x9xf32>\n%m = stablehlo.reduce(%a "
    assert sum_waits_for_maximum(parse_text(TEXT.replace("SHIFT", PLAIN).replace("%m = stablehlo.reduce(%x ", other)))
