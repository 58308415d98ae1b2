// Fold a slice of a padded tensor into a pad with other, possibly negative, amounts.
// RUN: meshgen opt %s --mesh x=4 --passes slice-into-pad | filecheck %s

func.func @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.pad %x, %z, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<10x4xf32>
  %r = stablehlo.slice %p [2:10, 0:4] : (tensor<10x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %z = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %r = stablehlo.pad %x, %z, low = [-1, 0], high = [1, 0], interior = [0, 0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
// CHECK-NEXT: func.return %r : tensor<8x4xf32>
