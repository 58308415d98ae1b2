// A single result tile would occupy one multiprocessor for 16,384 iterations of its main loop. Split-k parts fill the GPU.
// RUN: meshgen opt %s --passes split-reduction | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<128x16384xbf16>, %w: tensor<16384x128xbf16>) -> tensor<128x128xbf16> {
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<128x16384xbf16>, tensor<16384x128xbf16>) -> tensor<128x128xbf16>
  %r = shard.all_reduce %p on @g grid_axes = [0] : tensor<128x128xbf16> -> tensor<128x128xbf16>
  return %r : tensor<128x128xbf16>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.reshape %x : (tensor<128x16384xbf16>) -> tensor<128x16x1024xbf16>
// CHECK-NEXT: %1 = stablehlo.reshape %w : (tensor<16384x128xbf16>) -> tensor<16x1024x128xbf16>
// CHECK-NEXT: %2 = stablehlo.dot_general %0, %1, batching_dims = [1] x [0], contracting_dims = [2] x [1]
// CHECK-SAME: -> tensor<16x128x128xf32>
// CHECK-NEXT: %3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %4 = stablehlo.reduce(%2 init: %3) applies stablehlo.add across dimensions = [0]
// CHECK-NEXT: %p = stablehlo.convert %4
// CHECK-NEXT: %r = shard.all_reduce %p
