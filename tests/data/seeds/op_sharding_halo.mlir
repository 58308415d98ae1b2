// The example of shard.sharding with a halo of one row before and two behind.
shard.grid @grid0(shape = 2x2x4)
func.func @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %halo_sharding = shard.sharding @grid0 split_axes = [[0]] halo_sizes = [1, 2]
  %sharded1 = shard.shard %arg0 to %halo_sharding : tensor<4x8xf32>
  %r = math.exp %sharded1 : tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
