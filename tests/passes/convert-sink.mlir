// Sink a widening cast below a collective, which then sends the narrower dtype.
// RUN: meshgen opt %s --passes convert-sink | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xbf16>) -> tensor<32x12xf32> {
  %a = stablehlo.convert %p : (tensor<8x12xbf16>) -> tensor<8x12xf32>
  %r = shard.all_gather %a on @g grid_axes = [0] gather_axis = 0 : tensor<8x12xf32> -> tensor<32x12xf32>
  return %r : tensor<32x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %p_0 = shard.all_gather %p on @g grid_axes = [0] gather_axis = 0 : tensor<8x12xbf16> -> tensor<32x12xbf16>
// CHECK-NEXT: %r = stablehlo.convert %p_0 : (tensor<32x12xbf16>) -> tensor<32x12xf32>
// CHECK-NEXT: func.return %r : tensor<32x12xf32>
