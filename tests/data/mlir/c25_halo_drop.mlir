// RUN: meshgen check %s --json
// REQUIRED: none
shard.grid @g(shape = 4)
func.func @reshard(%x: tensor<16x6xf32>) -> tensor<16x6xf32> {
  %src = shard.sharding @g split_axes = [[0]] halo_sizes = [1, 2] : !shard.sharding
  %dst = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %x0 = shard.shard %x to %src : tensor<16x6xf32>
  %x1 = shard.shard %x0 to %dst annotate_for_users : tensor<16x6xf32>
  return %x1 : tensor<16x6xf32>
}
