// Fold an all_reduce that is sliced along the same axes into a reduce_scatter.
// RUN: meshgen opt %s --passes all-reduce-fold | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>) -> tensor<2x12xf32> {
  %a = shard.all_reduce %p on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
  %r = shard.all_slice %a on @g grid_axes = [0] slice_axis = 0 : tensor<8x12xf32> -> tensor<2x12xf32>
  return %r : tensor<2x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %r = shard.reduce_scatter %p on @g grid_axes = [0] scatter_axis = 0 : tensor<8x12xf32> -> tensor<2x12xf32>
// CHECK-NEXT: func.return %r : tensor<2x12xf32>
