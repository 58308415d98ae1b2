// RUN: meshgen check %s --json
// REQUIRED: none
shard.grid @g(shape = 4)
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = shard.shift %x on @g grid_axes = [0] shift_axis = 0 offset = 1 rotate : tensor<4x8xf32> -> tensor<4x8xf32>
  %r = shard.shift %a on @g grid_axes = [0] shift_axis = 0 offset = -1 rotate : tensor<4x8xf32> -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
