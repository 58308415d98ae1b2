// For few updates of embedding rows, indices become row numbers; an index out of bounds becomes a row that does not exist.
// RUN: meshgen opt %s --passes scatter-to-rows | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%t: tensor<16x4x8xf32>, %i: tensor<2x3x1xi32>, %u: tensor<2x3x4x8xf32>) -> tensor<16x4x8xf32> {
  %s = "stablehlo.scatter"(%t, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) : (tensor<16x4x8xf32>, tensor<2x3x1xi32>, tensor<2x3x4x8xf32>) -> tensor<16x4x8xf32>
  %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<16x4x8xf32> -> tensor<16x4x8xf32>
  return %r : tensor<16x4x8xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.reshape %t : (tensor<16x4x8xf32>) -> tensor<16x32xf32>
// CHECK-NEXT: %1 = stablehlo.reshape %u : (tensor<2x3x4x8xf32>) -> tensor<6x32xf32>
// CHECK-NEXT: %2 = stablehlo.reshape %i : (tensor<2x3x1xi32>) -> tensor<2x3xi32>
// CHECK-NEXT: %3 = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT: %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<i32>) -> tensor<2x3xi32>
// CHECK-NEXT: %5 = stablehlo.compare GE, %2, %4 : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi1>
// CHECK-NEXT: %6 = stablehlo.constant dense<16> : tensor<i32>
// CHECK-NEXT: %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<i32>) -> tensor<2x3xi32>
// CHECK-NEXT: %8 = stablehlo.compare LT, %2, %7 : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi1>
// CHECK-NEXT: %9 = stablehlo.and %5, %8 : tensor<2x3xi1>
// CHECK-NEXT: %10 = stablehlo.constant dense<16> : tensor<i32>
// CHECK-NEXT: %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<i32>) -> tensor<2x3xi32>
// CHECK-NEXT: %12 = stablehlo.select %9, %2, %11 : tensor<2x3xi1>, tensor<2x3xi32>
// CHECK-NEXT: %13 = stablehlo.reshape %12 : (tensor<2x3xi32>) -> tensor<6x1xi32>
// CHECK-NEXT: %14 = "stablehlo.scatter"(%0, %13, %1) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
// CHECK-NEXT: ^bb0(%a: tensor<f32>, %b: tensor<f32>):
// CHECK-NEXT: %c = stablehlo.add %a, %b : tensor<f32>
// CHECK-NEXT: stablehlo.return %c : tensor<f32>
// CHECK-NEXT: }) : (tensor<16x32xf32>, tensor<6x1xi32>, tensor<6x32xf32>) -> tensor<16x32xf32>
// CHECK-NEXT: %s = stablehlo.reshape %14 : (tensor<16x32xf32>) -> tensor<16x4x8xf32>
// CHECK-NEXT: %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<16x4x8xf32> -> tensor<16x4x8xf32>
// CHECK-NEXT: func.return %r : tensor<16x4x8xf32>
