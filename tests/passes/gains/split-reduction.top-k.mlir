// The 50 most probable of 131,072 words. Without the pass each word is compared with all others.
// GAIN: step 10
// NUMBERS: 8=2

module @sample {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<8x131072xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x50xf32>, tensor<8x50xi32>) {
    %v, %i = chlo.top_k(%x, k = 50) : tensor<8x131072xf32> -> (tensor<8x50xf32>, tensor<8x50xi32>)
    return %v, %i : tensor<8x50xf32>, tensor<8x50xi32>
  }
}
