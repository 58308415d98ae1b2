// For many updates of few rows, each row reduces its own updates without sorting.
// RUN: meshgen opt %s --passes scatter-to-rows | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @table(%t: tensor<8x3xf32>, %i: tensor<8192x1xi32>, %u: tensor<8192x3xf32>) -> tensor<8x3xf32> {
  %s = "stablehlo.scatter"(%t, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) : (tensor<8x3xf32>, tensor<8192x1xi32>, tensor<8192x3xf32>) -> tensor<8x3xf32>
  %r = shard.all_reduce %s on @g grid_axes = [0] : tensor<8x3xf32> -> tensor<8x3xf32>
  return %r : tensor<8x3xf32>
}

// CHECK-LABEL: func.func public @table
// CHECK-NOT: sort
// CHECK: %[[ROW:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<8192xi1>, tensor<8192xi32>
// CHECK-NEXT: %[[AT:.*]] = stablehlo.broadcast_in_dim %[[ROW]], dims = [1] : (tensor<8192xi32>) -> tensor<8x8192x3xi32>
// CHECK-NEXT: %[[EACH:.*]] = stablehlo.iota dim = 0 : tensor<8x8192x3xi32>
// CHECK-NEXT: %[[U:.*]] = stablehlo.broadcast_in_dim %u, dims = [1, 2] : (tensor<8192x3xf32>) -> tensor<8x8192x3xf32>
// CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[NONE:.*]] = stablehlo.broadcast_in_dim %[[ZERO]], dims = [] : (tensor<f32>) -> tensor<8x8192x3xf32>
// CHECK-NEXT: %[[OWN:.*]] = stablehlo.compare EQ, %[[AT]], %[[EACH]]
// CHECK-NEXT: %[[TAKEN:.*]] = stablehlo.select %[[OWN]], %[[U]], %[[NONE]]
// CHECK-NEXT: %[[SUM:.*]] = stablehlo.reduce(%[[TAKEN]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [1]
// CHECK-NEXT: %{{.*}} = stablehlo.add %t, %[[SUM]] : tensor<8x3xf32>
