// As in JAX's loops, the mask is a loop-invariant carry that the body reads through an index map. It remains carried.
// RUN: meshgen opt %s --passes loop-recompute | filecheck %s

func.func @f(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xi1>) {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<600> : tensor<i32>
  %place = stablehlo.iota dim = 0 : tensor<8xi32>
  %mask = stablehlo.compare LT, %place, %place : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
  %r:4 = stablehlo.while(%a = %i, %b = %x, %m = %mask, %p = %place) : tensor<i32>, tensor<4x8xf32>, tensor<8xi1>, tensor<8xi32>
    cond {
      %c = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %a, %one : tensor<i32>
      %wide = stablehlo.broadcast_in_dim %m, dims = [1] : (tensor<8xi1>) -> tensor<4x8xi1>
      %t = stablehlo.negate %b : tensor<4x8xf32>
      %s = stablehlo.select %wide, %b, %t : tensor<4x8xi1>, tensor<4x8xf32>
      %q = stablehlo.add %p, %p : tensor<8xi32>
      stablehlo.return %next, %s, %m, %q : tensor<i32>, tensor<4x8xf32>, tensor<8xi1>, tensor<8xi32>
    }
  return %r#1, %r#2 : tensor<4x8xf32>, tensor<8xi1>
}

// CHECK: stablehlo.while({{.*}}%m = %mask
// CHECK: do {
// CHECK-NEXT: %[[PLACE:.*]] = stablehlo.iota dim = 0 : tensor<8xi32>
// CHECK-NEXT: %[[SAME:.*]] = stablehlo.compare LT, %[[PLACE]], %[[PLACE]]
// CHECK: stablehlo.broadcast_in_dim %[[SAME]], dims = [1]
// CHECK: stablehlo.add %p, %p
