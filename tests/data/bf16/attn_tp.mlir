module @jit__lambda attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["tp"=8]> {stablehlo.mesh = {axes = [{name = "tp", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<8x16x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg1: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg2: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg3: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg4: tensor<8x8x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}) -> (tensor<8x16x64xbf16> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x8x8xbf16>
    %1 = stablehlo.dot_general %arg0, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x8x8xbf16>
    %2 = stablehlo.dot_general %arg0, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x8x8xbf16>
    %3 = stablehlo.dot_general %0, %1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x16x8x8xbf16>) -> tensor<8x8x16x16xbf16>
    %cst = stablehlo.constant dense<0.353553385> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<8x8x16x16xbf16>
    %5 = stablehlo.multiply %3, %4 : tensor<8x8x16x16xbf16>
    %6 = stablehlo.iota dim = 0 : tensor<16x16xi32>
    %7 = stablehlo.iota dim = 1 : tensor<16x16xi32>
    %8 = stablehlo.compare GE, %6, %7, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
    %cst_0 = stablehlo.constant dense<-1.000000e+09> : tensor<bf16>
    %9 = call @_where(%8, %5, %cst_0) : (tensor<16x16xi1>, tensor<8x8x16x16xbf16>, tensor<bf16>) -> tensor<8x8x16x16xbf16>
    %cst_1 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %10 = stablehlo.reduce(%9 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<8x8x16x16xbf16>, tensor<bf16>) -> tensor<8x8x16xbf16>
    %cst_2 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<bf16>) -> tensor<8x8x16xbf16>
    %12 = stablehlo.maximum %11, %10 : tensor<8x8x16xbf16>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<8x8x16xbf16>) -> tensor<8x8x16x1xbf16>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<8x8x16x1xbf16>) -> tensor<8x8x16x16xbf16>
    %15 = stablehlo.subtract %9, %14 : tensor<8x8x16x16xbf16>
    %16 = stablehlo.exponential %15 : tensor<8x8x16x16xbf16>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %17 = stablehlo.reduce(%16 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<8x8x16x16xbf16>, tensor<bf16>) -> tensor<8x8x16xbf16>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<8x8x16xbf16>) -> tensor<8x8x16x1xbf16>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<8x8x16x1xbf16>) -> tensor<8x8x16x16xbf16>
    %20 = stablehlo.divide %16, %19 : tensor<8x8x16x16xbf16>
    %21 = stablehlo.dot_general %2, %20, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x8x16x16xbf16>) -> tensor<8x8x8x16xbf16>
    %22 = stablehlo.transpose %21, dims = [0, 3, 1, 2] : (tensor<8x8x8x16xbf16>) -> tensor<8x16x8x8xbf16>
    %23 = stablehlo.dot_general %22, %arg4, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x8x64xbf16>) -> tensor<8x16x64xbf16>
    return %23 : tensor<8x16x64xbf16>
  }
  func.func private @_where(%arg0: tensor<16x16xi1>, %arg1: tensor<8x8x16x16xbf16>, %arg2: tensor<bf16>) -> tensor<8x8x16x16xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<16x16xi1>) -> tensor<8x8x16x16xi1>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<bf16>) -> tensor<8x8x16x16xbf16>
    %2 = stablehlo.select %0, %arg1, %1 : tensor<8x8x16x16xi1>, tensor<8x8x16x16xbf16>
    return %2 : tensor<8x8x16x16xbf16>
  }
}
