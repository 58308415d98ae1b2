// Four layers whose weights are one stacked argument. Without the pass each layer needs a different kernel that reads its slice: four kernels
// to compile, with it one.
// GAIN: kernels 4

module @stack {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<4x256x256xf32>) -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %l0 = stablehlo.slice %w [0:1, 0:256, 0:256] : (tensor<4x256x256xf32>) -> tensor<1x256x256xf32>
    %m0 = stablehlo.reshape %l0 : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %d0 = stablehlo.dot_general %x, %m0, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
    %t0 = stablehlo.tanh %d0 : tensor<64x256xf32>
    %l1 = stablehlo.slice %w [1:2, 0:256, 0:256] : (tensor<4x256x256xf32>) -> tensor<1x256x256xf32>
    %m1 = stablehlo.reshape %l1 : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %d1 = stablehlo.dot_general %t0, %m1, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
    %t1 = stablehlo.tanh %d1 : tensor<64x256xf32>
    %l2 = stablehlo.slice %w [2:3, 0:256, 0:256] : (tensor<4x256x256xf32>) -> tensor<1x256x256xf32>
    %m2 = stablehlo.reshape %l2 : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %d2 = stablehlo.dot_general %t1, %m2, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
    %t2 = stablehlo.tanh %d2 : tensor<64x256xf32>
    %l3 = stablehlo.slice %w [3:4, 0:256, 0:256] : (tensor<4x256x256xf32>) -> tensor<1x256x256xf32>
    %m3 = stablehlo.reshape %l3 : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %d3 = stablehlo.dot_general %t2, %m3, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
    %t3 = stablehlo.tanh %d3 : tensor<64x256xf32>
    return %t3 : tensor<64x256xf32>
  }
}
