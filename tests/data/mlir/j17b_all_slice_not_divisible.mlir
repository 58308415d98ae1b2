// RUN: meshgen check %s --json
// REQUIRED: reject MG0104 "cannot be cut into 4 equal parts (6 % 4 = 2)"
shard.grid @g(shape = 4)
func.func @f(%x: tensor<6x3xf32>) -> tensor<1x3xf32> {
  %r = shard.all_slice %x on @g grid_axes = [0] slice_axis = 0 : tensor<6x3xf32> -> tensor<1x3xf32>
  return %r : tensor<1x3xf32>
}
