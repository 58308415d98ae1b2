// The example of shard.all_to_all.
shard.grid @grid0(shape = 3)
func.func @main(%0: tensor<3x2xi8>) -> tensor<3x2xi8> {
  %1 = shard.all_to_all %0 on @grid0 grid_axes = [0]
    split_axis = 0 concat_axis = 0
    : tensor<3x2xi8> -> tensor<3x2xi8>
  return %1 : tensor<3x2xi8>
}
