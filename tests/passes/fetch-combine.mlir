// Combine independent fetches of rows into one message, if the busiest device then sends fewer bytes.
// RUN: meshgen opt %s --passes fetch-combine | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %a = meshgen.fetch_rows %p on @g grid_axes = [0] dim = 0 base = 1 step = 8 limit = 32 : tensor<8x12xf32> -> tensor<8x12xf32>
  %b = meshgen.fetch_rows %p on @g grid_axes = [0] dim = 0 base = 2 step = 8 limit = 32 : tensor<8x12xf32> -> tensor<8x12xf32>
  %r = stablehlo.subtract %b, %a : tensor<8x12xf32>
  return %r : tensor<8x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = meshgen.fetch_rows %p on @g grid_axes = [0] dim = 0 base = 1 step = 8 limit = 32 : tensor<8x12xf32> -> tensor<9x12xf32>
// CHECK-NEXT: %a = stablehlo.slice %0 [0:8, 0:12] : (tensor<9x12xf32>) -> tensor<8x12xf32>
// CHECK-NEXT: %b = stablehlo.slice %0 [1:9, 0:12] : (tensor<9x12xf32>) -> tensor<8x12xf32>
// CHECK-NEXT: %r = stablehlo.subtract %b, %a : tensor<8x12xf32>
// CHECK-NEXT: func.return %r : tensor<8x12xf32>
