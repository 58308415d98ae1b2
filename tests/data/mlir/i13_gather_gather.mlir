// RUN: meshgen check %s --json
// REQUIRED: all_gather 1
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<2x8xf32>) -> tensor<8x8xf32> {
  %a = shard.all_gather %x on @g grid_axes = [1] gather_axis = 0 : tensor<2x8xf32> -> tensor<4x8xf32>
  %r = shard.all_gather %a on @g grid_axes = [0] gather_axis = 0 : tensor<4x8xf32> -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
