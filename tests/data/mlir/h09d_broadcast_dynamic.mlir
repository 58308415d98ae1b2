// RUN: meshgen check %s --json
// REQUIRED: all_reduce 1
shard.grid @g(shape = 2x3)
func.func @f(%x: tensor<2xf32>, %k: index) -> tensor<2xf32> {
  %r = shard.broadcast %x on @g grid_axes = [0] root = [%k] : (tensor<2xf32>, index) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
