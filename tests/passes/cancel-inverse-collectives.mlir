// Remove a gather and a slice, or two all_to_alls, that are inverse to each other.
// RUN: meshgen opt %s --passes cancel-inverse-collectives | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %a = shard.all_gather %p on @g grid_axes = [0] gather_axis = 0 : tensor<8x12xf32> -> tensor<32x12xf32>
  %r = shard.all_slice %a on @g grid_axes = [0] slice_axis = 0 : tensor<32x12xf32> -> tensor<8x12xf32>
  return %r : tensor<8x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: func.return %p : tensor<8x12xf32>
