// Rewrite a maximum over windows of two elements to the maximum of two strided slices.
// RUN: meshgen opt %s --passes reduce-window-to-slices | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<8xf32>) -> tensor<4xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %p = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<4xf32>
  %r = shard.all_reduce %p on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %0 = stablehlo.slice %x [0:7:2] : (tensor<8xf32>) -> tensor<4xf32>
// CHECK-NEXT: %1 = stablehlo.slice %x [1:8:2] : (tensor<8xf32>) -> tensor<4xf32>
// CHECK-NEXT: %p = stablehlo.maximum %0, %1 : tensor<4xf32>
// CHECK-NEXT: %r = shard.all_reduce %p on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: func.return %r : tensor<4xf32>
