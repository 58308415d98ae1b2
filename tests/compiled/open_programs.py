"""Programs with an open mesh axis and an open dim, and modules compiled from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg

Array = np.ndarray[Any, Any]
# The rows of `x` are sharded over mesh axis 1 and its columns over mesh axis 0. The shards are uneven, and some are
# empty on more than five devices.
PROGRAM = """
shard.grid @g(shape = ?x2)
func.func @f(%x: tensor<?x12xf32>, %w: tensor<12x8xf32>) -> (tensor<?x8xf32>, tensor<?x12xf32>) {
  %s = shard.sharding @g split_axes = [[1], [0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<?x12xf32>
  %a = stablehlo.dot_general %xs, %w, contracting_dims = [1] x [0] : (tensor<?x12xf32>, tensor<12x8xf32>) -> tensor<?x8xf32>
  %b = stablehlo.tanh %a : tensor<?x8xf32>
  %c = stablehlo.negate %xs : tensor<?x12xf32>
  return %b, %c : tensor<?x8xf32>, tensor<?x12xf32>
}
"""


STAGES = """
shard.grid @a(shape = 2) {axis_names = ["x"]}
shard.grid @b(shape = 2) {axis_names = ["x"]}
func.func @f(%v: tensor<?xf32>) -> tensor<?xf32> {
  %s = shard.sharding @a split_axes = [[0]] : !shard.sharding
  %vs = shard.shard %v to %s : tensor<?xf32>
  %h = stablehlo.tanh %vs : tensor<?xf32>
  %t = shard.sharding @b split_axes = [[0]] : !shard.sharding
  %ht = shard.shard %h to %t : tensor<?xf32>
  %r = stablehlo.negate %ht : tensor<?xf32>
  return %r : tensor<?xf32>
}
"""
SIZES = [{"mesh": {"0": 2}, "args": {"x": (6, 12)}}, {"mesh": {"0": 3}, "args": {"x": "f32[5,12]"}}]


W = np.arange(96, dtype=np.float32).reshape(12, 8) / 100 - 0.5


def rows(count: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, 12)).astype(np.float32)


def written(path: Path, sizes: Sequence[Mapping[str, Any]] = SIZES, **options: Any) -> Path:
    exe = mg.compile(PROGRAM, target="cpu", sizes=sizes)
    exe.save(path, **options)
    return path


def assert_correct_results(module: Any, count: int) -> None:
    x = rows(count)
    b, c = module(x, W)
    # Each result is a sum of 12 rounded products, with an error of at most 13 eps times the sum of magnitudes. tanh
    # does not increase errors.
    np.testing.assert_allclose(b, np.tanh(x.astype(np.float64) @ W), rtol=0, atol=13 * 2.0**-23 * 12 * 4 * 0.5)
    np.testing.assert_array_equal(c, -x)
