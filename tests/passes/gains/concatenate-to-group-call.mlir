// The sharded scale and bias of a batch norm, gathered in one message. Without the pass a kernel packs them: the predicted step takes 12 us,
// with it 10 us.
// GAIN: step 1.15

module @affine {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %scale: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %bias: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %s = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<256xf32>) -> tensor<64x256xf32>
    %b = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<256xf32>) -> tensor<64x256xf32>
    %m = stablehlo.multiply %x, %s : tensor<64x256xf32>
    %r = stablehlo.add %m, %b : tensor<64x256xf32>
    return %r : tensor<64x256xf32>
  }
}
