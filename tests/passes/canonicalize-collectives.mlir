// Remove collectives over groups of one device, reshards between equal layouts, and shifts by a multiple of the group size.
// RUN: meshgen opt %s --passes canonicalize-collectives | filecheck %s

shard.grid @g(shape = 1x2) {axis_names = ["x", "y"]}
func.func @f(%p: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %r = shard.all_reduce %p on @g grid_axes = [0] : tensor<8x12xf32> -> tensor<8x12xf32>
  return %r : tensor<8x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: func.return %p : tensor<8x12xf32>
