module @jit__lambda attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["n"=8]> {stablehlo.mesh = {axes = [{name = "n", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<8x8x32x32xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"n"}, {}, {}, {}]>}, %arg1: tensor<8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> (tensor<8x8x32x32xbf16> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"n"}, {}, {}, {}]>}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<8x8x32x32xbf16>, tensor<bf16>) -> tensor<8xbf16>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<8xbf16>) -> tensor<1x8x1x1xbf16>
    %cst_0 = stablehlo.constant dense<8.192000e+03> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<1x8x1x1xbf16>
    %3 = stablehlo.divide %1, %2 : tensor<1x8x1x1xbf16>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xbf16>) -> tensor<8x8x32x32xbf16>
    %5 = stablehlo.subtract %arg0, %4 : tensor<8x8x32x32xbf16>
    %6 = chlo.square %5 : tensor<8x8x32x32xbf16> -> tensor<8x8x32x32xbf16>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<8x8x32x32xbf16>, tensor<bf16>) -> tensor<8xbf16>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<8xbf16>) -> tensor<1x8x1x1xbf16>
    %cst_2 = stablehlo.constant dense<8.192000e+03> : tensor<bf16>
    %9 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<bf16>) -> tensor<1x8x1x1xbf16>
    %10 = stablehlo.divide %8, %9 : tensor<1x8x1x1xbf16>
    %11 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xbf16>) -> tensor<8x8x32x32xbf16>
    %12 = stablehlo.subtract %arg0, %11 : tensor<8x8x32x32xbf16>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<bf16>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<bf16>) -> tensor<1x8x1x1xbf16>
    %14 = stablehlo.add %10, %13 : tensor<1x8x1x1xbf16>
    %15 = stablehlo.rsqrt %14 : tensor<1x8x1x1xbf16>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xbf16>) -> tensor<8x8x32x32xbf16>
    %17 = stablehlo.multiply %12, %16 : tensor<8x8x32x32xbf16>
    %18 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<8xbf16>) -> tensor<1x8x1x1xbf16>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xbf16>) -> tensor<8x8x32x32xbf16>
    %20 = stablehlo.multiply %17, %19 : tensor<8x8x32x32xbf16>
    return %20 : tensor<8x8x32x32xbf16>
  }
}
