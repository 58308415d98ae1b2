// Split a full sum in two stages: 256 partial sums of 16,384 elements fill the GPU, a single sum does not.
// RUN: meshgen opt %s --passes split-reduction | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<4194304xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4194304xf32>, tensor<f32>) -> tensor<f32>
  %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<f32> -> tensor<f32>
  return %r : tensor<f32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %0 = stablehlo.reshape %x : (tensor<4194304xf32>) -> tensor<256x16384xf32>
// CHECK-NEXT: %1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<256x16384xf32>, tensor<f32>) -> tensor<256xf32>
// CHECK-NEXT: %s = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<256xf32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT: %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<f32> -> tensor<f32>
// CHECK-NEXT: func.return %r : tensor<f32>
