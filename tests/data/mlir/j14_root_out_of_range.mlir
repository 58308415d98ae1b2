// RUN: meshgen check %s --json
// REQUIRED: reject MG0104 "coordinate 4 is outside axis '0' of size 4"
shard.grid @g(shape = 4)
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = shard.broadcast %x on @g grid_axes = [0] root = [4] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
