// Two ops replace the gradients of an attention. Their sum over keys, of exponentials, becomes a sum over elements of the result.
// RUN: meshgen opt %s --passes form-attention | filecheck %s

sdy.mesh @mesh = <["x"=2]>
func.func @f(%q: tensor<16x8xf32>, %k: tensor<12x8xf32>, %v: tensor<12x6xf32>, %do: tensor<16x6xf32>) -> (tensor<16x6xf32>, tensor<16x8xf32>, tensor<12x8xf32>, tensor<12x6xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %two = stablehlo.constant dense<0.5> : tensor<16x12xf32>
  %s = stablehlo.dot_general %q, %k, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<12x8xf32>) -> tensor<16x12xf32>
  %m = stablehlo.multiply %s, %two : tensor<16x12xf32>
  %high = stablehlo.reduce(%m init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<16x12xf32>, tensor<f32>) -> tensor<16xf32>
  %high_n = stablehlo.broadcast_in_dim %high, dims = [0] : (tensor<16xf32>) -> tensor<16x12xf32>
  %shifted = stablehlo.subtract %m, %high_n : tensor<16x12xf32>
  %e = stablehlo.exponential %shifted : tensor<16x12xf32>
  %total = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16x12xf32>, tensor<f32>) -> tensor<16xf32>
  %total_n = stablehlo.broadcast_in_dim %total, dims = [0] : (tensor<16xf32>) -> tensor<16x12xf32>
  %p = stablehlo.divide %e, %total_n : tensor<16x12xf32>
  %o = stablehlo.dot_general %p, %v, contracting_dims = [1] x [0] : (tensor<16x12xf32>, tensor<12x6xf32>) -> tensor<16x6xf32>
  %dv = stablehlo.dot_general %p, %do, contracting_dims = [0] x [0] : (tensor<16x12xf32>, tensor<16x6xf32>) -> tensor<12x6xf32>
  %dp = stablehlo.dot_general %do, %v, contracting_dims = [1] x [1] : (tensor<16x6xf32>, tensor<12x6xf32>) -> tensor<16x12xf32>
  %dpe = stablehlo.multiply %dp, %e : tensor<16x12xf32>
  %sum = stablehlo.reduce(%dpe init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16x12xf32>, tensor<f32>) -> tensor<16xf32>
  %mean = stablehlo.divide %sum, %total : tensor<16xf32>
  %mean_n = stablehlo.broadcast_in_dim %mean, dims = [0] : (tensor<16xf32>) -> tensor<16x12xf32>
  %less = stablehlo.subtract %dp, %mean_n : tensor<16x12xf32>
  %ds = stablehlo.multiply %less, %p : tensor<16x12xf32>
  %g = stablehlo.multiply %ds, %two : tensor<16x12xf32>
  %dq = stablehlo.dot_general %g, %k, contracting_dims = [1] x [0] : (tensor<16x12xf32>, tensor<12x8xf32>) -> tensor<16x8xf32>
  %dk = stablehlo.dot_general %g, %q, contracting_dims = [0] x [0] : (tensor<16x12xf32>, tensor<16x8xf32>) -> tensor<12x8xf32>
  return %o, %dq, %dk, %dv : tensor<16x6xf32>, tensor<16x8xf32>, tensor<12x8xf32>, tensor<12x6xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK: %o, %[[LSE:[0-9]+]] = "sched.attention"(%q, %k, %v)
// CHECK: %[[TERMS:[0-9]+]] = stablehlo.multiply %do, %o
// CHECK: %[[DELTA:[0-9]+]] = stablehlo.reduce(%[[TERMS]]
// CHECK: %dq = "sched.attention_gradient_queries"(%q, %k, %v, %[[LSE]], %[[DELTA]], %do) <{factors = "a d, s d, s e, a, a, a e -> a d"
// CHECK: ^bb0(%[[DS:[0-9]+]]: tensor<f32>, %{{[0-9]+}}: tensor<f32>):
// CHECK: stablehlo.multiply %[[DS]]
// CHECK: %dk, %dv = "sched.attention_gradient_keys"(%q, %k, %v, %[[LSE]], %[[DELTA]], %do) <{factors = "a d, s d, s e, a, a, a e -> s d, s e"
// CHECK-NOT: stablehlo.exponential
// CHECK: func.return
