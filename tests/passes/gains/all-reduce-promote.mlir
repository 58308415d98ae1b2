// A softmax over a sharded vocabulary. Without the pass NCCL cannot reduce the maximum of the logits, and slower point-to-point messages do:
// the predicted step takes 24.3 us, with it 22.3 us.
// GAIN: step 1.05

module @softmax {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%logits: tensor<64x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<64x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %m = stablehlo.reduce(%logits init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<64x4096xf32>, tensor<f32>) -> tensor<64xf32>
    %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<64xf32>) -> tensor<64x4096xf32>
    %d = stablehlo.subtract %logits, %mb : tensor<64x4096xf32>
    %e = stablehlo.exponential %d : tensor<64x4096xf32>
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x4096xf32>, tensor<f32>) -> tensor<64xf32>
    %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<64xf32>) -> tensor<64x4096xf32>
    %r = stablehlo.divide %e, %sb : tensor<64x4096xf32>
    return %r : tensor<64x4096xf32>
  }
}
