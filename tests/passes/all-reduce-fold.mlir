// Fold an all_reduce of an all_reduce over other axes into one, and a sliced all_reduce into a reduce_scatter.
// RUN: meshgen opt %s --passes all-reduce-fold | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %a = shard.all_reduce %p on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
  %r = shard.all_reduce %a on @g grid_axes = [1] : tensor<8x12xf32> -> tensor<8x12xf32>
  return %r : tensor<8x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %r = shard.all_reduce %p on @g grid_axes = [0, 1] : tensor<8x12xf32> -> tensor<8x12xf32>
// CHECK-NEXT: func.return %r : tensor<8x12xf32>
