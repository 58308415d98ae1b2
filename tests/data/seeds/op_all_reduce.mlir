// The example of shard.all_reduce: it accumulates in the result's element type.
shard.grid @grid0(shape = 3x4)
func.func @main(%0: tensor<3x4xf32>) -> tensor<3x4xf64> {
  %1 = shard.all_reduce %0 on @grid0 grid_axes = [1, 0] reduction = <max>
    : tensor<3x4xf32> -> tensor<3x4xf64>
  return %1 : tensor<3x4xf64>
}
