// shard.send and shard.recv by their grammar: device 2 of each group gets what device 0 has.
shard.grid @grid0(shape = 2x3)
func.func @main(%0: tensor<2xf32>) -> tensor<2xf32> {
  %1 = shard.send %0 on @grid0 grid_axes = [1] destination = [2] : (tensor<2xf32>) -> tensor<2xf32>
  %2 = shard.recv %0 on @grid0 grid_axes = [1] source = [0] : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}
