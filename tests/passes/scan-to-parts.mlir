// A cumulative sum of 65,536 numbers: 256 parts of 256, then the totals of the parts, one part later.
// RUN: meshgen opt %s --passes scan-to-parts | filecheck %s

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
// CHECK-NEXT: %0 = stablehlo.reshape %x : (tensor<65536xf32>) -> tensor<256x256xf32>
// CHECK-NEXT: %1 = "stablehlo.reduce_window"(%0, %zero) <{window_dimensions = array<i64: 1, 256>, window_strides = array<i64: 1, 1>, base_dilations = array<i64: 1, 1>, window_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [255, 0]]> : tensor<2x2xi64>}> ({
// CHECK-NEXT: ^bb0(%2: tensor<f32>, %3: tensor<f32>):
// CHECK-NEXT: %4 = stablehlo.add %2, %3 : tensor<f32>
// CHECK-NEXT: stablehlo.return %4 : tensor<f32>
// CHECK-NEXT: }) : (tensor<256x256xf32>, tensor<f32>) -> tensor<256x256xf32>
// CHECK-NEXT: %5 = stablehlo.slice %1 [0:256, 255:256] : (tensor<256x256xf32>) -> tensor<256x1xf32>
// CHECK-NEXT: %6 = stablehlo.reshape %5 : (tensor<256x1xf32>) -> tensor<256xf32>
// CHECK-NEXT: %7 = "stablehlo.reduce_window"(%6, %zero) <{window_dimensions = array<i64: 256>, window_strides = array<i64: 1>, base_dilations = array<i64: 1>, window_dilations = array<i64: 1>, padding = dense<[[255, 0]]> : tensor<1x2xi64>}> ({
// CHECK-NEXT: ^bb0(%8: tensor<f32>, %9: tensor<f32>):
// CHECK-NEXT: %10 = stablehlo.add %8, %9 : tensor<f32>
// CHECK-NEXT: stablehlo.return %10 : tensor<f32>
// CHECK-NEXT: }) : (tensor<256xf32>, tensor<f32>) -> tensor<256xf32>
// CHECK-NEXT: %11 = stablehlo.slice %7 [0:255] : (tensor<256xf32>) -> tensor<255xf32>
// CHECK-NEXT: %12 = stablehlo.pad %11, %zero, low = [1], high = [0], interior = [0] : (tensor<255xf32>, tensor<f32>) -> tensor<256xf32>
// CHECK-NEXT: %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<256xf32>) -> tensor<256x256xf32>
// CHECK-NEXT: %14 = stablehlo.add %13, %1 : tensor<256x256xf32>
// CHECK-NEXT: %s = stablehlo.reshape %14 : (tensor<256x256xf32>) -> tensor<65536xf32>
// CHECK-NEXT: %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<65536xf32> -> tensor<65536xf32>
// CHECK-NEXT: func.return %r : tensor<65536xf32>
