// RUN: meshgen check %s --json
// REQUIRED: none
shard.grid @g(shape = 2x2)
func.func @reshard(%x: tensor<12x12xf32>) -> tensor<12x12xf32> {
  %src = shard.sharding @g split_axes = [[]] : !shard.sharding
  %dst = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %x0 = shard.shard %x to %src : tensor<12x12xf32>
  %x1 = shard.shard %x0 to %dst annotate_for_users : tensor<12x12xf32>
  return %x1 : tensor<12x12xf32>
}
