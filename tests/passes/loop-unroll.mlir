// Unroll loops with collectives and a known trip count, so that one schedule contains every collective.
// RUN: meshgen opt %s --passes loop-unroll | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<2> : tensor<i32>
  %r:2 = stablehlo.while(%a = %i, %b = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %c = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %a, %one : tensor<i32>
      %t = stablehlo.tanh %b : tensor<8xf32>
      %s = shard.all_reduce %t on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
      stablehlo.return %next, %s : tensor<i32>, tensor<8xf32>
    }
  return %r#1 : tensor<8xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %i = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT: %n = stablehlo.constant dense<2> : tensor<i32>
// CHECK-NEXT: %one = stablehlo.constant dense<1> : tensor<i32>
// CHECK-NEXT: %next = stablehlo.add %i, %one : tensor<i32>
// CHECK-NEXT: %t = stablehlo.tanh %x : tensor<8xf32>
// CHECK-NEXT: %s = shard.all_reduce %t on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
// CHECK-NEXT: %one_0 = stablehlo.constant dense<1> : tensor<i32>
// CHECK-NEXT: %next_0 = stablehlo.add %next, %one_0 : tensor<i32>
// CHECK-NEXT: %t_0 = stablehlo.tanh %s : tensor<8xf32>
// CHECK-NEXT: %s_0 = shard.all_reduce %t_0 on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
// CHECK-NEXT: func.return %s_0 : tensor<8xf32>
