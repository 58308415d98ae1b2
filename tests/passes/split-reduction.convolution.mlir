// Split four sums of 2,097,152 products each into four parts. The features, which are the batch here, are grouped.
// RUN: meshgen opt %s --passes split-reduction | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<4x512x1024x2xf32>, %g: tensor<4x512x1024x2xf32>) -> tensor<1x1x2x2xf32> {
  %p = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4x512x1024x2xf32>, tensor<4x512x1024x2xf32>) -> tensor<1x1x2x2xf32>
  %r = shard.all_reduce %p on @g grid_axes = [0] : tensor<1x1x2x2xf32> -> tensor<1x1x2x2xf32>
  return %r : tensor<1x1x2x2xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.reshape %g : (tensor<4x512x1024x2xf32>) -> tensor<4x1x512x1024x2xf32>
// CHECK-NEXT: %1 = stablehlo.transpose %0, dims = [1, 2, 3, 0, 4]
// CHECK-NEXT: %2 = stablehlo.reshape %1 : (tensor<1x512x1024x4x2xf32>) -> tensor<1x512x1024x8xf32>
// CHECK-NEXT: %3 = stablehlo.convolution(%x, %2)
// CHECK-SAME: {feature_group_count = 4 : i64, batch_group_count = 1 : i64}
// CHECK-SAME: -> tensor<1x1x2x8xf32>
// CHECK-NEXT: %4 = stablehlo.reshape %3 : (tensor<1x1x2x8xf32>) -> tensor<1x1x2x4x2xf32>
// CHECK-NEXT: %5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %p = stablehlo.reduce(%4 init: %5) applies stablehlo.add across dimensions = [3]
// CHECK-NEXT: %r = shard.all_reduce %p
