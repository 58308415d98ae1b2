module @jit__lambda attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<8x16x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %arg1: tensor<128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}, %arg2: tensor<8x16xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<bf16> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<128x64xbf16>) -> tensor<8x16x128xbf16>
    %cst = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<8x16x128xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %cst_0 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<8x16xbf16>
    %3 = stablehlo.maximum %2, %1 : tensor<8x16xbf16>
    %4 = stablehlo.is_finite %3 : (tensor<8x16xbf16>) -> tensor<8x16xi1>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<8x16xbf16>
    %6 = stablehlo.select %4, %3, %5 : tensor<8x16xi1>, tensor<8x16xbf16>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x128xbf16>
    %9 = stablehlo.subtract %0, %8 : tensor<8x16x128xbf16>
    %10 = stablehlo.exponential %9 : tensor<8x16x128xbf16>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %11 = stablehlo.reduce(%10 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<8x16x128xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %12 = stablehlo.abs %11 : tensor<8x16xbf16>
    %13 = stablehlo.log %12 : tensor<8x16xbf16>
    %14 = stablehlo.add %13, %6 : tensor<8x16xbf16>
    %15 = call @_one_hot(%arg2) : (tensor<8x16xi32>) -> tensor<8x16x128xbf16>
    %16 = stablehlo.multiply %15, %0 : tensor<8x16x128xbf16>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %17 = stablehlo.reduce(%16 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<8x16x128xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %18 = stablehlo.subtract %14, %17 : tensor<8x16xbf16>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %19 = stablehlo.reduce(%18 init: %cst_4) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x16xbf16>, tensor<bf16>) -> tensor<bf16>
    %cst_5 = stablehlo.constant dense<1.280000e+02> : tensor<bf16>
    %20 = stablehlo.divide %19, %cst_5 : tensor<bf16>
    return %20 : tensor<bf16>
  }
  func.func private @_one_hot(%arg0: tensor<8x16xi32>) -> tensor<8x16x128xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<8x16xi32>) -> tensor<8x16x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x128xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<8x16x1xi32>) -> tensor<8x16x128xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x128xi32>) -> tensor<8x16x128xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<8x16x128xi32>, tensor<8x16x128xi32>) -> tensor<8x16x128xi1>
    %5 = stablehlo.convert %4 : (tensor<8x16x128xi1>) -> tensor<8x16x128xbf16>
    return %5 : tensor<8x16x128xbf16>
  }
}
