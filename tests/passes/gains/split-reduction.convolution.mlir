// The gradient of a convolution's kernel: 2,304 sums of 12,544 products each per device. Without the pass 3 programs compute them, with it 48
// programs compute sums of a 16th of the length.
// GAIN: step 2
// NUMBERS: 28=14

module @gradient {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<64x28x28x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}, {}]>},
                         %g: tensor<64x28x28x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}, {}]>}) -> tensor<3x3x16x16xf32> {
    %0 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<64x28x28x16xf32>, tensor<64x28x28x16xf32>) -> tensor<3x3x16x16xf32>
    return %0 : tensor<3x3x16x16xf32>
  }
}
