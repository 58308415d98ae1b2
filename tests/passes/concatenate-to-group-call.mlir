// Gather two weights by a group call, directly from their buffers, instead of packing them into one message.
// RUN: meshgen opt %s --passes concatenate-to-group-call | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%a: tensor<4x96xf32>, %b: tensor<4x32xf32>) -> (tensor<16x96xf32>, tensor<16x32xf32>) {
  %p = stablehlo.concatenate %a, %b, dim = 1 : (tensor<4x96xf32>, tensor<4x32xf32>) -> tensor<4x128xf32>
  %g = shard.all_gather %p on @g grid_axes = [0] gather_axis = 0 : tensor<4x128xf32> -> tensor<16x128xf32>
  %r = stablehlo.slice %g [0:16, 0:96] : (tensor<16x128xf32>) -> tensor<16x96xf32>
  %s = stablehlo.slice %g [0:16, 96:128] : (tensor<16x128xf32>) -> tensor<16x32xf32>
  return %r, %s : tensor<16x96xf32>, tensor<16x32xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %r, %s = meshgen.grouped "all_gather" %a, %b on @g grid_axes = [0] axis = 0 : (tensor<4x96xf32>, tensor<4x32xf32>) -> (tensor<16x96xf32>, tensor<16x32xf32>)
// CHECK-NEXT: func.return %r, %s : tensor<16x96xf32>, tensor<16x32xf32>
