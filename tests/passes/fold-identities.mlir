// Fold full slices, concatenations of one operand, reversals of one row and inverse reshapes into their operand.
// RUN: meshgen opt %s --mesh x=4 --passes fold-identities | filecheck %s

func.func @f(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %a = stablehlo.reverse %x, dims = [0] : tensor<1x8xf32>
  %b = stablehlo.slice %a [0:1, 0:8] : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %r = stablehlo.tanh %b : tensor<1x8xf32>
  return %r : tensor<1x8xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %r = stablehlo.tanh %x : tensor<1x8xf32>
// CHECK-NEXT: func.return %r : tensor<1x8xf32>
