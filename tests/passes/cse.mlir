// Merge common subexpressions, including their collectives.
// RUN: meshgen opt %s --mesh x=4 --passes cse | filecheck %s

func.func @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = stablehlo.tanh %x : tensor<8x4xf32>
  %b = stablehlo.tanh %x : tensor<8x4xf32>
  %r = stablehlo.multiply %a, %b : tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %a = stablehlo.tanh %x : tensor<8x4xf32>
// CHECK-NEXT: %r = stablehlo.multiply %a, %a : tensor<8x4xf32>
// CHECK-NEXT: func.return %r : tensor<8x4xf32>
