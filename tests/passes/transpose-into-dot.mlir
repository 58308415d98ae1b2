// The gradient of a matrix as autodiff writes it: swapping the dot's operands yields the transposed layout. A dot with two users is unchanged.
// RUN: meshgen opt %s --passes transpose-into-dot | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%dy: tensor<64x8x32xbf16>, %x: tensor<64x8x16xbf16>) -> (tensor<8x16x32xf32>, tensor<8x16x32xf32>, tensor<8x32x16xf32>) {
  %a = stablehlo.dot_general %dy, %x, batching_dims = [1] x [1], contracting_dims = [0] x [0], precision = [HIGHEST, DEFAULT] : (tensor<64x8x32xbf16>, tensor<64x8x16xbf16>) -> tensor<8x32x16xf32>
  %t = stablehlo.transpose %a, dims = [0, 2, 1] : (tensor<8x32x16xf32>) -> tensor<8x16x32xf32>
  %r = shard.all_reduce %t on @g grid_axes = [0] : tensor<8x16x32xf32> -> tensor<8x16x32xf32>
  %b = stablehlo.dot_general %dy, %x, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<64x8x32xbf16>, tensor<64x8x16xbf16>) -> tensor<8x32x16xf32>
  %u = stablehlo.transpose %b, dims = [0, 2, 1] : (tensor<8x32x16xf32>) -> tensor<8x16x32xf32>
  return %r, %u, %b : tensor<8x16x32xf32>, tensor<8x16x32xf32>, tensor<8x32x16xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %t = stablehlo.dot_general %x, %dy, batching_dims = [1] x [1], contracting_dims = [0] x [0], precision = [DEFAULT, HIGHEST] : (tensor<64x8x16xbf16>, tensor<64x8x32xbf16>) -> tensor<8x16x32xf32>
// CHECK-NEXT: %r = shard.all_reduce %t on @g grid_axes = [0] : tensor<8x16x32xf32> -> tensor<8x16x32xf32>
// CHECK-NEXT: %b = stablehlo.dot_general %dy, %x, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<64x8x32xbf16>, tensor<64x8x16xbf16>) -> tensor<8x32x16xf32>
// CHECK-NEXT: %u = stablehlo.transpose %b, dims = [0, 2, 1] : (tensor<8x32x16xf32>) -> tensor<8x16x32xf32>
// CHECK-NEXT: func.return %r, %u, %b : tensor<8x16x32xf32>, tensor<8x16x32xf32>, tensor<8x32x16xf32>
