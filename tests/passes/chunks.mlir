// Split chains of ops around exposed collectives into 2, 4 or 8 chunks, so that communication overlaps computation.
// RUN: meshgen opt %s --passes chunks | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8192x8192xbf16>, %w: tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16> {
  %h = stablehlo.dot_general %p, %w, contracting_dims = [1] x [0] : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %r = shard.all_reduce %h on @g grid_axes = [1] : tensor<8192x8192xbf16> -> tensor<8192x8192xbf16>
  return %r : tensor<8192x8192xbf16>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.slice %p [0:1024, 0:8192] : (tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %1 = stablehlo.slice %p [1024:2048, 0:8192] : (tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %2 = stablehlo.slice %p [2048:3072, 0:8192] : (tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %3 = stablehlo.slice %p [3072:4096, 0:8192] : (tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %4 = stablehlo.slice %p [4096:5120, 0:8192] : (tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %5 = stablehlo.slice %p [5120:6144, 0:8192] : (tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %6 = stablehlo.slice %p [6144:7168, 0:8192] : (tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %7 = stablehlo.slice %p [7168:8192, 0:8192] : (tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %h = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<1024x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %h_0 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<1024x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %h_1 = stablehlo.dot_general %2, %w, contracting_dims = [1] x [0] : (tensor<1024x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %h_2 = stablehlo.dot_general %3, %w, contracting_dims = [1] x [0] : (tensor<1024x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %h_3 = stablehlo.dot_general %4, %w, contracting_dims = [1] x [0] : (tensor<1024x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %h_4 = stablehlo.dot_general %5, %w, contracting_dims = [1] x [0] : (tensor<1024x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %h_5 = stablehlo.dot_general %6, %w, contracting_dims = [1] x [0] : (tensor<1024x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %h_6 = stablehlo.dot_general %7, %w, contracting_dims = [1] x [0] : (tensor<1024x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<1024x8192xbf16>
// CHECK-NEXT: %r = shard.all_reduce %h on @g grid_axes = [1] : tensor<1024x8192xbf16> -> tensor<1024x8192xbf16>
// CHECK-NEXT: %r_0 = shard.all_reduce %h_0 on @g grid_axes = [1] : tensor<1024x8192xbf16> -> tensor<1024x8192xbf16>
// CHECK-NEXT: %r_1 = shard.all_reduce %h_1 on @g grid_axes = [1] : tensor<1024x8192xbf16> -> tensor<1024x8192xbf16>
// CHECK-NEXT: %r_2 = shard.all_reduce %h_2 on @g grid_axes = [1] : tensor<1024x8192xbf16> -> tensor<1024x8192xbf16>
// CHECK-NEXT: %r_3 = shard.all_reduce %h_3 on @g grid_axes = [1] : tensor<1024x8192xbf16> -> tensor<1024x8192xbf16>
// CHECK-NEXT: %r_4 = shard.all_reduce %h_4 on @g grid_axes = [1] : tensor<1024x8192xbf16> -> tensor<1024x8192xbf16>
// CHECK-NEXT: %r_5 = shard.all_reduce %h_5 on @g grid_axes = [1] : tensor<1024x8192xbf16> -> tensor<1024x8192xbf16>
// CHECK-NEXT: %r_6 = shard.all_reduce %h_6 on @g grid_axes = [1] : tensor<1024x8192xbf16> -> tensor<1024x8192xbf16>
// CHECK-NEXT: %r_7 = stablehlo.concatenate %r, %r_0, %r_1, %r_2, %r_3, %r_4, %r_5, %r_6, dim = 0 : (tensor<1024x8192xbf16>, tensor<1024x8192xbf16>, tensor<1024x8192xbf16>, tensor<1024x8192xbf16>, tensor<1024x8192xbf16>, tensor<1024x8192xbf16>, tensor<1024x8192xbf16>, tensor<1024x8192xbf16>) -> tensor<8192x8192xbf16>
// CHECK-NEXT: func.return %r_7 : tensor<8192x8192xbf16>
