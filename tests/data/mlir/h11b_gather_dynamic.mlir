// RUN: meshgen check %s --json
// REQUIRED: all_gather 1
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<2x2xf32>, %k: index) -> tensor<2x4xf32> {
  %r = shard.gather %x on @g grid_axes = [1] gather_axis = 1 root = [%k] : (tensor<2x2xf32>, index) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}
