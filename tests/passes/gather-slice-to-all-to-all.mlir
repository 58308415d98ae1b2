// Replace a gather along one dim that is sliced along another dim by an all_to_all.
// RUN: meshgen opt %s --passes gather-slice-to-all-to-all | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>) -> tensor<32x3xf32> {
  %a = shard.all_gather %p on @g grid_axes = [0] gather_axis = 0 : tensor<8x12xf32> -> tensor<32x12xf32>
  %r = shard.all_slice %a on @g grid_axes = [0] slice_axis = 1 : tensor<32x12xf32> -> tensor<32x3xf32>
  return %r : tensor<32x3xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %r = shard.all_to_all %p on @g grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<8x12xf32> -> tensor<32x3xf32>
// CHECK-NEXT: func.return %r : tensor<32x3xf32>
