// RUN: meshgen check %s --json
// REQUIRED: reject MG0104 "has no matching send"
shard.grid @g(shape = 4)
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = shard.recv %x on @g grid_axes = [0] source = [0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
