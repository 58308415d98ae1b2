// A layer with weights sharded by columns, after another such layer. Without the pass the gathered activation is copied into its columns: the
// predicted step takes 16.9 us, with it 14.9 us.
// GAIN: step 1.1

module @gathered {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %w: tensor<256x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<64x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %t = stablehlo.tanh %x : tensor<64x256xf32>
    %y = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x512xf32>) -> tensor<64x512xf32>
    return %y : tensor<64x512xf32>
  }
}
