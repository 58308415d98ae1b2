// Rows are scaled by their sums. The same kernel sums over rows in 64 runs of 8 rows, and another kernel sums the runs. The sum over %y, whose rows
// no kernel reduces, is not split.
// RUN: meshgen opt %s --passes row-sums-to-runs | filecheck %s

shard.grid @g(shape = 2) {axis_names = ["x"]}
func.func @f(%x: tensor<512x128xf32>, %y: tensor<512x128xf32>) -> (tensor<512x128xf32>, tensor<128xf32>, tensor<128xf32>) {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<512x128xf32>, tensor<f32>) -> tensor<512xf32>
  %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<512xf32>) -> tensor<512x128xf32>
  %m = stablehlo.multiply %x, %b : tensor<512x128xf32>
  %w = stablehlo.reduce(%m init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<512x128xf32>, tensor<f32>) -> tensor<128xf32>
  %t = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<512x128xf32>, tensor<f32>) -> tensor<128xf32>
  %g = shard.all_reduce %w on @g grid_axes = [0] : tensor<128xf32> -> tensor<128xf32>
  return %m, %g, %t : tensor<512x128xf32>, tensor<128xf32>, tensor<128xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<512x128xf32>, tensor<f32>) -> tensor<512xf32>
// CHECK-NEXT: %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<512xf32>) -> tensor<512x128xf32>
// CHECK-NEXT: %m = stablehlo.multiply %x, %b : tensor<512x128xf32>
// CHECK-NEXT: %0 = stablehlo.reshape %m : (tensor<512x128xf32>) -> tensor<64x8x128xf32>
// CHECK-NEXT: %1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<64x8x128xf32>, tensor<f32>) -> tensor<64x128xf32>
// CHECK-NEXT: %w = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x128xf32>, tensor<f32>) -> tensor<128xf32>
// CHECK-NEXT: %t = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<512x128xf32>, tensor<f32>) -> tensor<128xf32>
// CHECK-NEXT: %g = shard.all_reduce %w on @g grid_axes = [0] : tensor<128xf32> -> tensor<128xf32>
// CHECK-NEXT: func.return %m, %g, %t : tensor<512x128xf32>, tensor<128xf32>, tensor<128xf32>
