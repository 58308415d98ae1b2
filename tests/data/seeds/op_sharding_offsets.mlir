// The example of shard.sharding with shards of given sizes: 4x2, 4x3, 4x4, 4x5.
shard.grid @grid1d_4(shape = 4)
func.func @main(%arg0: tensor<4x14xf32>) -> tensor<4x14xf32> {
  %sharding4 = shard.sharding @grid1d_4 split_axes = [[], [0]] sharded_dims_offsets = [0, 2, 5, 9, 14]
  %sharded2 = shard.shard %arg0 to %sharding4 : tensor<4x14xf32>
  %r = math.exp %sharded2 : tensor<4x14xf32>
  return %r : tensor<4x14xf32>
}
