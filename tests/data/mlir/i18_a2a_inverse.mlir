// RUN: meshgen check %s --json
// REQUIRED: none
shard.grid @g(shape = 4)
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = shard.all_to_all %x on @g grid_axes = [0] split_axis = 1 concat_axis = 0 : tensor<4x8xf32> -> tensor<16x2xf32>
  %r = shard.all_to_all %a on @g grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<16x2xf32> -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
