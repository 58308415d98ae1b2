// JAX: `irfftn(rfftn(x) * w)` of a grid that is sharded by rows and columns. Without the pass each device transforms at least half of the
// grid's rows, with it an eighth of the rows and of the columns.
// GAIN: step 2

module @filtered {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%x: tensor<8192x8192xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %w: tensor<f32>) -> (tensor<8192x8192xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
    %0 = stablehlo.fft %x, type = RFFT, length = [8192, 8192] : (tensor<8192x8192xf32>) -> tensor<8192x4097xcomplex<f32>>
    %1 = stablehlo.convert %w : (tensor<f32>) -> tensor<complex<f32>>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<complex<f32>>) -> tensor<8192x4097xcomplex<f32>>
    %3 = stablehlo.multiply %0, %2 : tensor<8192x4097xcomplex<f32>>
    %4 = stablehlo.fft %3, type = IRFFT, length = [8192, 8192] : (tensor<8192x4097xcomplex<f32>>) -> tensor<8192x8192xf32>
    return %4 : tensor<8192x8192xf32>
  }
}
