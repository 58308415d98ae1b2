// The gradient of an embedding: 4,096 tokens per device are added to 8,192 rows of 64. With the pass each row searches its few tokens in
// sorted order. Without it each element would compare all tokens (and multi-dim indices have no kernel).
// GAIN: step 4
// NUMBERS: 8192=2048 64=16

module @embedding {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%t: tensor<8192x64xf32>, %i: tensor<16x512x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}, %g: tensor<16x512x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}) -> tensor<8192x64xf32> {
    %r = "stablehlo.scatter"(%t, %i, %g) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8192x64xf32>, tensor<16x512x1xi32>, tensor<16x512x64xf32>) -> tensor<8192x64xf32>
    return %r : tensor<8192x64xf32>
  }
}
