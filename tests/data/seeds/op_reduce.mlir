// The example of shard.reduce, on a grid that has the root [2, 3] over the axes [1, 0].
shard.grid @grid0(shape = 4x3)
func.func @main(%0: tensor<3x4xf32>) -> tensor<3x4xf64> {
  %1 = shard.reduce %0 on @grid0 grid_axes = [1, 0]
    reduction = <max> root = [2, 3]
    : (tensor<3x4xf32>) -> tensor<3x4xf64>
  return %1 : tensor<3x4xf64>
}
