// Reduce a sum over the iterations of a loop once after the loop, instead of in every iteration.
// RUN: meshgen opt %s --passes loop-reduce-hoist | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>, %n: tensor<i32>) -> tensor<8x12xf32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x12xf32>
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %l:3 = stablehlo.while(%i = %i0, %s = %zero, %v = %p) : tensor<i32>, tensor<8x12xf32>, tensor<8x12xf32>
    cond {
      %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %u = stablehlo.tanh %v : tensor<8x12xf32>
      %a = shard.all_reduce %u on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
      %t = stablehlo.add %s, %a : tensor<8x12xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %t, %u : tensor<i32>, tensor<8x12xf32>, tensor<8x12xf32>
    }
  %r = stablehlo.tanh %l#1 : tensor<8x12xf32>
  return %r : tensor<8x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %one = stablehlo.constant dense<1> : tensor<i32>
// CHECK-NEXT: %zero = stablehlo.constant dense<0.000000e+00> : tensor<8x12xf32>
// CHECK-NEXT: %i0 = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT: %0 = stablehlo.constant dense<0.000000e+00> : tensor<8x12xf32>
// CHECK-NEXT: %l_0, %l_1_own, %l_2, %1, %2 = stablehlo.while(%i = %i0, %s = %0, %v = %p, %n_0 = %n, %one_0 = %one) : tensor<i32>, tensor<8x12xf32>, tensor<8x12xf32>, tensor<i32>, tensor<i32>
// CHECK-NEXT: cond {
// CHECK-NEXT: %go = stablehlo.compare LT, %i, %n_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
// CHECK-NEXT: stablehlo.return %go : tensor<i1>
// CHECK-NEXT: } do {
// CHECK-NEXT: %u = stablehlo.tanh %v : tensor<8x12xf32>
// CHECK-NEXT: %t = stablehlo.add %s, %u : tensor<8x12xf32>
// CHECK-NEXT: %j = stablehlo.add %i, %one_0 : tensor<i32>
// CHECK-NEXT: stablehlo.return %j, %t, %u, %n_0, %one_0 : tensor<i32>, tensor<8x12xf32>, tensor<8x12xf32>, tensor<i32>, tensor<i32>
// CHECK-NEXT: }
// CHECK-NEXT: %3 = shard.all_reduce %l_1_own on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
// CHECK-NEXT: %l_1 = stablehlo.add %zero, %3 : tensor<8x12xf32>
// CHECK-NEXT: %r = stablehlo.tanh %l_1 : tensor<8x12xf32>
// CHECK-NEXT: func.return %r : tensor<8x12xf32>
