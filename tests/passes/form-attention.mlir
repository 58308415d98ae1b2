// One op replaces a softmax between two GEMMs with a causal mask and shared key heads. The mask becomes a function of positions.
// RUN: meshgen opt %s --passes form-attention | filecheck %s

sdy.mesh @mesh = <["x"=2]>
func.func @f(%q: tensor<2x16x4x8xf32>, %k: tensor<2x16x2x8xf32>, %v: tensor<2x16x2x8xf32>) -> tensor<2x4x16x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %kw = stablehlo.broadcast_in_dim %k, dims = [0, 1, 2, 4] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x2x8xf32>
  %kr = stablehlo.reshape %kw : (tensor<2x16x2x2x8xf32>) -> tensor<2x16x4x8xf32>
  %vw = stablehlo.broadcast_in_dim %v, dims = [0, 1, 2, 4] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x2x8xf32>
  %vr = stablehlo.reshape %vw : (tensor<2x16x2x2x8xf32>) -> tensor<2x16x4x8xf32>
  %s = stablehlo.dot_general %q, %kr, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>) -> tensor<2x4x16x16xf32>
  %rows = stablehlo.iota dim = 2 : tensor<2x4x16x16xi32>
  %keys = stablehlo.iota dim = 3 : tensor<2x4x16x16xi32>
  %inside = stablehlo.compare GE, %rows, %keys : (tensor<2x4x16x16xi32>, tensor<2x4x16x16xi32>) -> tensor<2x4x16x16xi1>
  %lows = stablehlo.broadcast_in_dim %low, dims = [] : (tensor<f32>) -> tensor<2x4x16x16xf32>
  %m = stablehlo.select %inside, %s, %lows : tensor<2x4x16x16xi1>, tensor<2x4x16x16xf32>
  %high = stablehlo.reduce(%m init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %high_n = stablehlo.broadcast_in_dim %high, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x16xf32>
  %shifted = stablehlo.subtract %m, %high_n : tensor<2x4x16x16xf32>
  %e = stablehlo.exponential %shifted : tensor<2x4x16x16xf32>
  %total = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %total_n = stablehlo.broadcast_in_dim %total, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x16xf32>
  %p = stablehlo.divide %e, %total_n : tensor<2x4x16x16xf32>
  %o = stablehlo.dot_general %p, %vr, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x4x16x16xf32>, tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  return %o : tensor<2x4x16x8xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK: %[[Q:[0-9]+]] = stablehlo.reshape %q : (tensor<2x16x4x8xf32>) -> tensor<2x16x2x2x8xf32>
// CHECK-NEXT: "sched.attention"(%[[Q]], %k, %v) <{factors = "a f b c d, a s b d, a s b e -> a b c f e, a b c f", positions = ["f", "s"], zero_empty = false}>
// CHECK: %[[INSIDE:[0-9]+]] = stablehlo.compare GE
// CHECK: stablehlo.select %[[INSIDE]]
// CHECK-NOT: stablehlo.exponential
// CHECK: func.return
