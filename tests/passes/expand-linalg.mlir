// Expand a triangular solve to a loop: each iteration computes a row of the solution and subtracts it from later rows.
// RUN: meshgen opt %s --passes expand-linalg | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%a: tensor<3x3xf32>, %b: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %x = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %r = shard.all_reduce %x on @g grid_axes = [0] : tensor<3x2xf32> -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK: stablehlo.while(%[[NUMBER:[0-9]+]] = %{{[0-9]+}}, %[[REST:[0-9]+]] = %{{[0-9]+}}, %[[FOUND:[0-9]+]] = %{{[0-9]+}})
// CHECK: %[[ROW:[0-9]+]] = stablehlo.dynamic_slice %[[REST]], {{.*}} sizes = [1, 1, 2]
// CHECK: %[[COLUMN:[0-9]+]] = stablehlo.dynamic_slice {{.*}} sizes = [1, 3, 1]
// CHECK-NOT: stablehlo.divide
// CHECK: %[[TAKEN:[0-9]+]] = stablehlo.multiply
// CHECK-NEXT: stablehlo.subtract %[[REST]], %[[TAKEN]]
// CHECK: stablehlo.dynamic_update_slice %[[FOUND]], %[[ROW]]
// CHECK: func.return
