// RUN: meshgen check %s --json
// REQUIRED: all_reduce 1
shard.grid @g(shape = 4)
func.func @f(%a: tensor<8x16xf32>, %b: tensor<16x12xf32>, %c: tensor<12x8xf32>) -> tensor<8x8xf32> {
  %c0 = arith.constant 0.0 : f32
  %rep = shard.sharding @g split_axes = [[]] : !shard.sharding
  %row = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %col = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %as = shard.shard %a to %rep : tensor<8x16xf32>
  %bs = shard.shard %b to %col : tensor<16x12xf32>
  %cs = shard.shard %c to %row : tensor<12x8xf32>
  %pe = tensor.empty() : tensor<8x12xf32>
  %pi = linalg.fill ins(%c0 : f32) outs(%pe : tensor<8x12xf32>) -> tensor<8x12xf32>
  %p = linalg.matmul ins(%as, %bs : tensor<8x16xf32>, tensor<16x12xf32>) outs(%pi : tensor<8x12xf32>) -> tensor<8x12xf32>
  %qe = tensor.empty() : tensor<8x8xf32>
  %qi = linalg.fill ins(%c0 : f32) outs(%qe : tensor<8x8xf32>) -> tensor<8x8xf32>
  %q = linalg.matmul ins(%p, %cs : tensor<8x12xf32>, tensor<12x8xf32>) outs(%qi : tensor<8x8xf32>) -> tensor<8x8xf32>
  %qo = shard.shard %q to %rep : tensor<8x8xf32>
  return %qo : tensor<8x8xf32>
}
