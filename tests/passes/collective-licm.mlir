// Hoist a loop-invariant collective out of a loop.
// RUN: meshgen opt %s --passes collective-licm | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<2x12xf32>, %n: tensor<i32>) -> tensor<8x12xf32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x12xf32>
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %l:3 = stablehlo.while(%i = %i0, %s = %zero, %w = %p) : tensor<i32>, tensor<8x12xf32>, tensor<2x12xf32>
    cond {
      %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %g = shard.all_gather %w on @g grid_axes = [0] gather_axis = 0 : tensor<2x12xf32> -> tensor<8x12xf32>
      %t = stablehlo.add %s, %g : tensor<8x12xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %t, %w : tensor<i32>, tensor<8x12xf32>, tensor<2x12xf32>
    }
  %r = stablehlo.tanh %l#1 : tensor<8x12xf32>
  return %r : tensor<8x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %one = stablehlo.constant dense<1> : tensor<i32>
// CHECK-NEXT: %zero = stablehlo.constant dense<0.000000e+00> : tensor<8x12xf32>
// CHECK-NEXT: %i0 = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT: %g = shard.all_gather %p on @g grid_axes = [0] gather_axis = 0 : tensor<2x12xf32> -> tensor<8x12xf32>
// CHECK-NEXT: %l_0, %l_1, %l_2, %0, %1, %g_0 = stablehlo.while(%i = %i0, %s = %zero, %w = %p, %n_0 = %n, %one_0 = %one, %g_1 = %g) : tensor<i32>, tensor<8x12xf32>, tensor<2x12xf32>, tensor<i32>, tensor<i32>, tensor<8x12xf32>
// CHECK-NEXT: cond {
// CHECK-NEXT: %go = stablehlo.compare LT, %i, %n_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
// CHECK-NEXT: stablehlo.return %go : tensor<i1>
// CHECK-NEXT: } do {
// CHECK-NEXT: %t = stablehlo.add %s, %g_1 : tensor<8x12xf32>
// CHECK-NEXT: %j = stablehlo.add %i, %one_0 : tensor<i32>
// CHECK-NEXT: stablehlo.return %j, %t, %w, %n_0, %one_0, %g_1 : tensor<i32>, tensor<8x12xf32>, tensor<2x12xf32>, tensor<i32>, tensor<i32>, tensor<8x12xf32>
// CHECK-NEXT: }
// CHECK-NEXT: %r = stablehlo.tanh %l_1 : tensor<8x12xf32>
// CHECK-NEXT: func.return %r : tensor<8x12xf32>
