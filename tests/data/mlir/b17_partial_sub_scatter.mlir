// RUN: meshgen check %s --json
// REQUIRED: reduce_scatter 1
shard.grid @g(shape = 4)
func.func @f(%a: tensor<8x16xf32>, %b: tensor<16x12xf32>, %c: tensor<8x16xf32>, %d: tensor<16x12xf32>) -> tensor<8x12xf32> {
  %c0 = arith.constant 0.0 : f32
  %rep = shard.sharding @g split_axes = [[]] : !shard.sharding
  %row = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %col = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %as = shard.shard %a to %col : tensor<8x16xf32>
  %bs = shard.shard %b to %row : tensor<16x12xf32>
  %cs = shard.shard %c to %col : tensor<8x16xf32>
  %ds = shard.shard %d to %row : tensor<16x12xf32>
  %pe = tensor.empty() : tensor<8x12xf32>
  %pi = linalg.fill ins(%c0 : f32) outs(%pe : tensor<8x12xf32>) -> tensor<8x12xf32>
  %p = linalg.matmul ins(%as, %bs : tensor<8x16xf32>, tensor<16x12xf32>) outs(%pi : tensor<8x12xf32>) -> tensor<8x12xf32>
  %qe = tensor.empty() : tensor<8x12xf32>
  %qi = linalg.fill ins(%c0 : f32) outs(%qe : tensor<8x12xf32>) -> tensor<8x12xf32>
  %q = linalg.matmul ins(%cs, %ds : tensor<8x16xf32>, tensor<16x12xf32>) outs(%qi : tensor<8x12xf32>) -> tensor<8x12xf32>
  %t = arith.subf %p, %q : tensor<8x12xf32>
  %to = shard.shard %t to %row : tensor<8x12xf32>
  return %to : tensor<8x12xf32>
}
