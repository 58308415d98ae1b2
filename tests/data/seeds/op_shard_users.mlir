// The examples of shard.shard: result, operand, two operands, and a result with two users that read it differently.
shard.grid @grid0(shape = 2x2x4)
func.func @main(%arg0: tensor<4x8xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<4x8xf32>, %arg3: tensor<16x8xf32>, %arg4: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %sharding = shard.sharding @grid0 split_axes = [[0]] : !shard.sharding
  %a = shard.shard %arg0 to %sharding : tensor<4x8xf32>
  %b = shard.shard %arg1 to %sharding annotate_for_users : tensor<4x8xf32>
  %b1 = tosa.abs %b : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c0 = shard.shard %arg2 to %sharding annotate_for_users : tensor<4x8xf32>
  %c1 = shard.shard %arg3 to %sharding annotate_for_users : tensor<16x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>
  %c2 = linalg.matmul_transpose_b ins(%c0, %c1 : tensor<4x8xf32>, tensor<16x8xf32>) outs(%init : tensor<4x16xf32>) -> tensor<4x16xf32>
  %d0 = shard.shard %arg4 to %sharding : tensor<4x8xf32>
  %sharding1 = shard.sharding @grid0 split_axes = [[1]] : !shard.sharding
  %d1 = shard.shard %d0 to %sharding1 annotate_for_users : tensor<4x8xf32>
  %sharding2 = shard.sharding @grid0 split_axes = [[2]] : !shard.sharding
  %d2 = shard.shard %d0 to %sharding2 annotate_for_users : tensor<4x8xf32>
  %d3 = tosa.abs %d1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %d4 = tosa.tanh %d2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %a, %b1, %c2, %d3, %d4 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
