// Fold consecutive gathers, slices, reduce_scatters or shifts along one dim into one.
// RUN: meshgen opt %s --passes collective-chain-fold | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>) -> tensor<64x12xf32> {
  %a = shard.all_gather %p on @g grid_axes = [1] gather_axis = 0 : tensor<8x12xf32> -> tensor<16x12xf32>
  %r = shard.all_gather %a on @g grid_axes = [0] gather_axis = 0 : tensor<16x12xf32> -> tensor<64x12xf32>
  return %r : tensor<64x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %r = shard.all_gather %p on @g grid_axes = [0, 1] gather_axis = 0 : tensor<8x12xf32> -> tensor<64x12xf32>
// CHECK-NEXT: func.return %r : tensor<64x12xf32>
