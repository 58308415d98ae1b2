// RUN: meshgen check %s --json
// REQUIRED: retile 1
shard.grid @g(shape = 2x2)
func.func @reshard(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %src = shard.sharding @g split_axes = [[0], [1]] sharded_dims_offsets = [0, 3, 8, 0, 5, 8] : !shard.sharding
  %dst = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %x0 = shard.shard %x to %src : tensor<8x8xf32>
  %x1 = shard.shard %x0 to %dst annotate_for_users : tensor<8x8xf32>
  return %x1 : tensor<8x8xf32>
}
