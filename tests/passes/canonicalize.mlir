// Fold identities, merge common subexpressions, and erase dead code.
// RUN: meshgen opt %s --passes canonicalize | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<8x2xf32>) -> tensor<16xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<8x2xf32>
  %m = stablehlo.multiply %x, %one : tensor<8x2xf32>
  %a = stablehlo.reshape %m : (tensor<8x2xf32>) -> tensor<16xf32>
  %b = stablehlo.reshape %x : (tensor<8x2xf32>) -> tensor<16xf32>
  %dead = stablehlo.tanh %b : tensor<16xf32>
  %s = stablehlo.add %a, %b : tensor<16xf32>
  %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<16xf32> -> tensor<16xf32>
  return %r : tensor<16xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %a = stablehlo.reshape %x : (tensor<8x2xf32>) -> tensor<16xf32>
// CHECK-NEXT: %s = stablehlo.add %a, %a : tensor<16xf32>
// CHECK-NEXT: %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<16xf32> -> tensor<16xf32>
// CHECK-NEXT: func.return %r : tensor<16xf32>
