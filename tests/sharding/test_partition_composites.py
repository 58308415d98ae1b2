"""Partition of composite ops: each factor sharded (also unevenly), with few messages per row."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check, simulate

STAGES = ("import", "propagate", "materialize", "optimize", "partition")
NORMALIZE = """module @normalize {
  sdy.mesh @mesh = <["x"=2, "y"=3]>
  func.func public @main(%x: tensor<4x5x7xf32> SPLIT, %g: tensor<4x5x7xf32> SPLIT, %s: tensor<7xf32>, %b: tensor<7xf32>) -> (tensor<4x5x7xf32> SPLIT, tensor<4x5x7xf32> SPLIT) {
    %y, %m, %v = "sched.normalize"(%x, %s, %b) <{factors = "b t d, d, d -> b t d, ROWS, ROWS", centered = true, epsilon = 1.0e-05 : f64}> : (tensor<4x5x7xf32>, tensor<7xf32>, tensor<7xf32>) -> (tensor<4x5x7xf32>, tensor<SIZESf32>, tensor<SIZESf32>)
    %f = stablehlo.rsqrt %v : tensor<SIZESf32>
    %d = "sched.normalize_gradient"(%g, %x, %m, %f, %s) <{factors = "b t d, b t d, ROWS, ROWS, d -> b t d", centered = true}> : (tensor<4x5x7xf32>, tensor<4x5x7xf32>, tensor<SIZESf32>, tensor<SIZESf32>, tensor<7xf32>) -> tensor<4x5x7xf32>
    return %y, %d : tensor<4x5x7xf32>, tensor<4x5x7xf32>
  }
}
"""


def with_split(text: str, *dims: str) -> Module:
    """Return the program with its values sharded: `dims` names the mesh axes of each dim."""
    listed = ", ".join("{" + ", ".join(f'"{axis}"' for axis in axes) + "}" for axes in dims)
    return parse_text(text.replace("SPLIT", f"{{sdy.sharding = #sdy.sharding<@mesh, [{listed}]>}}"))


def partitioned(module: Module) -> Module:
    """Return the local program, after checking its results and that the text of every stage parses back."""
    stages = run_stages(module, Options("cpu"), Timing(), "fuse")
    result = check(module, pipeline=lambda _: stages["fuse"])
    assert result.ok, result.faults
    for stage in STAGES:
        assert print_text(parse_text(text := print_text(stages[stage]))) == text
    return stages["partition"]


def collectives(module: Module) -> Counter[str]:
    return Counter(node.op for node in module.graph.nodes if node.op.startswith("all_"))


@pytest.mark.parametrize(
    "dims", [("", "", "x"), ("", "", "y"), ("x", "", "y"), ("", "", "xy"), ("", "y", "x"), ("y", "x", "")]
)
@pytest.mark.parametrize(("rows", "sizes"), [("b t", "4x5x"), ("b", "4x"), ("t", "5x"), ("()", "")])
def test_normalize_over_any_sharded_factor_is_correct(rows: str, sizes: str, dims: tuple[str, ...]) -> None:
    local = partitioned(with_split(NORMALIZE.replace("ROWS", rows).replace("SIZES", sizes), *dims))
    is_split = any(axes and name not in rows for name, axes in zip("btd", dims, strict=True))
    assert collectives(local) == ({"all_gather": 1, "all_reduce": 1} if is_split else {})


def test_normalize_of_sharded_rows_is_accurate_for_large_mean() -> None:
    module = with_split(NORMALIZE.replace("ROWS", "b t").replace("SIZES", "4x5x"), "", "", "xy")
    local = run_stages(module, Options("cpu"), Timing(), "partition")["partition"]
    x = np.random.default_rng(0).normal(5000, 1, (4, 5, 7)).astype(np.float32)
    ones, zeros = np.ones(7, np.float32), np.zeros(7, np.float32)
    result, _ = simulate(local, [x, x, ones, zeros], tolerance=None)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(result, expected, atol=2e-3)  # the mean has a rounding error of up to 5e-4


SCALED = """module @scaled {
  sdy.mesh @mesh = <["x"=2, "y"=3]>
  func.func public @main(%x: tensor<4x5x4x2xf32>, %w: tensor<7x5x4xui8> SPLIT, %s: tensor<7x5xf32>, %z: tensor<7x5xf32>) -> tensor<4x7xf32> {
    %r = "sched.scaled_dot"(%x, %w, %s, %z) <{factors = "m g i p, n g i, n g, n g -> m n", bits = 4 : i64}> : (tensor<4x5x4x2xf32>, tensor<7x5x4xui8>, tensor<7x5xf32>, tensor<7x5xf32>) -> tensor<4x7xf32>
    return %r : tensor<4x7xf32>
  }
}
"""


@pytest.mark.parametrize("dims", [("", "", ""), ("x", "", ""), ("", "x", ""), ("", "", "y"), ("x", "y", ""), ("y", "", "x"), ("", "xy", "")])  # fmt: skip
def test_scaled_dot_does_not_move_packed_weights(dims: tuple[str, ...]) -> None:
    local = partitioned(with_split(SCALED, *dims))
    (packed,) = (value for value in local.graph.inputs if value.type.dtype == "ui8")
    moved = [node for node in local.graph.nodes if node.op.startswith("all_") and node.operands[0] is packed]
    assert not moved
    summed = any(dims[1:])
    assert any(node.op in ("all_reduce", "reduce_scatter") for node in local.graph.nodes) == summed


CROSS_ENTROPY = """module @loss {
  sdy.mesh @mesh = <["x"=2, "y"=3]>
  func.func public @main(%x: tensor<4x7x5xf32> SPLIT, %t: tensor<4x5xi64>) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
    %l, %r = "sched.softmax_cross_entropy"(%x, %t) <{factors = "a v b, a b -> a b, a b"}> : (tensor<4x7x5xf32>, tensor<4x5xi64>) -> (tensor<4x5xf32>, tensor<4x5xf32>)
    return %l, %r : tensor<4x5xf32>, tensor<4x5xf32>
  }
}
"""


@pytest.mark.parametrize("dims", [("", "x", ""), ("", "y", ""), ("", "xy", ""), ("x", "y", ""), ("", "x", "y"), ("y", "", "x")])  # fmt: skip
def test_cross_entropy_over_sharded_classes_uses_two_all_reduces(dims: tuple[str, ...]) -> None:
    module = with_split(CROSS_ENTROPY, *dims)
    local = partitioned(module)
    assert local.graph.inputs[0].type.sizes == tuple(-(-size // {"": 1, "x": 2, "y": 3, "xy": 6}[axes]) for size, axes in zip((4, 7, 5), dims, strict=True))  # fmt: skip
    logits = np.random.default_rng(0).normal(0, 3, (4, 7, 5)).astype(np.float32)
    # Some rows have a label outside all classes, and some have one in the padding.
    labels = np.random.default_rng(1).integers(-1, 8, (4, 5))
    assert check(module, pipeline=lambda _: local, args=[logits, labels]).ok
    reductions = [node for node in local.graph.nodes if node.op == "all_reduce"]
    assert len(reductions) == (2 if dims[1] else 0)
