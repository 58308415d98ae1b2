// Rewrite a sum of zero-padded tensors that do not overlap to their concatenation.
// RUN: meshgen opt %s --mesh x=4 --passes pad-sum-to-concatenate | filecheck %s

func.func @f(%a: tensor<5x4xf32>, %b: tensor<3x4xf32>) -> tensor<8x4xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %l = stablehlo.pad %a, %z, low = [0, 0], high = [3, 0], interior = [0, 0] : (tensor<5x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %h = stablehlo.pad %b, %z, low = [5, 0], high = [0, 0], interior = [0, 0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %r = stablehlo.add %l, %h : tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %z = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<5x4xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: func.return %r : tensor<8x4xf32>
