// The example of shard.all_gather.
shard.grid @grid0(shape = 2x2)
func.func @main(%0: tensor<2x2xi8>) -> tensor<2x4xi8> {
  %1 = shard.all_gather %0 on @grid0 grid_axes = [1] gather_axis = 1
    : tensor<2x2xi8> -> tensor<2x4xi8>
  return %1 : tensor<2x4xi8>
}
