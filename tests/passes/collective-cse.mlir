// Merge equal collectives of one value, together with the casts, layout changes and sums of their operands.
// RUN: meshgen opt %s --passes collective-cse | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %a = shard.all_reduce %p on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
  %b = shard.all_reduce %p on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
  %r = stablehlo.multiply %a, %b : tensor<8x12xf32>
  return %r : tensor<8x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %a = shard.all_reduce %p on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
// CHECK-NEXT: %r = stablehlo.multiply %a, %a : tensor<8x12xf32>
// CHECK-NEXT: func.return %r : tensor<8x12xf32>
