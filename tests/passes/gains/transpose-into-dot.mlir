// Gradients of two matrices of one layer input, as autodiff writes them, summed in one message. Without the pass the dots are two kernels, and
// a third transposes their results into the message: 18.1 us. With it one kernel computes both dots and writes the message: 15.6 us.
// GAIN: step 1.15

module @gradients {
  sdy.mesh @mesh = <["dp"=4]>
  func.func public @main(%x: tensor<512x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}, %g: tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}, %h: tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<256x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<256x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %a = stablehlo.dot_general %g, %x, contracting_dims = [0] x [0] : (tensor<512x512xf32>, tensor<512x256xf32>) -> tensor<512x256xf32>
    %p = stablehlo.transpose %a, dims = [1, 0] : (tensor<512x256xf32>) -> tensor<256x512xf32>
    %b = stablehlo.dot_general %h, %x, contracting_dims = [0] x [0] : (tensor<512x512xf32>, tensor<512x256xf32>) -> tensor<512x256xf32>
    %q = stablehlo.transpose %b, dims = [1, 0] : (tensor<512x256xf32>) -> tensor<256x512xf32>
    return %p, %q : tensor<256x512xf32>, tensor<256x512xf32>
  }
}
