// RUN: meshgen check %s --json
// REQUIRED: all_to_all 1
shard.grid @g(shape = 4)
func.func @f(%x: tensor<2x8xf32>) -> tensor<8x2xf32> {
  %a = shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : tensor<2x8xf32> -> tensor<8x8xf32>
  %r = shard.all_slice %a on @g grid_axes = [0] slice_axis = 1 : tensor<8x8xf32> -> tensor<8x2xf32>
  return %r : tensor<8x2xf32>
}
