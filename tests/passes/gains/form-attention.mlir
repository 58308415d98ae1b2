// JAX: causal attention whose sequence is sharded over 8 devices. Without the pass keys stay sharded, and scores are stored: 615 us instead of
// 115 us.
// GAIN: step 4
// NUMBERS: 4096=64 128=8

builtin.module @jit_pre attributes {meshgen.stage = "import"} {
  shard.grid @mesh(shape = 8) {axis_names = ["x"]}
  func.func public @main(%q: tensor<2x4096x16x128xbf16> {meshgen.sharding = #meshgen.annotation<@mesh, [[], ["x"], [], []] open = [false, false, false, false]>}, %k: tensor<2x4096x16x128xbf16> {meshgen.sharding = #meshgen.annotation<@mesh, [[], ["x"], [], []] open = [false, false, false, false]>}, %v: tensor<2x4096x16x128xbf16> {meshgen.sharding = #meshgen.annotation<@mesh, [[], ["x"], [], []] open = [false, false, false, false]>}) -> (tensor<2x4096x16x128xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x4096x16x128xbf16>, tensor<2x4096x16x128xbf16>) -> tensor<2x16x4096x4096xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<4096x4096xi1>
    %2 = stablehlo.iota dim = 0 : tensor<4096x4096xi32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4096x4096xi32>
    %4 = stablehlo.add %2, %3 : tensor<4096x4096xi32>
    %5 = stablehlo.iota dim = 1 : tensor<4096x4096xi32>
    %6 = stablehlo.compare GE, %4, %5, SIGNED : (tensor<4096x4096xi32>, tensor<4096x4096xi32>) -> tensor<4096x4096xi1>
    %c_1 = stablehlo.constant dense<false> : tensor<i1>
    %7 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i1>) -> tensor<4096x4096xi1>
    %8 = stablehlo.select %6, %1, %7 : tensor<4096x4096xi1>, tensor<4096x4096xi1>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %9 = stablehlo.convert %cst : (tensor<f32>) -> tensor<f32>
    %10 = stablehlo.broadcast_in_dim %8, dims = [2, 3] : (tensor<4096x4096xi1>) -> tensor<2x16x4096x4096xi1>
    %11 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<f32>) -> tensor<2x16x4096x4096xf32>
    %12 = stablehlo.select %10, %0, %11 : tensor<2x16x4096x4096xi1>, tensor<2x16x4096x4096xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %13 = stablehlo.reduce(%12 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x16x4096x4096xf32>, tensor<f32>) -> tensor<2x16x4096xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x4096xf32>
    %15 = stablehlo.maximum %14, %13 : tensor<2x16x4096xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x16x4096xf32>) -> tensor<2x16x4096x1xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<2x16x4096x1xf32>) -> tensor<2x16x4096x4096xf32>
    %18 = stablehlo.subtract %12, %17 : tensor<2x16x4096x4096xf32>
    %19 = stablehlo.exponential %18 : tensor<2x16x4096x4096xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.reduce(%19 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<2x16x4096x4096xf32>, tensor<f32>) -> tensor<2x16x4096xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<2x16x4096xf32>) -> tensor<2x16x4096x1xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2, 3] : (tensor<2x16x4096x1xf32>) -> tensor<2x16x4096x4096xf32>
    %23 = stablehlo.divide %19, %22 : tensor<2x16x4096x4096xf32>
    %24 = stablehlo.convert %23 : (tensor<2x16x4096x4096xf32>) -> tensor<2x16x4096x4096xbf16>
    %25 = stablehlo.dot_general %v, %24, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x4096x16x128xbf16>, tensor<2x16x4096x4096xbf16>) -> tensor<2x16x128x4096xbf16>
    %26 = stablehlo.transpose %25, dims = [0, 3, 1, 2] : (tensor<2x16x128x4096xbf16>) -> tensor<2x4096x16x128xbf16>
    func.return %26 : tensor<2x4096x16x128xbf16>
  }
}
