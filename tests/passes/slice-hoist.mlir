// Hoist the slice of a device's tile above its producers, so that only the tile is computed.
// RUN: meshgen opt %s --passes slice-hoist | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>, %w: tensor<12x4xf32>) -> tensor<2x4xf32> {
  %a = stablehlo.dot_general %p, %w, contracting_dims = [1] x [0] : (tensor<8x12xf32>, tensor<12x4xf32>) -> tensor<8x4xf32>
  %r = shard.all_slice %a on @g grid_axes = [0] slice_axis = 0 : tensor<8x4xf32> -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %p_0 = shard.all_slice %p on @g grid_axes = [0] slice_axis = 0 : tensor<8x12xf32> -> tensor<2x12xf32>
// CHECK-NEXT: %r = stablehlo.dot_general %p_0, %w, contracting_dims = [1] x [0] : (tensor<2x12xf32>, tensor<12x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: func.return %r : tensor<2x4xf32>
