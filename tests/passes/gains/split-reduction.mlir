// The sum of squares of 1 M elements per device. Without the pass one program of a kernel reads all of them, with it at most 4,096.
// GAIN: step 10
// NUMBERS: 4194304=262144

module @norm {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<4194304xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.multiply %x, %x : tensor<4194304xf32>
    %r = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4194304xf32>, tensor<f32>) -> tensor<f32>
    return %r : tensor<f32>
  }
}
