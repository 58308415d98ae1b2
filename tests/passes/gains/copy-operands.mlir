// A GEMM of 8-bit floats whose second operand is stored by columns: without the pass each main loop iteration transposes a tile in registers.
// GAIN: step 1.3

module @product {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<4096x2048xf8E4M3FN> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %w: tensor<2048x2048xf8E4M3FN> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> (tensor<4096x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x2048xf8E4M3FN>, tensor<2048x2048xf8E4M3FN>) -> tensor<4096x2048xf32>
    return %0 : tensor<4096x2048xf32>
  }
}
