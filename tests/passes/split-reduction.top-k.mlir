// Select the top 4 of 30,000 in two stages: of thirty parts of 1,024 (the last one padded), then of their 120 results.
// RUN: meshgen opt %s --passes split-reduction | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<2x30000xi32>) -> (tensor<2x4xi32>, tensor<2x4xi32>) {
  %v, %i = chlo.top_k(%x, k = 4) : tensor<2x30000xi32> -> (tensor<2x4xi32>, tensor<2x4xi32>)
  %r = shard.all_reduce %v on @g grid_axes = [0] : tensor<2x4xi32> -> tensor<2x4xi32>
  return %r, %i : tensor<2x4xi32>, tensor<2x4xi32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.constant dense<-2147483648> : tensor<i32>
// CHECK-NEXT: %1 = stablehlo.pad %x, %0, low = [0, 0], high = [0, 720], interior = [0, 0] : (tensor<2x30000xi32>, tensor<i32>) -> tensor<2x30720xi32>
// CHECK-NEXT: %2 = stablehlo.reshape %1 : (tensor<2x30720xi32>) -> tensor<2x30x1024xi32>
// CHECK-NEXT: %3, %4 = chlo.top_k(%2, k = 4) : tensor<2x30x1024xi32> -> (tensor<2x30x4xi32>, tensor<2x30x4xi32>)
// CHECK-NEXT: %5 = stablehlo.iota dim = 0 : tensor<30xi32>
// CHECK-NEXT: %6 = stablehlo.constant dense<1024> : tensor<i32>
// CHECK-NEXT: %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<i32>) -> tensor<30xi32>
// CHECK-NEXT: %8 = stablehlo.multiply %5, %7 : tensor<30xi32>
// CHECK-NEXT: %9 = stablehlo.broadcast_in_dim %8, dims = [1] : (tensor<30xi32>) -> tensor<2x30x4xi32>
// CHECK-NEXT: %10 = stablehlo.add %4, %9 : tensor<2x30x4xi32>
// CHECK-NEXT: %11 = stablehlo.reshape %3 : (tensor<2x30x4xi32>) -> tensor<2x120xi32>
// CHECK-NEXT: %12 = stablehlo.reshape %10 : (tensor<2x30x4xi32>) -> tensor<2x120xi32>
// CHECK-NEXT: %v, %13 = chlo.top_k(%11, k = 4) : tensor<2x120xi32> -> (tensor<2x4xi32>, tensor<2x4xi32>)
// CHECK-NEXT: %14 = stablehlo.reshape %13 : (tensor<2x4xi32>) -> tensor<2x4x1xi32>
// CHECK-NEXT: %15 = "stablehlo.gather"(%12, %14) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}> : (tensor<2x120xi32>, tensor<2x4x1xi32>) -> tensor<2x4x1xi32>
// CHECK-NEXT: %i = stablehlo.reshape %15 : (tensor<2x4x1xi32>) -> tensor<2x4xi32>
// CHECK-NEXT: %r = shard.all_reduce %v on @g grid_axes = [0] : tensor<2x4xi32> -> tensor<2x4xi32>
// CHECK-NEXT: func.return %r, %i : tensor<2x4xi32>, tensor<2x4xi32>
