// Add two reduced operands before the reduction, which then runs once (the RFC's Reassociate passes).
// RUN: meshgen opt %s --passes all-reduce-reassociate | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>, %q: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %a = shard.all_reduce %p on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
  %b = shard.all_reduce %q on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
  %r = stablehlo.add %a, %b : tensor<8x12xf32>
  return %r : tensor<8x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %r = stablehlo.add %p, %q : tensor<8x12xf32>
// CHECK-NEXT: %r_0 = shard.all_reduce %r on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
// CHECK-NEXT: func.return %r_0 : tensor<8x12xf32>
