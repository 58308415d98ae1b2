// One layer of stacked weights is a byte range of the stack: a view, without a copy and without a kernel per layer.
// RUN: meshgen opt %s --passes slice-to-subview | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%w: tensor<3x8x64xf32>) -> tensor<1x8x64xf32> {
  %l = stablehlo.slice %w [2:3, 0:8, 0:64] : (tensor<3x8x64xf32>) -> tensor<1x8x64xf32>
  %t = stablehlo.tanh %l : tensor<1x8x64xf32>
  %r = shard.all_reduce %t on @g grid_axes = [0] : tensor<1x8x64xf32> -> tensor<1x8x64xf32>
  return %r : tensor<1x8x64xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %l = stablehlo.slice %w [2:3, 0:8, 0:64] {meshgen.view} : (tensor<3x8x64xf32>) -> tensor<1x8x64xf32>
// CHECK-NEXT: %t = stablehlo.tanh %l : tensor<1x8x64xf32>
// CHECK-NEXT: %r = shard.all_reduce %t on @g grid_axes = [0] : tensor<1x8x64xf32> -> tensor<1x8x64xf32>
// CHECK-NEXT: func.return %r : tensor<1x8x64xf32>
