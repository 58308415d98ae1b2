// RUN: meshgen check %s --json
// REQUIRED: reject MG0204 "3 lists of axes, but f32[8,12] has rank 2"
shard.grid @g(shape = 4)
func.func @f(%x: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %s = shard.sharding @g split_axes = [[], [], [0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<8x12xf32>
  %a = tosa.abs %xs : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %a : tensor<8x12xf32>
}
