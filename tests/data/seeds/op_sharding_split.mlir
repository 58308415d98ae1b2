// The examples of shard.sharding: replicated, and split along axis 0 of the grid.
shard.grid @grid0(shape = 2x2x4)
func.func @main(%arg0: tensor<4x8xf32>, %arg1: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %sharding0 = shard.sharding @grid0 split_axes = [[]]
  %sharding1 = shard.sharding @grid0 split_axes = [[0]]
  %sharded0 = shard.shard %arg0 to %sharding0 : tensor<4x8xf32>
  %sharded1 = shard.shard %arg1 to %sharding1 : tensor<4x8xf32>
  return %sharded0, %sharded1 : tensor<4x8xf32>, tensor<4x8xf32>
}
