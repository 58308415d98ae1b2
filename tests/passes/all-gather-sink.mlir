// Sink a gather below an op that can run on tiles, if that sends fewer bytes (the RFC's AllGather Move Down).
// RUN: meshgen opt %s --passes all-gather-sink | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>) -> tensor<32x4xf32> {
  %w = stablehlo.constant dense<0.5> : tensor<12x4xf32>
  %a = shard.all_gather %p on @g grid_axes = [0] gather_axis = 0 : tensor<8x12xf32> -> tensor<32x12xf32>
  %r = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<32x12xf32>, tensor<12x4xf32>) -> tensor<32x4xf32>
  return %r : tensor<32x4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %w = stablehlo.constant dense<5.000000e-01> : tensor<12x4xf32>
// CHECK-NEXT: %r = stablehlo.dot_general %p, %w, contracting_dims = [1] x [0] : (tensor<8x12xf32>, tensor<12x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: %r_0 = shard.all_gather %r on @g grid_axes = [0] gather_axis = 0 : tensor<8x4xf32> -> tensor<32x4xf32>
// CHECK-NEXT: func.return %r_0 : tensor<32x4xf32>
