// RUN: meshgen check %s --json
// REQUIRED: all_gather 2
shard.grid @g(shape = 2x2)
func.func @f(%a: tensor<8x16xf32>, %b: tensor<16x12xf32>) -> tensor<8x12xf32> {
  %c0 = arith.constant 0.0 : f32
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %as = shard.shard %a to %s : tensor<8x16xf32>
  %bs = shard.shard %b to %s : tensor<16x12xf32>
  %re = tensor.empty() : tensor<8x12xf32>
  %ri = linalg.fill ins(%c0 : f32) outs(%re : tensor<8x12xf32>) -> tensor<8x12xf32>
  %r = linalg.matmul ins(%as, %bs : tensor<8x16xf32>, tensor<16x12xf32>) outs(%ri : tensor<8x12xf32>) -> tensor<8x12xf32>
  %ro = shard.shard %r to %s : tensor<8x12xf32>
  return %ro : tensor<8x12xf32>
}
