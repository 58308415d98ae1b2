// A device holds eight of the nine rows that it reads: only the row before them is fetched, and kernels read both buffers.
// RUN: meshgen opt %s --passes fetch-drop-local-rows | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<8x12xf32>) -> tensor<9x12xf32> {
  %w = meshgen.fetch_rows %x on @g grid_axes = [0] dim = 0 base = -1 step = 8 limit = 32 : tensor<8x12xf32> -> tensor<9x12xf32>
  %r = stablehlo.negate %w : tensor<9x12xf32>
  return %r : tensor<9x12xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %w_edges = meshgen.fetch_rows %x on @g grid_axes = [0] dim = 0 base = -1 step = 8 limit = 32 : tensor<8x12xf32> -> tensor<1x12xf32>
// CHECK-NEXT: %w = stablehlo.concatenate %w_edges, %x, dim = 0 : (tensor<1x12xf32>, tensor<8x12xf32>) -> tensor<9x12xf32>
// CHECK-NEXT: %r = stablehlo.negate %w : tensor<9x12xf32>
// CHECK-NEXT: func.return %r : tensor<9x12xf32>
