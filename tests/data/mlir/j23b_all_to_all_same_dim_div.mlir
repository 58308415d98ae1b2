// RUN: meshgen check %s --json
// REQUIRED: reject MG0104 "not a multiple of the 4 devices of a group (6 % 4 = 2)"
shard.grid @g(shape = 4)
func.func @f(%x: tensor<6x3xf32>) -> tensor<6x3xf32> {
  %r = shard.all_to_all %x on @g grid_axes = [0] split_axis = 0 concat_axis = 0 : tensor<6x3xf32> -> tensor<6x3xf32>
  return %r : tensor<6x3xf32>
}
