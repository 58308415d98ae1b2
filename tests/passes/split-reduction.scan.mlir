// Split a cumulative sum of 65,536 elements into 32 parts of 2,048, and add the totals of the previous parts.
// RUN: meshgen opt %s --passes split-reduction | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<65536xf32>) -> tensor<65536xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 65536>, padding = dense<[[65535, 0]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) : (tensor<65536xf32>, tensor<f32>) -> tensor<65536xf32>
  %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<65536xf32> -> tensor<65536xf32>
  return %r : tensor<65536xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %0 = stablehlo.reshape %x : (tensor<65536xf32>) -> tensor<32x2048xf32>
// CHECK-NEXT: %1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %2 = "stablehlo.reduce_window"(%0, %1) <{window_dimensions = array<i64: 1, 2048>, window_strides = array<i64: 1, 1>, base_dilations = array<i64: 1, 1>, window_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [2047, 0]]> : tensor<2x2xi64>}> ({
// CHECK-NEXT: ^bb0(%3: tensor<f32>, %4: tensor<f32>):
// CHECK-NEXT: %5 = stablehlo.add %3, %4 : tensor<f32>
// CHECK-NEXT: stablehlo.return %5 : tensor<f32>
// CHECK-NEXT: }) : (tensor<32x2048xf32>, tensor<f32>) -> tensor<32x2048xf32>
// CHECK-NEXT: %6 = stablehlo.slice %2 [0:32, 2047:2048] : (tensor<32x2048xf32>) -> tensor<32x1xf32>
// CHECK-NEXT: %7 = stablehlo.reshape %6 : (tensor<32x1xf32>) -> tensor<32xf32>
// CHECK-NEXT: %8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %9 = "stablehlo.reduce_window"(%7, %8) <{window_dimensions = array<i64: 32>, window_strides = array<i64: 1>, base_dilations = array<i64: 1>, window_dilations = array<i64: 1>, padding = dense<[[31, 0]]> : tensor<1x2xi64>}> ({
// CHECK-NEXT: ^bb0(%10: tensor<f32>, %11: tensor<f32>):
// CHECK-NEXT: %12 = stablehlo.add %10, %11 : tensor<f32>
// CHECK-NEXT: stablehlo.return %12 : tensor<f32>
// CHECK-NEXT: }) : (tensor<32xf32>, tensor<f32>) -> tensor<32xf32>
// CHECK-NEXT: %13 = stablehlo.slice %9 [0:31] : (tensor<32xf32>) -> tensor<31xf32>
// CHECK-NEXT: %14 = stablehlo.pad %13, %8, low = [1], high = [0], interior = [0] : (tensor<31xf32>, tensor<f32>) -> tensor<32xf32>
// CHECK-NEXT: %15 = stablehlo.broadcast_in_dim %14, dims = [0] : (tensor<32xf32>) -> tensor<32x2048xf32>
// CHECK-NEXT: %16 = stablehlo.add %15, %2 : tensor<32x2048xf32>
// CHECK-NEXT: %s = stablehlo.reshape %16 : (tensor<32x2048xf32>) -> tensor<65536xf32>
// CHECK-NEXT: %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<65536xf32> -> tensor<65536xf32>
// CHECK-NEXT: func.return %r : tensor<65536xf32>
