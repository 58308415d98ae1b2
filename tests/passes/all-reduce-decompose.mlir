// An all_reduce whose result is only used in a narrower type becomes a reduce_scatter and a gather of that type.
// RUN: meshgen opt %s --passes all-reduce-decompose | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<1024x4096xf32>) -> tensor<1024x4096xbf16> {
  %a = shard.all_reduce %p on @g grid_axes = [0] : tensor<1024x4096xf32> -> tensor<1024x4096xf32>
  %r = stablehlo.convert %a : (tensor<1024x4096xf32>) -> tensor<1024x4096xbf16>
  return %r : tensor<1024x4096xbf16>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %a = shard.reduce_scatter %p on @g grid_axes = [0] scatter_axis = 0 : tensor<1024x4096xf32> -> tensor<256x4096xf32>
// CHECK-NEXT: %r = stablehlo.convert %a : (tensor<256x4096xf32>) -> tensor<256x4096xbf16>
// CHECK-NEXT: %r_0 = shard.all_gather %r on @g grid_axes = [0] gather_axis = 0 : tensor<256x4096xbf16> -> tensor<1024x4096xbf16>
// CHECK-NEXT: func.return %r_0 : tensor<1024x4096xbf16>
