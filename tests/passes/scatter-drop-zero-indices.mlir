// Drop components of scatter indices that are always zero.
// RUN: meshgen opt %s --mesh x=2 --passes scatter-drop-zero-indices | filecheck %s

func.func @f(%cache: tensor<16x8xf32>, %row: tensor<3x1xi32>, %new: tensor<3x1x8xf32>) -> tensor<16x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<3x1xi32>
  %at = stablehlo.concatenate %row, %zero, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
  %r = "stablehlo.scatter"(%cache, %at, %new) <{scatter_dimension_numbers = #stablehlo.scatter<
    update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<16x8xf32>, tensor<3x2xi32>, tensor<3x1x8xf32>) -> tensor<16x8xf32>
  return %r : tensor<16x8xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %zero = stablehlo.constant dense<0> : tensor<3x1xi32>
// CHECK-NEXT: %at = stablehlo.concatenate %row, %zero, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
// CHECK-NEXT: %0 = stablehlo.slice %at [0:3, 0:1] : (tensor<3x2xi32>) -> tensor<3x1xi32>
// CHECK-NEXT: %r = "stablehlo.scatter"(%cache, %0, %new) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
// CHECK-NEXT: ^bb0(%a: tensor<f32>, %b: tensor<f32>):
// CHECK-NEXT: %c = stablehlo.add %a, %b : tensor<f32>
// CHECK-NEXT: stablehlo.return %c : tensor<f32>
// CHECK-NEXT: }) : (tensor<16x8xf32>, tensor<3x1xi32>, tensor<3x1x8xf32>) -> tensor<16x8xf32>
// CHECK-NEXT: func.return %r : tensor<16x8xf32>
