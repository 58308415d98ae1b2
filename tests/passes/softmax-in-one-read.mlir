// A softmax over sharded rows reads its elements once for both the maximum and the sum of a tile.
// RUN: meshgen opt %s --passes softmax-in-one-read | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @log_sum_exp(%x: tensor<8x16xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %u = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %m = shard.all_reduce %u on @g grid_axes = [0] reduction = max : tensor<8xf32> -> tensor<8xf32>
  %w = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32>
  %d = stablehlo.subtract %x, %w : tensor<8x16xf32>
  %e = stablehlo.exponential %d : tensor<8x16xf32>
  %t = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %s = shard.all_reduce %t on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
  return %m, %s : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func public @log_sum_exp
// CHECK: %u = stablehlo.reduce(%x init: %low) applies stablehlo.maximum
// CHECK: %[[FINITE:[0-9]+]] = stablehlo.is_finite %u
// CHECK: %[[SHIFT:[0-9]+]] = stablehlo.select %[[FINITE]], %u
// CHECK: %[[WIDE:[0-9]+]] = stablehlo.broadcast_in_dim %[[SHIFT]]
// CHECK: %[[LESS:[0-9]+]] = stablehlo.subtract %x, %[[WIDE]]
// CHECK: %[[POWERS:[0-9]+]] = stablehlo.exponential %[[LESS]]
// CHECK: stablehlo.reduce(%[[POWERS]]
// CHECK: %m = shard.all_reduce %u
// CHECK: %[[APART:[0-9]+]] = stablehlo.subtract %u, %m
// CHECK: %[[FACTORS:[0-9]+]] = stablehlo.exponential %[[APART]]
// CHECK: %[[TERMS:[0-9]+]] = stablehlo.multiply %{{[0-9]+}}, %[[FACTORS]]
// CHECK: %s = shard.all_reduce %[[TERMS]]
// CHECK: func.return %m, %s
