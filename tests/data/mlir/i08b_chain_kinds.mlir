// RUN: meshgen check %s --json
// REQUIRED: all_reduce 2
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = shard.all_reduce %x on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
  %r = shard.all_reduce %a on @g grid_axes = [1] reduction = max : tensor<8xf32> -> tensor<8xf32>
  return %r : tensor<8xf32>
}
