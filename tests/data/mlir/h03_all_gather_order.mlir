// RUN: meshgen check %s --json
// REQUIRED: all_gather 1
shard.grid @g(shape = 2x3)
func.func @f(%x: tensor<2x3xf32>) -> tensor<12x3xf32> {
  %r = shard.all_gather %x on @g grid_axes = [1, 0] gather_axis = 0 : tensor<2x3xf32> -> tensor<12x3xf32>
  return %r : tensor<12x3xf32>
}
