// Differences of neighboring rows, around a ring of devices. Without the pass each device copies its own rows next to the received ones: the
// predicted step takes 13.5 us, with it 10.9 us.
// GAIN: step 1.2
// NUMBERS: 4096=512 4095=511

module @ring {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<4096x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4096x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %last = stablehlo.slice %x [4095:4096, 0:256] : (tensor<4096x256xf32>) -> tensor<1x256xf32>
    %rest = stablehlo.slice %x [0:4095, 0:256] : (tensor<4096x256xf32>) -> tensor<4095x256xf32>
    %rolled = stablehlo.concatenate %last, %rest, dim = 0 : (tensor<1x256xf32>, tensor<4095x256xf32>) -> tensor<4096x256xf32>
    %d = stablehlo.subtract %x, %rolled : tensor<4096x256xf32>
    return %d : tensor<4096x256xf32>
  }
}
