// The result of an attention as `jax.nn.dot_product_attention` writes it, divided by the root mean square of each position. Without the pass the norm
// reads across rows, of each sector one element; with it whole rows.
// GAIN: sector_bytes 2
// NUMBERS: 128=32 12=3

module @norm_of_attention {
  sdy.mesh @mesh = <["dp"=4]>
  func.func public @main(%q: tensor<32x128x12x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}, {}]>}, %k: tensor<32x128x12x64xbf16>, %v: tensor<32x128x12x64xbf16>) -> tensor<32x128x12x64xbf16> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %s = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<32x128x12x64xbf16>, tensor<32x128x12x64xbf16>) -> tensor<32x12x128x128xf32>
    %high = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [3] : (tensor<32x12x128x128xf32>, tensor<f32>) -> tensor<32x12x128xf32>
    %high_n = stablehlo.broadcast_in_dim %high, dims = [0, 1, 2] : (tensor<32x12x128xf32>) -> tensor<32x12x128x128xf32>
    %shifted = stablehlo.subtract %s, %high_n : tensor<32x12x128x128xf32>
    %e = stablehlo.exponential %shifted : tensor<32x12x128x128xf32>
    %total = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<32x12x128x128xf32>, tensor<f32>) -> tensor<32x12x128xf32>
    %total_n = stablehlo.broadcast_in_dim %total, dims = [0, 1, 2] : (tensor<32x12x128xf32>) -> tensor<32x12x128x128xf32>
    %p = stablehlo.divide %e, %total_n : tensor<32x12x128x128xf32>
    %w = stablehlo.convert %p : (tensor<32x12x128x128xf32>) -> tensor<32x12x128x128xbf16>
    %o = stablehlo.dot_general %v, %w, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<32x128x12x64xbf16>, tensor<32x12x128x128xbf16>) -> tensor<32x12x64x128xbf16>
    %t = stablehlo.transpose %o, dims = [0, 3, 1, 2] : (tensor<32x12x64x128xbf16>) -> tensor<32x128x12x64xbf16>
    %f = stablehlo.convert %t : (tensor<32x128x12x64xbf16>) -> tensor<32x128x12x64xf32>
    %f2 = stablehlo.multiply %f, %f : tensor<32x128x12x64xf32>
    %m = stablehlo.reduce(%f2 init: %zero) applies stablehlo.add across dimensions = [2, 3] : (tensor<32x128x12x64xf32>, tensor<f32>) -> tensor<32x128xf32>
    %r = stablehlo.rsqrt %m : tensor<32x128xf32>
    %r_n = stablehlo.broadcast_in_dim %r, dims = [0, 1] : (tensor<32x128xf32>) -> tensor<32x128x12x64xf32>
    %y = stablehlo.multiply %f, %r_n : tensor<32x128x12x64xf32>
    %n = stablehlo.convert %y : (tensor<32x128x12x64xf32>) -> tensor<32x128x12x64xbf16>
    return %n : tensor<32x128x12x64xbf16>
  }
}
