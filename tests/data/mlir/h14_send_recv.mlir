// RUN: meshgen check %s --json
// REQUIRED: recv 1, send 1
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %s = shard.send %x on @g grid_axes = [1] destination = [1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = shard.recv %x on @g grid_axes = [1] source = [0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
