// Break the dependence of a reduction on another one, if it depends only through a term whose sum is known.
// RUN: meshgen opt %s --passes all-reduce-untie | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%q: tensor<8xf32>, %s: tensor<8xf32>) -> tensor<8xf32> {
  %m = shard.all_reduce %q on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
  %t = stablehlo.multiply %q, %m : tensor<8xf32>
  %u = stablehlo.subtract %s, %t : tensor<8xf32>
  %r = shard.all_reduce %u on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %m = shard.all_reduce %q on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
// CHECK-NEXT: %s_0 = shard.all_reduce %s on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
// CHECK-NEXT: %t = stablehlo.multiply %m, %m : tensor<8xf32>
// CHECK-NEXT: %r = stablehlo.subtract %s_0, %t : tensor<8xf32>
// CHECK-NEXT: func.return %r : tensor<8xf32>
