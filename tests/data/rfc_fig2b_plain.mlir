// MLP, 2D weight stationary: only inputs and output are annotated.
mesh.cluster @mesh0(rank = 3, dim_sizes = [2, 2, 2])
func.func @mlp_2d_weight_stationary(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8x32xf32>, %arg2: tensor<32x8xf32>) -> tensor<2x4x8xf32> attributes {mesh_cluster = @mesh0} {
  %0 = mesh.annotate %arg0 {sharding = [[], [], [0, 1, 2]], required = true, as_result = true} : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  %1 = mesh.annotate %arg1 {sharding = [[0], [1, 2]], required = true, as_result = true} : tensor<8x32xf32> -> tensor<8x32xf32>
  %2 = mesh.annotate %arg2 {sharding = [[1, 2], [0]], required = true, as_result = true} : tensor<32x8xf32> -> tensor<32x8xf32>
  %3 = "mhlo.dot_general"(%0, %1) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision DEFAULT>]} : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
  %4 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
  %5 = mhlo.maximum %3, %4 : tensor<2x4x32xf32>
  %6 = "mhlo.dot_general"(%5, %2) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision DEFAULT>]} : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
  %7 = mesh.annotate %6 {sharding = [[], [], [0, 1, 2]], required = true, as_result = false} : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  return %7 : tensor<2x4x8xf32>
}
