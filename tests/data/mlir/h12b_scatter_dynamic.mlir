// RUN: meshgen check %s --json
// REQUIRED: reduce_scatter 1
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<2x2xf32>, %k: index) -> tensor<1x2xf32> {
  %r = shard.scatter %x on @g grid_axes = [0] scatter_axis = 0 root = [%k] : (tensor<2x2xf32>, index) -> tensor<1x2xf32>
  return %r : tensor<1x2xf32>
}
