// A filter of signals by their spectra. Without the pass transforms and complex numbers have no kernels.
// GAIN: lacking 2

module @filter {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<8x96xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<49xf32>) -> tensor<8x96xf32> {
    %0 = stablehlo.fft %x, type = RFFT, length = [96] : (tensor<8x96xf32>) -> tensor<8x49xcomplex<f32>>
    %1 = stablehlo.convert %w : (tensor<49xf32>) -> tensor<49xcomplex<f32>>
    %2 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<49xcomplex<f32>>) -> tensor<8x49xcomplex<f32>>
    %3 = stablehlo.multiply %0, %2 : tensor<8x49xcomplex<f32>>
    %4 = stablehlo.fft %3, type = IRFFT, length = [96] : (tensor<8x49xcomplex<f32>>) -> tensor<8x96xf32>
    return %4 : tensor<8x96xf32>
  }
}
