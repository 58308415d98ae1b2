// The example of shard.shift, with its operand.
shard.grid @grid0(shape = 2x4)
func.func @main(%0: tensor<2xi8>) -> tensor<2xi8> {
  %1 = shard.shift %0 on @grid0 grid_axes = [1]
    shift_axis = 1 offset = 2 rotate
    : tensor<2xi8> -> tensor<2xi8>
  return %1 : tensor<2xi8>
}
