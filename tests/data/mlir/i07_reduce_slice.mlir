// RUN: meshgen check %s --json
// REQUIRED: reduce_scatter 1
shard.grid @g(shape = 4)
func.func @f(%x: tensor<8x3xf32>) -> tensor<2x3xf32> {
  %s = shard.all_reduce %x on @g grid_axes = [0] : tensor<8x3xf32> -> tensor<8x3xf32>
  %r = shard.all_slice %s on @g grid_axes = [0] slice_axis = 0 : tensor<8x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
