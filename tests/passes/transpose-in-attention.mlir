// The result of an attention is written with the heads beside each other, and read through that by what takes it as it is. Where something else
// (a message) has to have it as it is, it stays, as do the results of other dots.
// RUN: meshgen opt %s --passes transpose-in-attention | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%q: tensor<2x32x4x64xbf16>, %k: tensor<2x32x4x64xbf16>, %v: tensor<2x32x4x64xbf16>, %u: tensor<2x4x64x32xbf16>) -> (tensor<2x32x4x64xbf16>, tensor<2x4x64x32xbf16>, tensor<2x32x4x64xbf16>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %y = shard.all_reduce %u on @g grid_axes = [0] : tensor<2x4x64x32xbf16> -> tensor<2x4x64x32xbf16>
  %s = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x32x4x64xbf16>, tensor<2x32x4x64xbf16>) -> tensor<2x4x32x32xf32>
  %high = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
  %high_n = stablehlo.broadcast_in_dim %high, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
  %shifted = stablehlo.subtract %s, %high_n : tensor<2x4x32x32xf32>
  %e = stablehlo.exponential %shifted : tensor<2x4x32x32xf32>
  %total = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
  %total_n = stablehlo.broadcast_in_dim %total, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
  %p = stablehlo.divide %e, %total_n : tensor<2x4x32x32xf32>
  %w = stablehlo.convert %p : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xbf16>
  %o = stablehlo.dot_general %v, %w, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x32x4x64xbf16>, tensor<2x4x32x32xbf16>) -> tensor<2x4x64x32xbf16>
  %n = stablehlo.negate %o : tensor<2x4x64x32xbf16>
  %t = stablehlo.transpose %o, dims = [0, 3, 1, 2] : (tensor<2x4x64x32xbf16>) -> tensor<2x32x4x64xbf16>
  %a = stablehlo.add %n, %y : tensor<2x4x64x32xbf16>
  %d = stablehlo.dot_general %v, %q, batching_dims = [0, 2] x [0, 2], contracting_dims = [1] x [1] : (tensor<2x32x4x64xbf16>, tensor<2x32x4x64xbf16>) -> tensor<2x4x64x64xbf16>
  %c = stablehlo.slice %d [0:2, 0:4, 0:64, 0:32] : (tensor<2x4x64x64xbf16>) -> tensor<2x4x64x32xbf16>
  %b = stablehlo.transpose %c, dims = [0, 3, 1, 2] : (tensor<2x4x64x32xbf16>) -> tensor<2x32x4x64xbf16>
  return %t, %a, %b : tensor<2x32x4x64xbf16>, tensor<2x4x64x32xbf16>, tensor<2x32x4x64xbf16>
}

// CHECK-LABEL: func.func public @f
// CHECK: %o = stablehlo.dot_general %v, %w, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x32x4x64xbf16>, tensor<2x4x32x32xbf16>) -> tensor<2x4x64x32xbf16>
// CHECK-NEXT: %t = stablehlo.transpose %o, dims = [0, 3, 1, 2] : (tensor<2x4x64x32xbf16>) -> tensor<2x32x4x64xbf16>
// CHECK-NEXT: %0 = stablehlo.transpose %t, dims = [0, 2, 3, 1] : (tensor<2x32x4x64xbf16>) -> tensor<2x4x64x32xbf16>
// CHECK-NEXT: %n = stablehlo.negate %0 : tensor<2x4x64x32xbf16>
// CHECK-NEXT: %a = stablehlo.add %n, %y : tensor<2x4x64x32xbf16>
// CHECK-NEXT: %d = stablehlo.dot_general %v, %q, batching_dims = [0, 2] x [0, 2], contracting_dims = [1] x [1] : (tensor<2x32x4x64xbf16>, tensor<2x32x4x64xbf16>) -> tensor<2x4x64x64xbf16>
// CHECK-NEXT: %c = stablehlo.slice %d [0:2, 0:4, 0:64, 0:32] : (tensor<2x4x64x64xbf16>) -> tensor<2x4x64x32xbf16>
// CHECK-NEXT: %b = stablehlo.transpose %c, dims = [0, 3, 1, 2] : (tensor<2x4x64x32xbf16>) -> tensor<2x32x4x64xbf16>
// CHECK-NEXT: func.return %t, %a, %b : tensor<2x32x4x64xbf16>, tensor<2x4x64x32xbf16>, tensor<2x32x4x64xbf16>
