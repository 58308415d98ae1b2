// RUN: meshgen check %s --json
// REQUIRED: update_halo 1
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<6x5xf32>) -> tensor<6x5xf32> {
  %r = shard.update_halo %x on @g split_axes = [[0], [1]] halo_sizes = [1, 1, 2, 1] : tensor<6x5xf32>
  return %r : tensor<6x5xf32>
}
