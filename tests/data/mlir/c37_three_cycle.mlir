// RUN: meshgen check %s --json
// REQUIRED: permute 1
shard.grid @g(shape = 2x2x2)
func.func @reshard(%x: tensor<8x8x8xf32>) -> tensor<8x8x8xf32> {
  %src = shard.sharding @g split_axes = [[0], [1], [2]] : !shard.sharding
  %dst = shard.sharding @g split_axes = [[1], [2], [0]] : !shard.sharding
  %x0 = shard.shard %x to %src : tensor<8x8x8xf32>
  %x1 = shard.shard %x0 to %dst annotate_for_users : tensor<8x8x8xf32>
  return %x1 : tensor<8x8x8xf32>
}
