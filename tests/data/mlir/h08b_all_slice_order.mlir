// RUN: meshgen check %s --json
// REQUIRED: none
shard.grid @g(shape = 2x3)
func.func @f(%x: tensor<6x4xf32>) -> tensor<1x4xf32> {
  %r = shard.all_slice %x on @g grid_axes = [1, 0] slice_axis = 0 : tensor<6x4xf32> -> tensor<1x4xf32>
  return %r : tensor<1x4xf32>
}
