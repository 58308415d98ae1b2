// RUN: meshgen check %s --json
// REQUIRED: none
shard.grid @g(shape = 4)
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %r = shard.shift %x on @g grid_axes = [0] shift_axis = 0 offset = 4 rotate : tensor<2xf32> -> tensor<2xf32>
  return %r : tensor<2xf32>
}
