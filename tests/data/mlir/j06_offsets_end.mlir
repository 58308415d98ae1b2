// RUN: meshgen check %s --json
// REQUIRED: reject MG0204 "end at 7, but the dim has size 8"
shard.grid @g(shape = 4)
func.func @f(%x: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 2, 4, 6, 7] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<8x12xf32>
  %a = tosa.abs %xs : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %a : tensor<8x12xf32>
}
