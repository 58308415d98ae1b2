// The gradient of an image in patches of 8 x 8: without the pass, 63 of 64 products are with zeros.
// GAIN: step 8
// NUMBERS: 32=4 14=3 112=24 64=16

module @gradient {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%g: tensor<32x14x14x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}, {}]>},
                         %w: tensor<8x8x64x3xf32>) -> tensor<32x112x112x3xf32> {
    %0 = stablehlo.convolution(%g, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[7, 7], [7, 7]], lhs_dilate = [8, 8]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<32x14x14x64xf32>, tensor<8x8x64x3xf32>) -> tensor<32x112x112x3xf32>
    return %0 : tensor<32x112x112x3xf32>
  }
}
