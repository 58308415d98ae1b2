// RUN: meshgen check %s --json
// REQUIRED: all_to_all 1
shard.grid @g(shape = 2x3)
func.func @f(%x: tensor<6x4xf32>) -> tensor<1x24xf32> {
  %r = shard.all_to_all %x on @g grid_axes = [1, 0] split_axis = 0 concat_axis = 1 : tensor<6x4xf32> -> tensor<1x24xf32>
  return %r : tensor<1x24xf32>
}
