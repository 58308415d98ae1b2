// Combine larger independent collectives into one message, if the predicted step becomes shorter.
// RUN: meshgen opt %s --passes collective-combine-large | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<128x1024xf32>, %q: tensor<128x1024xf32>) -> tensor<128x1024xf32> {
  %a = shard.all_reduce %p on @g grid_axes = [0] : tensor<128x1024xf32> -> tensor<128x1024xf32>
  %b = shard.all_reduce %q on @g grid_axes = [0] : tensor<128x1024xf32> -> tensor<128x1024xf32>
  %r = stablehlo.multiply %b, %a : tensor<128x1024xf32>
  return %r : tensor<128x1024xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.reshape %p : (tensor<128x1024xf32>) -> tensor<1x131072xf32>
// CHECK-NEXT: %1 = stablehlo.reshape %q : (tensor<128x1024xf32>) -> tensor<1x131072xf32>
// CHECK-NEXT: %2 = stablehlo.concatenate %0, %1, dim = 1 : (tensor<1x131072xf32>, tensor<1x131072xf32>) -> tensor<1x262144xf32>
// CHECK-NEXT: %3 = shard.all_reduce %2 on @g grid_axes = [0] {{.*}} : tensor<1x262144xf32> -> tensor<1x262144xf32>
// CHECK-NEXT: %4 = stablehlo.slice %3 [0:1, 0:131072] : (tensor<1x262144xf32>) -> tensor<1x131072xf32>
// CHECK-NEXT: %a = stablehlo.reshape %4 : (tensor<1x131072xf32>) -> tensor<128x1024xf32>
// CHECK-NEXT: %5 = stablehlo.slice %3 [0:1, 131072:262144] : (tensor<1x262144xf32>) -> tensor<1x131072xf32>
// CHECK-NEXT: %b = stablehlo.reshape %5 : (tensor<1x131072xf32>) -> tensor<128x1024xf32>
// CHECK-NEXT: %r = stablehlo.multiply %b, %a : tensor<128x1024xf32>
// CHECK-NEXT: func.return %r : tensor<128x1024xf32>
