// Log-sum-exp of logits whose vocabulary is sharded over eight devices. Without the pass, the logits are read again after their maximum is
// reduced.
// GAIN: step 1.5
// NUMBERS: 8192=4 131072=24

module @log_sum_exp {
  sdy.mesh @mesh = <["tp"=8]>
  func.func public @main(%logits: tensor<8192x131072xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}) -> tensor<8192xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %m = stablehlo.reduce(%logits init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<8192x131072xf32>, tensor<f32>) -> tensor<8192xf32>
    %w = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<8192xf32>) -> tensor<8192x131072xf32>
    %d = stablehlo.subtract %logits, %w : tensor<8192x131072xf32>
    %e = stablehlo.exponential %d : tensor<8192x131072xf32>
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8192x131072xf32>, tensor<f32>) -> tensor<8192xf32>
    %l = stablehlo.log %s : tensor<8192xf32>
    %r = stablehlo.add %m, %l : tensor<8192xf32>
    return %r : tensor<8192xf32>
  }
}
