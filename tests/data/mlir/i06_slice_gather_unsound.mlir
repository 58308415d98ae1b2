// RUN: meshgen check %s --json
// REQUIRED: all_gather 1
shard.grid @g(shape = 4)
func.func @f(%x: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %a = shard.all_slice %x on @g grid_axes = [0] slice_axis = 0 : tensor<8x3xf32> -> tensor<2x3xf32>
  %r = shard.all_gather %a on @g grid_axes = [0] gather_axis = 0 : tensor<2x3xf32> -> tensor<8x3xf32>
  return %r : tensor<8x3xf32>
}
