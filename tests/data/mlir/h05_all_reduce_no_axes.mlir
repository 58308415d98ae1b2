// RUN: meshgen check %s --json
// REQUIRED: none
shard.grid @g(shape = 4)
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = shard.all_reduce %x on @g : tensor<2x3xf32> -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
