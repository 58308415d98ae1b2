// A gather along the inner dim of 64 rows copies 64 runs of each tile. Along a new outermost dim it copies none; kernels transpose.
// RUN: meshgen opt %s --passes collective-outermost-dim | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<64x2xf32>) -> tensor<64x8xf32> {
  %t = stablehlo.tanh %x : tensor<64x2xf32>
  %r = shard.all_gather %t on @g grid_axes = [0] gather_axis = 1 : tensor<64x2xf32> -> tensor<64x8xf32>
  %s = stablehlo.negate %r : tensor<64x8xf32>
  return %s : tensor<64x8xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %t = stablehlo.tanh %x : tensor<64x2xf32>
// CHECK-NEXT: %0 = stablehlo.reshape %t : (tensor<64x2xf32>) -> tensor<1x64x2xf32>
// CHECK-NEXT: %r_packed = shard.all_gather %0 on @g grid_axes = [0] gather_axis = 0 : tensor<1x64x2xf32> -> tensor<4x64x2xf32>
// CHECK-NEXT: %1 = stablehlo.transpose %r_packed, dims = [1, 0, 2] : (tensor<4x64x2xf32>) -> tensor<64x4x2xf32>
// CHECK-NEXT: %r = stablehlo.reshape %1 : (tensor<64x4x2xf32>) -> tensor<64x8xf32>
// CHECK-NEXT: %s = stablehlo.negate %r : tensor<64x8xf32>
// CHECK-NEXT: func.return %s : tensor<64x8xf32>
