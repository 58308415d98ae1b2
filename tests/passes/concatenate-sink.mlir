// Sink a concatenation below concatenations along other dims, next to its user.
// RUN: meshgen opt %s --mesh x=4 --passes concatenate-sink | filecheck %s

func.func @f(%x: tensor<8x6xf32>) -> tensor<9x7xf32> {
  %last = stablehlo.slice %x [7:8, 0:6] : (tensor<8x6xf32>) -> tensor<1x6xf32>
  %j = stablehlo.concatenate %last, %x, dim = 0 : (tensor<1x6xf32>, tensor<8x6xf32>) -> tensor<9x6xf32>
  %e = stablehlo.slice %j [0:9, 5:6] : (tensor<9x6xf32>) -> tensor<9x1xf32>
  %r = stablehlo.concatenate %e, %j, dim = 1 : (tensor<9x1xf32>, tensor<9x6xf32>) -> tensor<9x7xf32>
  return %r : tensor<9x7xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.slice %x [0:8, 5:6] : (tensor<8x6xf32>) -> tensor<8x1xf32>
// CHECK-NEXT: %1 = stablehlo.concatenate %0, %x, dim = 1 : (tensor<8x1xf32>, tensor<8x6xf32>) -> tensor<8x7xf32>
// CHECK-NEXT: %2 = stablehlo.slice %1 [7:8, 0:7] : (tensor<8x7xf32>) -> tensor<1x7xf32>
// CHECK-NEXT: %r = stablehlo.concatenate %2, %1, dim = 0 : (tensor<1x7xf32>, tensor<8x7xf32>) -> tensor<9x7xf32>
// CHECK-NEXT: func.return %r : tensor<9x7xf32>
