// Distances of positions, added in each of 48 iterations. Without the pass another kernel writes them before the loop, and each iteration
// reads them.
// GAIN: kernels 1.5

module @distances {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<64x32xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<48x32x32xbf16>) -> (tensor<64x32xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %rows = stablehlo.iota dim = 0 : tensor<64x32xi32>
    %columns = stablehlo.iota dim = 1 : tensor<64x32xi32>
    %apart = stablehlo.subtract %rows, %columns : tensor<64x32xi32>
    %distance = stablehlo.convert %apart : (tensor<64x32xi32>) -> tensor<64x32xf32>
    %r:2 = stablehlo.while(%i = %zero, %h = %x) : tensor<i32>, tensor<64x32xbf16>
    cond {
      %n = stablehlo.constant dense<48> : tensor<i32>
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %w1 = stablehlo.dynamic_slice %w, %i, %zero, %zero, sizes = [1, 32, 32] : (tensor<48x32x32xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x32xbf16>
      %w2 = stablehlo.reshape %w1 : (tensor<1x32x32xbf16>) -> tensor<32x32xbf16>
      %y = stablehlo.dot_general %h, %w2, contracting_dims = [1] x [0] : (tensor<64x32xbf16>, tensor<32x32xbf16>) -> tensor<64x32xbf16>
      %f = stablehlo.convert %y : (tensor<64x32xbf16>) -> tensor<64x32xf32>
      %s = stablehlo.add %f, %distance : tensor<64x32xf32>
      %t = stablehlo.tanh %s : tensor<64x32xf32>
      %b = stablehlo.convert %t : (tensor<64x32xf32>) -> tensor<64x32xbf16>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %b : tensor<i32>, tensor<64x32xbf16>
    }
    func.return %r#1 : tensor<64x32xbf16>
  }
}
