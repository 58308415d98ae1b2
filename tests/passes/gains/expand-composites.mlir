// Attention of long rows, computed by the ops that it stands for.
// GAIN: lacking 2

module @attention {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%q: tensor<2x64x320xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}, %k: tensor<2x64x320xbf16>, %v: tensor<2x64x32xbf16>) -> tensor<2x64x32xbf16> {
    %o, %l = "sched.attention"(%q, %k, %v) <{factors = "h t d, h s d, h s e -> h t e, h t", zero_empty = false}> ({
    ^bb0(%score: tensor<f32>):
      stablehlo.return %score : tensor<f32>
    }, {
    ^bb0(%p: tensor<f32>):
      %w = stablehlo.convert %p : (tensor<f32>) -> tensor<bf16>
      stablehlo.return %w : tensor<bf16>
    }) : (tensor<2x64x320xbf16>, tensor<2x64x320xbf16>, tensor<2x64x32xbf16>) -> (tensor<2x64x32xbf16>, tensor<2x64xf32>)
    return %o : tensor<2x64x32xbf16>
  }
}
