// The offsets that the text of shard.sharding describes: the first device has 24x20x32, the last 8x12x32.
shard.grid @grid0(shape = 2x2)
func.func @main(%arg0: tensor<32x32x32xf32>) -> tensor<32x32x32xf32> {
  %s = shard.sharding @grid0 split_axes = [[0], [1]] sharded_dims_offsets = [0, 24, 32, 0, 20, 32] : !shard.sharding
  %0 = shard.shard %arg0 to %s : tensor<32x32x32xf32>
  return %0 : tensor<32x32x32xf32>
}
