// The example of shard.broadcast.
shard.grid @grid0(shape = 2x2)
func.func @main(%0: tensor<2xi8>) -> tensor<2xi8> {
  %1 = shard.broadcast %0 on @grid0
    grid_axes = [0]
    root = [0]
    : (tensor<2xi8>) -> tensor<2xi8>
  return %1 : tensor<2xi8>
}
