// The image gradient of a strided convolution: the zeros between the operand's elements are not multiplied.
// RUN: meshgen opt %s --passes convolution-to-phases | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<2x8x8x4xf32>, %w: tensor<3x1x4x5xf32>) -> tensor<2x16x15x5xf32> {
  %p = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 2], [0, 0]], lhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x4xf32>, tensor<3x1x4x5xf32>) -> tensor<2x16x15x5xf32>
  %r = shard.all_reduce %p on @g grid_axes = [0] : tensor<2x16x15x5xf32> -> tensor<2x16x15x5xf32>
  return %r : tensor<2x16x15x5xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK: %1 = stablehlo.pad %w, %0, low = [0, 0, 0, 0], high = [1, 0, 0, 0]
// CHECK-NEXT: %2 = stablehlo.reshape %1 : (tensor<4x1x4x5xf32>) -> tensor<2x2x1x4x5xf32>
// CHECK-NEXT: %3 = stablehlo.reverse %2, dims = [1]
// CHECK-NEXT: %4 = stablehlo.transpose %3, dims = [0, 2, 3, 1, 4]
// CHECK-NEXT: %5 = stablehlo.reshape %4 : (tensor<2x1x4x2x5xf32>) -> tensor<2x1x4x10xf32>
// CHECK-NEXT: %6 = stablehlo.convolution(%x, %5)
// CHECK-SAME: pad = {{\[\[}}0, 1], [0, 0]], lhs_dilate = [1, 1]
// CHECK-SAME: -> tensor<2x8x8x10xf32>
// CHECK-NEXT: %7 = stablehlo.reshape %6 : (tensor<2x8x8x10xf32>) -> tensor<2x8x8x2x5xf32>
// CHECK-NEXT: %8 = stablehlo.transpose %7, dims = [0, 1, 3, 2, 4]
// CHECK-NEXT: %9 = stablehlo.reshape %8 : (tensor<2x8x2x8x5xf32>) -> tensor<2x16x8x5xf32>
// CHECK: %p = stablehlo.pad %9, %10, low = [0, 0, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 1, 0]
// CHECK-NEXT: %r = shard.all_reduce %p
