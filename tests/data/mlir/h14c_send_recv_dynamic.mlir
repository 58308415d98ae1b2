// RUN: meshgen check %s --json
// REQUIRED: all_reduce 1
shard.grid @g(shape = 4)
func.func @f(%x: tensor<2x3xf32>, %k: index) -> tensor<2x3xf32> {
  %s = shard.send %x on @g grid_axes = [0] destination = [%k] : (tensor<2x3xf32>, index) -> tensor<2x3xf32>
  %r = shard.recv %x on @g grid_axes = [0] source = [0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
