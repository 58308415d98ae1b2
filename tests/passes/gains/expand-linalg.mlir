// Covariances that are factorized, and linear systems of them. Without the pass neither has a kernel.
// GAIN: lacking 2

module @whiten {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%c: tensor<8x6x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}, %y: tensor<8x6x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}) -> tensor<8x6x2xf32> {
    %0 = stablehlo.transpose %c, dims = [0, 2, 1] : (tensor<8x6x6xf32>) -> tensor<8x6x6xf32>
    %1 = stablehlo.dot_general %c, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<8x6x6xf32>, tensor<8x6x6xf32>) -> tensor<8x6x6xf32>
    %2 = stablehlo.cholesky %1, lower = true : tensor<8x6x6xf32>
    %3 = "stablehlo.triangular_solve"(%2, %y) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<8x6x6xf32>, tensor<8x6x2xf32>) -> tensor<8x6x2xf32>
    return %3 : tensor<8x6x2xf32>
  }
}
