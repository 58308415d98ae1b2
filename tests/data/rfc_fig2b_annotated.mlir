// MLP, 2D weight stationary: input, hidden value and output are annotated (the slides' spelling).
mesh.cluster @mesh0(rank = 3, dim_sizes = [2, 2, 2])
func.func @mlp_2d_weight_stationary(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8x32xf32>, %arg2: tensor<32x8xf32>) -> tensor<2x4x8xf32> attributes {mesh_cluster = @mesh0} {
  %0 = mesh.annotate %arg0 {#mesh.shard<[[], [], [0, 1, 2]]>} : tensor<2x4x8xf32>
  %1 = "mhlo.dot_general"(%0, %arg1) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision DEFAULT>]} : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
  %2 = mesh.annotate %1 {#mesh.shard<[[], [], [1, 2], [0]]>} : tensor<2x4x32xf32>
  %3 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
  %4 = mhlo.maximum %2, %3 : tensor<2x4x32xf32>
  %5 = "mhlo.dot_general"(%4, %arg2) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision DEFAULT>]} : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
  %6 = mesh.annotate %5 {#mesh.shard<[[], [], [0], [1, 2]]>} : tensor<2x4x8xf32>
  %7 = mesh.annotate %6 {as_result = false, #mesh.shard<[[], [], [0, 1, 2]]>} : tensor<2x4x8xf32>
  return %7 : tensor<2x4x8xf32>
}
