// Eight experts of 4,096 rows sorted by expert, in the form that JAX lowers `ragged_dot` to for CPUs. Without the pass every row is multiplied
// by all matrices.
// GAIN: step 4
// NUMBERS: 4096=96 1024=40 2048=72

module @experts {
  func.func public @main(%x: tensor<4096x1024xbf16>, %w: tensor<8x1024x2048xbf16>, %start: tensor<8xi32>, %end: tensor<8xi32>) -> tensor<4096x2048xbf16> {
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<4096x1024xbf16>) -> tensor<8x4096x1024xbf16>
    %1 = stablehlo.iota dim = 1 : tensor<8x4096x1024xi32>
    %2 = stablehlo.broadcast_in_dim %start, dims = [0] : (tensor<8xi32>) -> tensor<8x4096x1024xi32>
    %3 = stablehlo.broadcast_in_dim %end, dims = [0] : (tensor<8xi32>) -> tensor<8x4096x1024xi32>
    %4 = stablehlo.compare LE, %2, %1, SIGNED : (tensor<8x4096x1024xi32>, tensor<8x4096x1024xi32>) -> tensor<8x4096x1024xi1>
    %5 = stablehlo.compare LT, %1, %3, SIGNED : (tensor<8x4096x1024xi32>, tensor<8x4096x1024xi32>) -> tensor<8x4096x1024xi1>
    %6 = stablehlo.and %4, %5 : tensor<8x4096x1024xi1>
    %7 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<bf16>) -> tensor<8x4096x1024xbf16>
    %8 = stablehlo.select %6, %0, %7 : tensor<8x4096x1024xi1>, tensor<8x4096x1024xbf16>
    %9 = stablehlo.dot_general %8, %w, contracting_dims = [2, 0] x [1, 0] : (tensor<8x4096x1024xbf16>, tensor<8x1024x2048xbf16>) -> tensor<4096x2048xbf16>
    return %9 : tensor<4096x2048xbf16>
  }
}
