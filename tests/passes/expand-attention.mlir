// Expand an attention op into the ops that it stands for.
// RUN: meshgen opt %s --passes expand-attention | filecheck %s

sdy.mesh @mesh = <["x"=2]>
func.func @f(%q: tensor<4x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x5xf32>) -> (tensor<4x5xf32>, tensor<4xf32>) {
  %o, %l = "sched.attention"(%q, %k, %v) <{factors = "t d, s d, s e -> t e, t", zero_empty = true}> ({
  ^bb0(%score: tensor<f32>):
    stablehlo.return %score : tensor<f32>
  }, {
  ^bb0(%p: tensor<f32>):
    stablehlo.return %p : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<6x8xf32>, tensor<6x5xf32>) -> (tensor<4x5xf32>, tensor<4xf32>)
  return %o, %l : tensor<4x5xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK: %[[SCORES:[0-9]+]] = stablehlo.dot_general %q, %k
// CHECK: %[[HIGH:[0-9]+]] = stablehlo.reduce(%[[SCORES]]
// CHECK: stablehlo.is_finite %[[HIGH]]
// CHECK: stablehlo.exponential
// CHECK: %[[LOG:[0-9]+]] = stablehlo.log
// CHECK: stablehlo.add %[[LOG]], %[[HIGH]]
// CHECK: stablehlo.divide
// CHECK: stablehlo.dot_general %v,
