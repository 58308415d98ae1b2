// Eight experts over two devices, with rows sorted by expert. Without the pass all rows of the first GEMM's result are summed over the
// devices.
// GAIN: ring_bytes 2
// NUMBERS: 4096=96 1024=40 2048=72

module @experts {
  sdy.mesh @mesh = <["ep"=2]>
  func.func public @main(%x: tensor<4096x1024xbf16>, %up: tensor<8x1024x2048xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"ep"}, {}, {}]>},
      %down: tensor<8x2048x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"ep"}, {}, {}]>}, %sizes: tensor<8xi32>) -> tensor<4096x1024xbf16> {
    %h = "chlo.ragged_dot"(%x, %up, %sizes) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<4096x1024xbf16>, tensor<8x1024x2048xbf16>, tensor<8xi32>) -> tensor<4096x2048xbf16>
    %a = stablehlo.tanh %h : tensor<4096x2048xbf16>
    %y = "chlo.ragged_dot"(%a, %down, %sizes) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<4096x2048xbf16>, tensor<8x2048x1024xbf16>, tensor<8xi32>) -> tensor<4096x1024xbf16>
    return %y : tensor<4096x1024xbf16>
  }
}
