// The example of shard.scatter.
shard.grid @grid0(shape = 2x2)
func.func @main(%0: tensor<2x2xi8>) -> tensor<1x2xi8> {
  %1 = shard.scatter %0 on @grid0 grid_axes = [0]
    scatter_axis = 0
    root = [1]
    : (tensor<2x2xi8>) -> tensor<1x2xi8>
  return %1 : tensor<1x2xi8>
}
