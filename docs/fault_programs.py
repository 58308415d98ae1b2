"""Short programs that cause the diagnostics explained in `faults.py`."""

from __future__ import annotations

PROGRAM = """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %b = stablehlo.tanh %a : tensor<8x4xf32>
  return %b : tensor<8x4xf32>
}
"""
CHECK = ("meshgen check p.mlir",)
BRANCHES = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32>, %b: tensor<2xi1>) -> tensor<4xf32> {
  %r = sdy.manual_computation(%a, %b) in_shardings=[<@mesh, [{"x"}]>, <@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%t: tensor<2xf32>, %m: tensor<1xi1>) {
    %i = stablehlo.reshape %m : (tensor<1xi1>) -> tensor<i1>
    %c = "stablehlo.if"(%i) ({
      %s = "stablehlo.all_reduce"(%t) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %u = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %u : tensor<f32>
      }) : (tensor<2xf32>) -> tensor<2xf32>
      stablehlo.return %s : tensor<2xf32>
    }, {
      stablehlo.return %t : tensor<2xf32>
    }) : (tensor<i1>) -> tensor<2xf32>
    sdy.return %c : tensor<2xf32>
  } : (tensor<4xf32>, tensor<2xi1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""
REVERSED = """func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %b = stablehlo.reverse %a, dims = [0] : tensor<8x4xf32>
  return %b : tensor<8x4xf32>
}
"""
TWO_CANDIDATES = """func.func @main(%a: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %b = stablehlo.negate %a : tensor<8x4xf32>
  %c = stablehlo.add %a, %b : tensor<8x4xf32>
  return %b, %c : tensor<8x4xf32>, tensor<8x4xf32>
}
"""
REDUCTION = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> tensor<4xf32> {
  %0 = sdy.all_reduce {"x"} %a out_sharding=<@mesh, [{}]> : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
REPEATED = """sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<4096x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %b: tensor<4096x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<4096x4096xf32> {
  %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %c : tensor<4096x4096xf32>
}
"""


def program(*changes: tuple[str, str]) -> dict[str, str]:
    """Return a file `p.mlir` with the text `PROGRAM`. Each pair in `changes` is a text and its replacement."""
    text = PROGRAM
    for old, new in changes:
        text = text.replace(old, new)
    return {"p.mlir": text}


def constraints(*shardings: str) -> dict[str, str]:
    """Return a program in which one value has a required sharding for each text in `shardings`. A text has the form of
    `split_axes`.
    """
    lines = "".join(
        f"  %s{i} = shard.sharding @g split_axes = {dims} : !shard.sharding\n  %v{i} = shard.shard %b to %s{i} : tensor<8x4xf32>\n"
        for i, dims in enumerate(shardings)
    )
    head = "shard.grid @g(shape = ?x2)\nfunc.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {\n  %b = stablehlo.tanh %a : tensor<8x4xf32>\n"
    return {"p.mlir": f"{head}{lines}  return %v0 : tensor<8x4xf32>\n}}\n"}
