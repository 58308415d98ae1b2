// Rewrite a reduction over one window that spans a dim to a reduction of that dim.
// RUN: meshgen opt %s --mesh x=4 --passes window-to-reduce | filecheck %s

func.func @pool(%x: tensor<2x8x6x16xf32>, %zero: tensor<f32>) -> (tensor<2x1x1x16xf32>, tensor<2x1x3x16xf32>) {
  %a = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 8, 6, 1>, window_strides = array<i64: 1, 8, 6, 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x8x6x16xf32>, tensor<f32>) -> tensor<2x1x1x16xf32>
  %b = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 8, 2, 1>, window_strides = array<i64: 1, 8, 2, 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x8x6x16xf32>, tensor<f32>) -> tensor<2x1x3x16xf32>
  return %a, %b : tensor<2x1x1x16xf32>, tensor<2x1x3x16xf32>
}

// CHECK-LABEL: func.func public @pool
// CHECK: [[TOTAL:%.*]] = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1, 2]
// CHECK-NEXT: %a = stablehlo.reshape [[TOTAL]]
// CHECK: %b = "stablehlo.reduce_window"
