// The gated unit of a language model: rows times two weights, one result's sigmoid times the other. In two kernels, the gate is written and
// read again.
// GAIN: step 1.2
// NUMBERS: 512=64 1024=128 256=32

module @gated_unit {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<256x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %gate: tensor<512x1024xf32>, %up: tensor<512x1024xf32>) -> tensor<256x1024xf32> {
    %0 = stablehlo.dot_general %x, %gate, contracting_dims = [1] x [0] : (tensor<256x512xf32>, tensor<512x1024xf32>) -> tensor<256x1024xf32>
    %1 = stablehlo.logistic %0 : tensor<256x1024xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<256x1024xf32>
    %3 = stablehlo.dot_general %x, %up, contracting_dims = [1] x [0] : (tensor<256x512xf32>, tensor<512x1024xf32>) -> tensor<256x1024xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<256x1024xf32>
    return %4 : tensor<256x1024xf32>
  }
}
