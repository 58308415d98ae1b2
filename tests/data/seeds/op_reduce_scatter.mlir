// The example of shard.reduce_scatter.
shard.grid @grid0(shape = 2x2)
func.func @main(%0: tensor<2x2xf32>) -> tensor<1x2xf64> {
  %1 = shard.reduce_scatter %0 on @grid0 grid_axes = [1]
    reduction = <max> scatter_axis = 0
    : tensor<2x2xf32> -> tensor<1x2xf64>
  return %1 : tensor<1x2xf64>
}
