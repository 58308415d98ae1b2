// RUN: meshgen check %s --json
// REQUIRED: reduce_scatter 1
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<4x3xf32>) -> tensor<1x3xf32> {
  %r = shard.reduce_scatter %x on @g grid_axes = [1, 0] scatter_axis = 0 : tensor<4x3xf32> -> tensor<1x3xf32>
  return %r : tensor<1x3xf32>
}
