// JAX: one row of queries per head over a cache whose keys are sharded over 8 devices. With the pass devices send maxima and sums of their
// parts, without it keys and values.
// GAIN: ring_bytes 100
// NUMBERS: 16384=256 128=16

builtin.module @jit_dec attributes {meshgen.stage = "import"} {
  shard.grid @mesh(shape = 8) {axis_names = ["x"]}
  func.func public @main(%q: tensor<4x8x128xbf16> {meshgen.sharding = #meshgen.annotation<@mesh, [[], [], []] open = [false, false, false]>}, %k: tensor<4x16384x8x128xbf16> {meshgen.sharding = #meshgen.annotation<@mesh, [[], ["x"], [], []] open = [false, false, false, false]>}, %v: tensor<4x16384x8x128xbf16> {meshgen.sharding = #meshgen.annotation<@mesh, [[], ["x"], [], []] open = [false, false, false, false]>}) -> (tensor<4x8x128xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x8x128xbf16>, tensor<4x16384x8x128xbf16>) -> tensor<4x8x16384xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<4x8x16384xf32>, tensor<f32>) -> tensor<4x8xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %3 = stablehlo.maximum %2, %1 : tensor<4x8xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x16384xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<4x8x16384xf32>
    %7 = stablehlo.exponential %6 : tensor<4x8x16384xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<4x8x16384xf32>, tensor<f32>) -> tensor<4x8xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x16384xf32>
    %11 = stablehlo.divide %7, %10 : tensor<4x8x16384xf32>
    %12 = stablehlo.convert %11 : (tensor<4x8x16384xf32>) -> tensor<4x8x16384xbf16>
    %13 = stablehlo.dot_general %12, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16384xbf16>, tensor<4x16384x8x128xbf16>) -> tensor<4x8x128xbf16>
    func.return %13 : tensor<4x8x128xbf16>
  }
}
