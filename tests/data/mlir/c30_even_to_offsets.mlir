// RUN: meshgen check %s --json
// REQUIRED: retile 1
shard.grid @g(shape = 4)
func.func @reshard(%x: tensor<16x3xf32>) -> tensor<16x3xf32> {
  %src = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %dst = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 2, 5, 9, 16] : !shard.sharding
  %x0 = shard.shard %x to %src : tensor<16x3xf32>
  %x1 = shard.shard %x0 to %dst annotate_for_users : tensor<16x3xf32>
  return %x1 : tensor<16x3xf32>
}
