module @jit__lambda attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["tp"=8]> {stablehlo.mesh = {axes = [{name = "tp", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<8x1x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg1: tensor<8x32x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tp"}, {}]>}, %arg2: tensor<8x32x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tp"}, {}]>}, %arg3: tensor<i32> {sdy.sharding = #sdy.sharding<@mesh, []>}, %arg4: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg5: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg6: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg7: tensor<8x8x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}) -> (tensor<8x1x64xbf16> {jax.result_info = "result[0]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, tensor<8x32x8x8xbf16> {jax.result_info = "result[1]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tp"}, {}]>}, tensor<8x32x8x8xbf16> {jax.result_info = "result[2]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"tp"}, {}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x1x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x1x8x8xbf16>
    %1 = stablehlo.dot_general %arg0, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x1x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x1x8x8xbf16>
    %2 = stablehlo.dot_general %arg0, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x1x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x1x8x8xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.compare LT, %c, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<8> : tensor<i32>
    %4 = stablehlo.add %c_1, %c_2 : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.select %3, %4, %c_3 : tensor<i1>, tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.compare LT, %arg3, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_5 = stablehlo.constant dense<32> : tensor<i32>
    %7 = stablehlo.add %arg3, %c_5 : tensor<i32>
    %8 = stablehlo.select %6, %7, %arg3 : tensor<i1>, tensor<i32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.compare LT, %c_6, %c_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %c_9 = stablehlo.constant dense<8> : tensor<i32>
    %10 = stablehlo.add %c_8, %c_9 : tensor<i32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %11 = stablehlo.select %9, %10, %c_10 : tensor<i1>, tensor<i32>
    %c_11 = stablehlo.constant dense<0> : tensor<i32>
    %c_12 = stablehlo.constant dense<0> : tensor<i32>
    %12 = stablehlo.compare LT, %c_11, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %c_14 = stablehlo.constant dense<8> : tensor<i32>
    %13 = stablehlo.add %c_13, %c_14 : tensor<i32>
    %c_15 = stablehlo.constant dense<0> : tensor<i32>
    %14 = stablehlo.select %12, %13, %c_15 : tensor<i1>, tensor<i32>
    %15 = stablehlo.dynamic_update_slice %arg1, %1, %5, %8, %11, %14 : (tensor<8x32x8x8xbf16>, tensor<8x1x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<8x32x8x8xbf16>
    %c_16 = stablehlo.constant dense<0> : tensor<i32>
    %c_17 = stablehlo.constant dense<0> : tensor<i32>
    %16 = stablehlo.compare LT, %c_16, %c_17, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_18 = stablehlo.constant dense<0> : tensor<i32>
    %c_19 = stablehlo.constant dense<8> : tensor<i32>
    %17 = stablehlo.add %c_18, %c_19 : tensor<i32>
    %c_20 = stablehlo.constant dense<0> : tensor<i32>
    %18 = stablehlo.select %16, %17, %c_20 : tensor<i1>, tensor<i32>
    %c_21 = stablehlo.constant dense<0> : tensor<i32>
    %19 = stablehlo.compare LT, %arg3, %c_21, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_22 = stablehlo.constant dense<32> : tensor<i32>
    %20 = stablehlo.add %arg3, %c_22 : tensor<i32>
    %21 = stablehlo.select %19, %20, %arg3 : tensor<i1>, tensor<i32>
    %c_23 = stablehlo.constant dense<0> : tensor<i32>
    %c_24 = stablehlo.constant dense<0> : tensor<i32>
    %22 = stablehlo.compare LT, %c_23, %c_24, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_25 = stablehlo.constant dense<0> : tensor<i32>
    %c_26 = stablehlo.constant dense<8> : tensor<i32>
    %23 = stablehlo.add %c_25, %c_26 : tensor<i32>
    %c_27 = stablehlo.constant dense<0> : tensor<i32>
    %24 = stablehlo.select %22, %23, %c_27 : tensor<i1>, tensor<i32>
    %c_28 = stablehlo.constant dense<0> : tensor<i32>
    %c_29 = stablehlo.constant dense<0> : tensor<i32>
    %25 = stablehlo.compare LT, %c_28, %c_29, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_30 = stablehlo.constant dense<0> : tensor<i32>
    %c_31 = stablehlo.constant dense<8> : tensor<i32>
    %26 = stablehlo.add %c_30, %c_31 : tensor<i32>
    %c_32 = stablehlo.constant dense<0> : tensor<i32>
    %27 = stablehlo.select %25, %26, %c_32 : tensor<i1>, tensor<i32>
    %28 = stablehlo.dynamic_update_slice %arg2, %2, %18, %21, %24, %27 : (tensor<8x32x8x8xbf16>, tensor<8x1x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<8x32x8x8xbf16>
    %29 = stablehlo.dot_general %0, %15, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x1x8x8xbf16>, tensor<8x32x8x8xbf16>) -> tensor<8x8x1x32xbf16>
    %cst = stablehlo.constant dense<0.353553385> : tensor<bf16>
    %30 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<8x8x1x32xbf16>
    %31 = stablehlo.multiply %29, %30 : tensor<8x8x1x32xbf16>
    %32 = stablehlo.iota dim = 3 : tensor<8x8x1x32xi32>
    %33 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<i32>) -> tensor<8x8x1x32xi32>
    %34 = stablehlo.compare LE, %32, %33, SIGNED : (tensor<8x8x1x32xi32>, tensor<8x8x1x32xi32>) -> tensor<8x8x1x32xi1>
    %cst_33 = stablehlo.constant dense<-1.000000e+09> : tensor<bf16>
    %35 = call @_where(%34, %31, %cst_33) : (tensor<8x8x1x32xi1>, tensor<8x8x1x32xbf16>, tensor<bf16>) -> tensor<8x8x1x32xbf16>
    %cst_34 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %36 = stablehlo.reduce(%35 init: %cst_34) applies stablehlo.maximum across dimensions = [3] : (tensor<8x8x1x32xbf16>, tensor<bf16>) -> tensor<8x8x1xbf16>
    %cst_35 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %37 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<bf16>) -> tensor<8x8x1xbf16>
    %38 = stablehlo.maximum %37, %36 : tensor<8x8x1xbf16>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<8x8x1xbf16>) -> tensor<8x8x1x1xbf16>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2, 3] : (tensor<8x8x1x1xbf16>) -> tensor<8x8x1x32xbf16>
    %41 = stablehlo.subtract %35, %40 : tensor<8x8x1x32xbf16>
    %42 = stablehlo.exponential %41 : tensor<8x8x1x32xbf16>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %43 = stablehlo.reduce(%42 init: %cst_36) applies stablehlo.add across dimensions = [3] : (tensor<8x8x1x32xbf16>, tensor<bf16>) -> tensor<8x8x1xbf16>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2] : (tensor<8x8x1xbf16>) -> tensor<8x8x1x1xbf16>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2, 3] : (tensor<8x8x1x1xbf16>) -> tensor<8x8x1x32xbf16>
    %46 = stablehlo.divide %42, %45 : tensor<8x8x1x32xbf16>
    %47 = stablehlo.dot_general %28, %46, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x32x8x8xbf16>, tensor<8x8x1x32xbf16>) -> tensor<8x8x8x1xbf16>
    %48 = stablehlo.transpose %47, dims = [0, 3, 1, 2] : (tensor<8x8x8x1xbf16>) -> tensor<8x1x8x8xbf16>
    %49 = stablehlo.dot_general %48, %arg7, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x1x8x8xbf16>, tensor<8x8x64xbf16>) -> tensor<8x1x64xbf16>
    return %49, %15, %28 : tensor<8x1x64xbf16>, tensor<8x32x8x8xbf16>, tensor<8x32x8x8xbf16>
  }
  func.func private @_where(%arg0: tensor<8x8x1x32xi1>, %arg1: tensor<8x8x1x32xbf16>, %arg2: tensor<bf16>) -> tensor<8x8x1x32xbf16> {
    %0 = stablehlo.convert %arg2 : tensor<bf16>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<bf16>) -> tensor<8x8x1x32xbf16>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<8x8x1x32xi1>, tensor<8x8x1x32xbf16>
    return %2 : tensor<8x8x1x32xbf16>
  }
}
