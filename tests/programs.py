"""Small programs that several tests share."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.mesh import Axis, Mesh

MLP = """module @mlp {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%x: tensor<8x12xf32> {X}, %w1: tensor<12x16xf32> {W1}, %w2: tensor<16x12xf32> {W2}) -> (tensor<8x12xf32> {Y}) {
    %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<8x12xf32>, tensor<12x16xf32>) -> tensor<8x16xf32>
    %t = stablehlo.tanh %h : tensor<8x16xf32>
    %y = stablehlo.dot_general %t, %w2, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
    return %y : tensor<8x12xf32>
  }
}
"""
# A value with two contradictory required shardings.
CONFLICT = """shard.grid @mesh(shape = 2x2)
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = shard.sharding @mesh split_axes = [[0]] : !shard.sharding
  %t = shard.sharding @mesh split_axes = [[1]] : !shard.sharding
  %a = shard.shard %x to %s : tensor<8x8xf32>
  %b = shard.shard %x to %t : tensor<8x8xf32>
  %c = stablehlo.add %a, %b : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}
"""
# Devices on two hosts. The program has two independent all_reduces: one within hosts, one between hosts over a network.
HOSTS = Mesh((Axis("host", 2, bandwidth=10e9), Axis("gpu", 2)))
SPLIT = "{sdy.sharding = #sdy.sharding<@mesh, [%s]>}"
NETWORKED = f"""sdy.mesh @mesh = <["host"=2, "gpu"=2]>
func.func @main(%a: tensor<8x8xf32> {SPLIT % '{"host"}, {"gpu"}'}, %w: tensor<8x8xf32> {SPLIT % '{"gpu"}, {}'}) -> (tensor<8x8xf32> {SPLIT % '{"host"}, {}'}, tensor<8xf32> {SPLIT % "{}"}) {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.tanh %0 : tensor<8x8xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %3, %2 : tensor<8x8xf32>, tensor<8xf32>
}}
"""


def mlp(
    x: Sequence[str] = ("x", ""),
    w1: Sequence[str] = ("", "y"),
    w2: Sequence[str] = ("y", ""),
    y: Sequence[str] = ("x", ""),
) -> str:
    """Return a two-layer MLP. Each argument is the split of a tensor: a mesh axis per dim, or "" for an unsplit dim."""
    text = MLP
    for name, axes in (("{X}", x), ("{W1}", w1), ("{W2}", w2), ("{Y}", y)):
        dims = ", ".join(f'{{"{axis}"}}' if axis else "{}" for axis in axes)
        text = text.replace(name, f"{{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}")
    return text
