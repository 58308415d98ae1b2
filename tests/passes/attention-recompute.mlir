// Scores are computed again beside the sums over rows, and beside those over keys; nothing of their size is needed by both.
// RUN: meshgen opt %s --passes attention-recompute | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%q: tensor<1x32x2x64xbf16>, %k: tensor<1x32x2x64xbf16>, %v: tensor<1x32x2x64xbf16>, %do: tensor<1x32x2x64xbf16>, %r: tensor<1x2x32xf32>) -> (tensor<1x2x32x64xbf16>, tensor<1x2x32x64xbf16>, tensor<1x2x32x64xbf16>, tensor<1x2x32x64xbf16>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %s = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<1x32x2x64xbf16>, tensor<1x32x2x64xbf16>) -> tensor<1x2x32x32xf32>
  %high = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x32x32xf32>, tensor<f32>) -> tensor<1x2x32xf32>
  %high_n = stablehlo.broadcast_in_dim %high, dims = [0, 1, 2] : (tensor<1x2x32xf32>) -> tensor<1x2x32x32xf32>
  %shifted = stablehlo.subtract %s, %high_n : tensor<1x2x32x32xf32>
  %e = stablehlo.exponential %shifted : tensor<1x2x32x32xf32>
  %total = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<1x2x32x32xf32>, tensor<f32>) -> tensor<1x2x32xf32>
  %total_n = stablehlo.broadcast_in_dim %total, dims = [0, 1, 2] : (tensor<1x2x32xf32>) -> tensor<1x2x32x32xf32>
  %p = stablehlo.divide %e, %total_n : tensor<1x2x32x32xf32>
  %w = stablehlo.convert %p : (tensor<1x2x32x32xf32>) -> tensor<1x2x32x32xbf16>
  %o = stablehlo.dot_general %w, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<1x2x32x32xbf16>, tensor<1x32x2x64xbf16>) -> tensor<1x2x32x64xbf16>
  %dw = stablehlo.dot_general %do, %v, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<1x32x2x64xbf16>, tensor<1x32x2x64xbf16>) -> tensor<1x2x32x32xbf16>
  %dp = stablehlo.convert %dw : (tensor<1x2x32x32xbf16>) -> tensor<1x2x32x32xf32>
  %r_n = stablehlo.broadcast_in_dim %r, dims = [0, 1, 2] : (tensor<1x2x32xf32>) -> tensor<1x2x32x32xf32>
  %d = stablehlo.subtract %dp, %r_n : tensor<1x2x32x32xf32>
  %ds = stablehlo.multiply %p, %d : tensor<1x2x32x32xf32>
  %dsb = stablehlo.convert %ds : (tensor<1x2x32x32xf32>) -> tensor<1x2x32x32xbf16>
  %dv = stablehlo.dot_general %w, %do, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<1x2x32x32xbf16>, tensor<1x32x2x64xbf16>) -> tensor<1x2x32x64xbf16>
  %dk = stablehlo.dot_general %dsb, %q, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1] : (tensor<1x2x32x32xbf16>, tensor<1x32x2x64xbf16>) -> tensor<1x2x32x64xbf16>
  %dq = stablehlo.dot_general %dsb, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<1x2x32x32xbf16>, tensor<1x32x2x64xbf16>) -> tensor<1x2x32x64xbf16>
  %x = shard.all_reduce %o on @g grid_axes = [0] : tensor<1x2x32x64xbf16> -> tensor<1x2x32x64xbf16>
  return %x, %dq, %dk, %dv : tensor<1x2x32x64xbf16>, tensor<1x2x32x64xbf16>, tensor<1x2x32x64xbf16>, tensor<1x2x32x64xbf16>
}

// CHECK-LABEL: func.func public @f
// CHECK: %total = stablehlo.reduce(%e init: %zero)
// CHECK: %[[ONE:.*]] = stablehlo.divide %{{.*}}, %total
// CHECK: %o = stablehlo.dot_general %w, %v
// CHECK: %s_0 = stablehlo.dot_general %q, %k
// CHECK: %e_0 = stablehlo.exponential
// CHECK-NEXT: %[[WIDE:.*]] = stablehlo.broadcast_in_dim %[[ONE]], dims = [0, 1, 2]
// CHECK-NEXT: %p_0 = stablehlo.multiply %e_0, %[[WIDE]]
// CHECK: %dv = stablehlo.dot_general %w_0, %do
// CHECK-NEXT: %dk = stablehlo.dot_general %dsb, %q
// CHECK-NEXT: %s_1 = stablehlo.dot_general %q, %k
// CHECK: %dq = stablehlo.dot_general %dsb_0, %k
