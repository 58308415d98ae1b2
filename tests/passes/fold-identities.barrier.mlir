// Remove an optimization barrier with no computation before it, as in a rematerialized loop body over layers. Keep a barrier whose operands have
// other users.
// RUN: meshgen opt %s --mesh x=4 --passes fold-identities | filecheck %s

func.func @f(%x: tensor<6x8xf32>, %g: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %n = stablehlo.constant dense<6> : tensor<i32>
  %i = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %w:3 = stablehlo.while(%k = %i, %s = %x, %dy = %g) : tensor<i32>, tensor<6x8xf32>, tensor<8xf32> cond {
    %0 = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %0 = stablehlo.dynamic_slice %s, %k, %i, sizes = [1, 8] : (tensor<6x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %row = stablehlo.reshape %0 : (tensor<1x8xf32>) -> tensor<8xf32>
    %1:2 = stablehlo.optimization_barrier %row, %dy : tensor<8xf32>, tensor<8xf32>
    %h = stablehlo.tanh %1#0 : tensor<8xf32>
    %2 = stablehlo.multiply %h, %1#1 : tensor<8xf32>
    %next = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %next, %s, %2 : tensor<i32>, tensor<6x8xf32>, tensor<8xf32>
  }
  %t = stablehlo.tanh %g : tensor<8xf32>
  %3 = stablehlo.optimization_barrier %g : tensor<8xf32>
  %u = stablehlo.tanh %3 : tensor<8xf32>
  %v = stablehlo.add %t, %u : tensor<8xf32>
  return %w#2, %v : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK: stablehlo.while
// CHECK: %row = stablehlo.reshape
// CHECK-NEXT: %h = stablehlo.tanh %row : tensor<8xf32>
// CHECK-NEXT: stablehlo.multiply %h, %dy
// CHECK: %t = stablehlo.tanh %g : tensor<8xf32>
// CHECK-NEXT: %[[G:[0-9]+]] = stablehlo.optimization_barrier %g : tensor<8xf32>
// CHECK-NEXT: %u = stablehlo.tanh %[[G]] : tensor<8xf32>
