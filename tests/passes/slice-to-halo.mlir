// Rewrite unevenly sharded slices to shifts of rows by halo exchange, with masks where rows are combined.
// RUN: meshgen opt %s --mesh x=4 --spec x=x,_ --passes slice-to-halo | filecheck %s

func.func @f(%x: tensor<64x4xf32>) -> tensor<62x4xf32> {
  %up = stablehlo.slice %x [2:64, 0:4] : (tensor<64x4xf32>) -> tensor<62x4xf32>
  %down = stablehlo.slice %x [0:62, 0:4] : (tensor<64x4xf32>) -> tensor<62x4xf32>
  %r = stablehlo.subtract %up, %down : tensor<62x4xf32>
  return %r : tensor<62x4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %1 = stablehlo.pad %x, %0, low = [-2, 0], high = [2, 0], interior = [0, 0] : (tensor<64x4xf32>, tensor<f32>) -> tensor<64x4xf32>
// CHECK-NEXT: %2 = stablehlo.subtract %1, %x : tensor<64x4xf32>
// CHECK-NEXT: %r = stablehlo.slice %2 [0:62, 0:4] : (tensor<64x4xf32>) -> tensor<62x4xf32>
// CHECK-NEXT: func.return %r : tensor<62x4xf32>
