// RUN: meshgen check %s --json
// REQUIRED: all_gather 1, reduce_scatter 1
shard.grid @g(shape = 4)
func.func @f(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>, %v: tensor<64x16xf32>) -> tensor<8x16xf32> {
  %c0 = arith.constant 0.0 : f32
  %rep = shard.sharding @g split_axes = [[]] : !shard.sharding
  %row = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %col = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %xs = shard.shard %x to %col : tensor<8x16xf32>
  %vs = shard.shard %v to %row : tensor<64x16xf32>
  %he = tensor.empty() : tensor<8x64xf32>
  %hi = linalg.fill ins(%c0 : f32) outs(%he : tensor<8x64xf32>) -> tensor<8x64xf32>
  %h = linalg.matmul ins(%xs, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%hi : tensor<8x64xf32>) -> tensor<8x64xf32>
  %ae = tensor.empty() : tensor<8x64xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%h : tensor<8x64xf32>) outs(%ae : tensor<8x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.maximumf %in, %c0 : f32
    linalg.yield %m : f32
  } -> tensor<8x64xf32>
  %ye = tensor.empty() : tensor<8x16xf32>
  %yi = linalg.fill ins(%c0 : f32) outs(%ye : tensor<8x16xf32>) -> tensor<8x16xf32>
  %y = linalg.matmul ins(%a, %vs : tensor<8x64xf32>, tensor<64x16xf32>) outs(%yi : tensor<8x16xf32>) -> tensor<8x16xf32>
  %yo = shard.shard %y to %col : tensor<8x16xf32>
  return %yo : tensor<8x16xf32>
}
