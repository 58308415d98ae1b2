// Concatenate the results of two collectives without a copy: they write to their ranges of the result's buffer.
// RUN: meshgen opt %s --passes concatenate-in-place | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<128xf32> {
  %a = shard.all_reduce %x on @g grid_axes = [0] : tensor<64xf32> -> tensor<64xf32>
  %b = shard.all_reduce %y on @g grid_axes = [0] : tensor<64xf32> -> tensor<64xf32>
  %r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  return %r : tensor<128xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %a = shard.all_reduce %x on @g grid_axes = [0] : tensor<64xf32> -> tensor<64xf32>
// CHECK-NEXT: %b = shard.all_reduce %y on @g grid_axes = [0] : tensor<64xf32> -> tensor<64xf32>
// CHECK-NEXT: %r = stablehlo.concatenate %a, %b, dim = 0 {meshgen.view} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
// CHECK-NEXT: func.return %r : tensor<128xf32>
