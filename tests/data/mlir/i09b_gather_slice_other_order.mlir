// RUN: meshgen check %s --json
// REQUIRED: permute_pairs 1
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %a = shard.all_gather %x on @g grid_axes = [0, 1] gather_axis = 0 : tensor<2x8xf32> -> tensor<8x8xf32>
  %r = shard.all_slice %a on @g grid_axes = [1, 0] slice_axis = 0 : tensor<8x8xf32> -> tensor<2x8xf32>
  return %r : tensor<2x8xf32>
}
