// Do not merge ops on the results of an optimization barrier with ops on its operands. On each side, equal ops are merged.
// RUN: meshgen opt %s --mesh x=4 --passes cse | filecheck %s

func.func @f(%x: tensor<8x4xf32>, %g: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = stablehlo.tanh %x : tensor<8x4xf32>
  %b = stablehlo.tanh %x : tensor<8x4xf32>
  %1:2 = stablehlo.optimization_barrier %x, %g : tensor<8x4xf32>, tensor<8x4xf32>
  %c = stablehlo.tanh %1#0 : tensor<8x4xf32>
  %2:2 = stablehlo.optimization_barrier %x, %1#1 : tensor<8x4xf32>, tensor<8x4xf32>
  %d = stablehlo.tanh %2#0 : tensor<8x4xf32>
  %e = stablehlo.tanh %2#0 : tensor<8x4xf32>
  %r = stablehlo.multiply %a, %b : tensor<8x4xf32>
  %s = stablehlo.multiply %c, %d : tensor<8x4xf32>
  %t = stablehlo.multiply %r, %s : tensor<8x4xf32>
  %u = stablehlo.multiply %t, %e : tensor<8x4xf32>
  return %u : tensor<8x4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %a = stablehlo.tanh %x : tensor<8x4xf32>
// CHECK-NEXT: %[[X1:[0-9]+]], %[[G1:[0-9]+]] = stablehlo.optimization_barrier %x, %g : tensor<8x4xf32>, tensor<8x4xf32>
// CHECK-NEXT: %c = stablehlo.tanh %[[X1]] : tensor<8x4xf32>
// CHECK-NEXT: %[[X2:[0-9]+]], %[[G2:[0-9]+]] = stablehlo.optimization_barrier %x, %[[G1]] : tensor<8x4xf32>, tensor<8x4xf32>
// CHECK-NEXT: %d = stablehlo.tanh %[[X2]] : tensor<8x4xf32>
// CHECK-NEXT: %r = stablehlo.multiply %a, %a : tensor<8x4xf32>
// CHECK-NEXT: %s = stablehlo.multiply %c, %d : tensor<8x4xf32>
// CHECK-NEXT: %t = stablehlo.multiply %r, %s : tensor<8x4xf32>
// CHECK-NEXT: %u = stablehlo.multiply %t, %d : tensor<8x4xf32>
