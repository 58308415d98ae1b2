// RUN: meshgen check %s --json
// REQUIRED: reject MG0204 "halo of (3, 1) rows, but its shards have 2 (8 over 4 devices)"
shard.grid @g(shape = 4)
func.func @f(%x: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %s = shard.sharding @g split_axes = [[0]] halo_sizes = [3, 1] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<8x12xf32>
  %a = tosa.abs %xs : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %a : tensor<8x12xf32>
}
