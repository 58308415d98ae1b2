// RUN: meshgen check %s --json
// REQUIRED: none
shard.grid @g(shape = 4)
func.func @f(%x: tensor<6x3xf32>) -> tensor<6x3xf32> {
  %r = shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [0, 0] : tensor<6x3xf32>
  return %r : tensor<6x3xf32>
}
