// Reduce the transposed scores for the row maximum, since the exponentials read them transposed. A value with other users is not transposed.
// RUN: meshgen opt %s --passes transpose-before-reduce | filecheck %s

shard.grid @g(shape = 2) {axis_names = ["x"]}
func.func @f(%x: tensor<4x6x8xf32>) -> (tensor<6x4xf32>, tensor<8x6x4xf32>, tensor<4x6xf32>, tensor<8x6x4xf32>) {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %y = shard.all_reduce %x on @g grid_axes = [0] : tensor<4x6x8xf32> -> tensor<4x6x8xf32>
  %a = stablehlo.tanh %y : tensor<4x6x8xf32>
  %m = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<4x6x8xf32>, tensor<f32>) -> tensor<4x6xf32>
  %r = stablehlo.transpose %m, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %t = stablehlo.transpose %a, dims = [2, 1, 0] : (tensor<4x6x8xf32>) -> tensor<8x6x4xf32>
  %b = stablehlo.sine %y : tensor<4x6x8xf32>
  %n = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<4x6x8xf32>, tensor<f32>) -> tensor<4x6xf32>
  %u = stablehlo.transpose %b, dims = [2, 1, 0] : (tensor<4x6x8xf32>) -> tensor<8x6x4xf32>
  %c = stablehlo.negate %b : tensor<4x6x8xf32>
  %v = stablehlo.transpose %c, dims = [2, 1, 0] : (tensor<4x6x8xf32>) -> tensor<8x6x4xf32>
  %w = stablehlo.add %u, %v : tensor<8x6x4xf32>
  return %r, %t, %n, %w : tensor<6x4xf32>, tensor<8x6x4xf32>, tensor<4x6xf32>, tensor<8x6x4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %y = shard.all_reduce %x on @g grid_axes = [0] : tensor<4x6x8xf32> -> tensor<4x6x8xf32>
// CHECK-NEXT: %a = stablehlo.tanh %y : tensor<4x6x8xf32>
// CHECK-NEXT: %t = stablehlo.transpose %a, dims = [2, 1, 0] : (tensor<4x6x8xf32>) -> tensor<8x6x4xf32>
// CHECK-NEXT: %0 = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x6x4xf32>, tensor<f32>) -> tensor<6x4xf32>
// CHECK-NEXT: %m = stablehlo.transpose %0, dims = [1, 0] : (tensor<6x4xf32>) -> tensor<4x6xf32>
// CHECK-NEXT: %r = stablehlo.transpose %m, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
// CHECK-NEXT: %b = stablehlo.sine %y : tensor<4x6x8xf32>
// CHECK-NEXT: %n = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<4x6x8xf32>, tensor<f32>) -> tensor<4x6xf32>
// CHECK-NEXT: %u = stablehlo.transpose %b, dims = [2, 1, 0] : (tensor<4x6x8xf32>) -> tensor<8x6x4xf32>
// CHECK-NEXT: %c = stablehlo.negate %b : tensor<4x6x8xf32>
// CHECK-NEXT: %v = stablehlo.transpose %c, dims = [2, 1, 0] : (tensor<4x6x8xf32>) -> tensor<8x6x4xf32>
// CHECK-NEXT: %w = stablehlo.add %u, %v : tensor<8x6x4xf32>
// CHECK-NEXT: func.return %r, %t, %n, %w : tensor<6x4xf32>, tensor<8x6x4xf32>, tensor<4x6xf32>, tensor<8x6x4xf32>
