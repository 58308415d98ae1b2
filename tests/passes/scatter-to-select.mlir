// The gradient of a lookup in each row becomes a select of the looked-up column.
// RUN: meshgen opt %s --passes scatter-to-select | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%i: tensor<4x1x1xi32>, %u: tensor<4x1xf32>) -> tensor<4x9xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %z = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4x9xf32>
  %s = "stablehlo.scatter"(%z, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %t = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %t : tensor<f32>
  }) : (tensor<4x9xf32>, tensor<4x1x1xi32>, tensor<4x1xf32>) -> tensor<4x9xf32>
  %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<4x9xf32> -> tensor<4x9xf32>
  return %r : tensor<4x9xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %c = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %z = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4x9xf32>
// CHECK-NEXT: %0 = stablehlo.reshape %u : (tensor<4x1xf32>) -> tensor<4xf32>
// CHECK-NEXT: %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4xf32>) -> tensor<4x9xf32>
// CHECK-NEXT: %2 = stablehlo.add %z, %1 : tensor<4x9xf32>
// CHECK-NEXT: %3 = stablehlo.reshape %i : (tensor<4x1x1xi32>) -> tensor<4x1xi32>
// CHECK-NEXT: %4 = stablehlo.iota dim = 1 : tensor<4x9xi32>
// CHECK-NEXT: %5 = stablehlo.reshape %3 : (tensor<4x1xi32>) -> tensor<4xi32>
// CHECK-NEXT: %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<4xi32>) -> tensor<4x9xi32>
// CHECK-NEXT: %7 = stablehlo.compare EQ, %4, %6, SIGNED : (tensor<4x9xi32>, tensor<4x9xi32>) -> tensor<4x9xi1>
// CHECK-NEXT: %s = stablehlo.select %7, %2, %z : tensor<4x9xi1>, tensor<4x9xf32>
// CHECK-NEXT: %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<4x9xf32> -> tensor<4x9xf32>
// CHECK-NEXT: func.return %r : tensor<4x9xf32>
