// shard.update_halo by its grammar, with sizes known as numbers and as values.
shard.grid @grid0(shape = 2x2)
func.func @main(%0: tensor<5x6xf32>) -> tensor<5x6xf32> {
  %two = arith.constant 2 : i64
  %1 = shard.update_halo %0 on @grid0 split_axes = [[0], [1]] halo_sizes = [1, 1, %two, 0] : tensor<5x6xf32>
  return %1 : tensor<5x6xf32>
}
