// Attention whose rows are too long for a kernel becomes GEMMs and a softmax. Its region is applied to all scores at once.
// RUN: meshgen opt %s --passes expand-composites | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%q: tensor<4x300xf32>, %k: tensor<6x300xf32>, %v: tensor<6x5xf32>) -> tensor<4x5xf32> {
  %o, %l = "sched.attention"(%q, %k, %v) <{factors = "t d, s d, s e -> t e, t", positions = ["t", "s"], zero_empty = false}> ({
  ^bb0(%score: tensor<f32>, %t: tensor<i32>, %s: tensor<i32>):
    %c = stablehlo.compare GE, %t, %s : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = stablehlo.constant dense<-1.0e30> : tensor<f32>
    %m = stablehlo.select %c, %score, %n : tensor<i1>, tensor<f32>
    stablehlo.return %m : tensor<f32>
  }, {
  ^bb0(%p: tensor<f32>, %t: tensor<i32>, %s: tensor<i32>):
    stablehlo.return %p : tensor<f32>
  }) : (tensor<4x300xf32>, tensor<6x300xf32>, tensor<6x5xf32>) -> (tensor<4x5xf32>, tensor<4xf32>)
  %r = shard.all_reduce %o on @g grid_axes = [0] : tensor<4x5xf32> -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK: %[[SCORES:[0-9]+]] = stablehlo.dot_general %q, %k
// CHECK: stablehlo.iota dim = 0 : tensor<4xi32>
// CHECK: stablehlo.iota dim = 0 : tensor<6xi32>
// CHECK: %[[INSIDE:[0-9]+]] = stablehlo.compare
// CHECK: %[[MASKED:[0-9]+]] = stablehlo.select %[[INSIDE]], %[[SCORES]]
// CHECK: stablehlo.reduce(%[[MASKED]]
// CHECK: stablehlo.exponential
// CHECK: %[[SHARES:[0-9]+]] = stablehlo.divide
// CHECK: stablehlo.dot_general %v, %[[SHARES]]
// CHECK-NOT: stablehlo.log
// CHECK: shard.all_reduce
