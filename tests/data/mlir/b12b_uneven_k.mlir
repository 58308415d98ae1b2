// RUN: meshgen check %s --json
// REQUIRED: all_reduce 1
shard.grid @g(shape = 4)
func.func @f(%a: tensor<8x10xf32>, %b: tensor<10x12xf32>) -> tensor<8x12xf32> {
  %c0 = arith.constant 0.0 : f32
  %rep = shard.sharding @g split_axes = [[]] : !shard.sharding
  %row = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %col = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %as = shard.shard %a to %col : tensor<8x10xf32>
  %bs = shard.shard %b to %row : tensor<10x12xf32>
  %re = tensor.empty() : tensor<8x12xf32>
  %ri = linalg.fill ins(%c0 : f32) outs(%re : tensor<8x12xf32>) -> tensor<8x12xf32>
  %r = linalg.matmul ins(%as, %bs : tensor<8x10xf32>, tensor<10x12xf32>) outs(%ri : tensor<8x12xf32>) -> tensor<8x12xf32>
  %ro = shard.shard %r to %rep : tensor<8x12xf32>
  return %ro : tensor<8x12xf32>
}
