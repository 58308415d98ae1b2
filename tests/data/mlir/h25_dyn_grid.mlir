// RUN: meshgen check %s --json
// REQUIRED: all_reduce 1
shard.grid @g(shape = ?)
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = shard.all_reduce %x on @g grid_axes = [0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
