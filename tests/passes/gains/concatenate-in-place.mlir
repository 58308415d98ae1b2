// Two GEMMs of one activation whose results are the rows of one tensor. Without the pass they are copied into it: the predicted step takes
// 33.9 us, with it 30.7 us.
// GAIN: step 1.08
// NUMBERS: 512=64 1024=128 2048=256

module @both {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<512x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %v: tensor<2048x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<2048x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<1024x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %a = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<512x2048xf32>, tensor<2048x512xf32>) -> tensor<512x512xf32>
    %b = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<512x2048xf32>, tensor<2048x512xf32>) -> tensor<512x512xf32>
    %r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<1024x512xf32>
    return %r : tensor<1024x512xf32>
  }
}
