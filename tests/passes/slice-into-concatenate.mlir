// A slice of a concatenation becomes a concatenation of slices: what wraps around is then a rotation.
// RUN: meshgen opt %s --mesh x=4 --passes slice-into-concatenate | filecheck %s

func.func @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %last = stablehlo.slice %x [7:8, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %j = stablehlo.concatenate %last, %x, dim = 0 : (tensor<1x4xf32>, tensor<8x4xf32>) -> tensor<9x4xf32>
  %r = stablehlo.slice %j [0:8, 0:4] : (tensor<9x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %last = stablehlo.slice %x [7:8, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %0 = stablehlo.slice %x [0:7, 0:4] : (tensor<8x4xf32>) -> tensor<7x4xf32>
// CHECK-NEXT: %1 = stablehlo.concatenate %last, %0, dim = 0 : (tensor<1x4xf32>, tensor<7x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: func.return %1 : tensor<8x4xf32>
