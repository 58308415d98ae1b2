// Combine small independent collectives over the same groups into one message, which pays one latency.
// RUN: meshgen opt %s --passes collective-combine | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8xf32>, %q: tensor<4xf32>) -> tensor<4xf32> {
  %a = shard.all_reduce %p on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
  %b = shard.all_reduce %q on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  %c = stablehlo.slice %a [0:4] : (tensor<8xf32>) -> tensor<4xf32>
  %r = stablehlo.add %b, %c : tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.reshape %p : (tensor<8xf32>) -> tensor<1x8xf32>
// CHECK-NEXT: %1 = stablehlo.reshape %q : (tensor<4xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<1x8xf32>, tensor<1x4xf32>) -> tensor<1x12xf32>
// CHECK-NEXT: %3 = shard.all_reduce %2 on @g grid_axes = [0] {{.*}} : tensor<1x12xf32> -> tensor<1x12xf32>
// CHECK-NEXT: %4 = stablehlo.slice %3 [0:1, 0:8] : (tensor<1x12xf32>) -> tensor<1x8xf32>
// CHECK-NEXT: %a = stablehlo.reshape %4 : (tensor<1x8xf32>) -> tensor<8xf32>
// CHECK-NEXT: %5 = stablehlo.slice %3 [0:1, 8:12] : (tensor<1x12xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %b = stablehlo.reshape %5 : (tensor<1x4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %c = stablehlo.slice %a [0:4] : (tensor<8xf32>) -> tensor<4xf32>
// CHECK-NEXT: %r = stablehlo.add %b, %c : tensor<4xf32>
// CHECK-NEXT: func.return %r : tensor<4xf32>
