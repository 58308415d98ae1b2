// The gradient of a small layer's weight: 128 x 128 sums over 65,536 rows, 16,384 of them per device. Without the pass 8 programs compute
// them.
// GAIN: step 2
// NUMBERS: 65536=16384

module @gradient {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<65536x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %g: tensor<65536x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<128x128xbf16> {
    %0 = stablehlo.dot_general %x, %g, contracting_dims = [0] x [0] : (tensor<65536x128xbf16>, tensor<65536x128xbf16>) -> tensor<128x128xbf16>
    return %0 : tensor<128x128xbf16>
  }
}
