// Sink an all_reduce below a linear op whose result is smaller (the RFC's AllReduce Reassociate).
// RUN: meshgen opt %s --passes all-reduce-sink | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>, %w: tensor<12x4xf32>) -> tensor<8x4xf32> {
  %one = stablehlo.constant dense<0.5> : tensor<12x4xf32>
  %a = shard.all_reduce %p on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
  %r = stablehlo.dot_general %a, %one, contracting_dims = [1] x [0] : (tensor<8x12xf32>, tensor<12x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %one = stablehlo.constant dense<5.000000e-01> : tensor<12x4xf32>
// CHECK-NEXT: %r = stablehlo.dot_general %p, %one, contracting_dims = [1] x [0] : (tensor<8x12xf32>, tensor<12x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: %r_0 = shard.all_reduce %r on @g grid_axes = [0] : tensor<8x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT: func.return %r_0 : tensor<8x4xf32>
