module @jit__lambda attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<8x16x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %arg1: tensor<128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}]>}, %arg2: tensor<64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg3: tensor<64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg4: tensor<64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg5: tensor<64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg6: tensor<64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg7: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}, %arg8: tensor<128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}, %arg9: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg10: tensor<8x8x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}, %arg11: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg12: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}) -> (tensor<8x16x64xbf16> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %3 = stablehlo.divide %1, %2 : tensor<8x16x1xbf16>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %5 = stablehlo.subtract %arg0, %4 : tensor<8x16x64xbf16>
    %6 = stablehlo.multiply %5, %5 : tensor<8x16x64xbf16>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %cst_2 = stablehlo.constant dense<6.400000e+01> : tensor<bf16>
    %9 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %10 = stablehlo.divide %8, %9 : tensor<8x16x1xbf16>
    %11 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %12 = stablehlo.subtract %arg0, %11 : tensor<8x16x64xbf16>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<bf16>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %14 = stablehlo.add %10, %13 : tensor<8x16x1xbf16>
    %15 = stablehlo.rsqrt %14 : tensor<8x16x1xbf16>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %17 = stablehlo.multiply %12, %16 : tensor<8x16x64xbf16>
    %18 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<8x16x64xbf16>
    %20 = stablehlo.multiply %17, %19 : tensor<8x16x64xbf16>
    %21 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<8x16x64xbf16>
    %23 = stablehlo.add %20, %22 : tensor<8x16x64xbf16>
    %24 = stablehlo.dot_general %23, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x8x8xbf16>
    %25 = stablehlo.dot_general %23, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x8x8xbf16>
    %26 = stablehlo.dot_general %23, %arg12, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x8x8xbf16>
    %27 = stablehlo.dot_general %24, %25, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x16x8x8xbf16>) -> tensor<8x8x16x16xbf16>
    %cst_4 = stablehlo.constant dense<0.353553385> : tensor<bf16>
    %28 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<bf16>) -> tensor<8x8x16x16xbf16>
    %29 = stablehlo.multiply %27, %28 : tensor<8x8x16x16xbf16>
    %30 = stablehlo.iota dim = 0 : tensor<16x16xi32>
    %31 = stablehlo.iota dim = 1 : tensor<16x16xi32>
    %32 = stablehlo.compare GE, %30, %31, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
    %cst_5 = stablehlo.constant dense<-1.000000e+09> : tensor<bf16>
    %33 = call @_where(%32, %29, %cst_5) : (tensor<16x16xi1>, tensor<8x8x16x16xbf16>, tensor<bf16>) -> tensor<8x8x16x16xbf16>
    %cst_6 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %34 = stablehlo.reduce(%33 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<8x8x16x16xbf16>, tensor<bf16>) -> tensor<8x8x16xbf16>
    %cst_7 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %35 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<bf16>) -> tensor<8x8x16xbf16>
    %36 = stablehlo.maximum %35, %34 : tensor<8x8x16xbf16>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2] : (tensor<8x8x16xbf16>) -> tensor<8x8x16x1xbf16>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 3] : (tensor<8x8x16x1xbf16>) -> tensor<8x8x16x16xbf16>
    %39 = stablehlo.subtract %33, %38 : tensor<8x8x16x16xbf16>
    %40 = stablehlo.exponential %39 : tensor<8x8x16x16xbf16>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %41 = stablehlo.reduce(%40 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<8x8x16x16xbf16>, tensor<bf16>) -> tensor<8x8x16xbf16>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2] : (tensor<8x8x16xbf16>) -> tensor<8x8x16x1xbf16>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3] : (tensor<8x8x16x1xbf16>) -> tensor<8x8x16x16xbf16>
    %44 = stablehlo.divide %40, %43 : tensor<8x8x16x16xbf16>
    %45 = stablehlo.dot_general %26, %44, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x8x16x16xbf16>) -> tensor<8x8x8x16xbf16>
    %46 = stablehlo.transpose %45, dims = [0, 3, 1, 2] : (tensor<8x8x8x16xbf16>) -> tensor<8x16x8x8xbf16>
    %47 = stablehlo.dot_general %46, %arg10, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x8x64xbf16>) -> tensor<8x16x64xbf16>
    %48 = stablehlo.add %arg0, %47 : tensor<8x16x64xbf16>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %49 = stablehlo.reduce(%48 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %cst_10 = stablehlo.constant dense<6.400000e+01> : tensor<bf16>
    %51 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %52 = stablehlo.divide %50, %51 : tensor<8x16x1xbf16>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %54 = stablehlo.subtract %48, %53 : tensor<8x16x64xbf16>
    %55 = stablehlo.multiply %54, %54 : tensor<8x16x64xbf16>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %56 = stablehlo.reduce(%55 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %cst_12 = stablehlo.constant dense<6.400000e+01> : tensor<bf16>
    %58 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %59 = stablehlo.divide %57, %58 : tensor<8x16x1xbf16>
    %60 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %61 = stablehlo.subtract %48, %60 : tensor<8x16x64xbf16>
    %cst_13 = stablehlo.constant dense<9.99999974E-6> : tensor<bf16>
    %62 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %63 = stablehlo.add %59, %62 : tensor<8x16x1xbf16>
    %64 = stablehlo.rsqrt %63 : tensor<8x16x1xbf16>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %66 = stablehlo.multiply %61, %65 : tensor<8x16x64xbf16>
    %67 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<8x16x64xbf16>
    %69 = stablehlo.multiply %66, %68 : tensor<8x16x64xbf16>
    %70 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<8x16x64xbf16>
    %72 = stablehlo.add %69, %71 : tensor<8x16x64xbf16>
    %73 = stablehlo.dot_general %72, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x128xbf16>) -> tensor<8x16x128xbf16>
    %74 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<128xbf16>) -> tensor<1x1x128xbf16>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<1x1x128xbf16>) -> tensor<8x16x128xbf16>
    %76 = stablehlo.add %73, %75 : tensor<8x16x128xbf16>
    %77 = stablehlo.multiply %76, %76 : tensor<8x16x128xbf16>
    %78 = stablehlo.multiply %77, %76 : tensor<8x16x128xbf16>
    %cst_14 = stablehlo.constant dense<4.471500e-02> : tensor<bf16>
    %79 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %80 = stablehlo.multiply %79, %78 : tensor<8x16x128xbf16>
    %81 = stablehlo.add %76, %80 : tensor<8x16x128xbf16>
    %cst_15 = stablehlo.constant dense<0.797884583> : tensor<bf16>
    %82 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %83 = stablehlo.multiply %82, %81 : tensor<8x16x128xbf16>
    %84 = stablehlo.tanh %83 : tensor<8x16x128xbf16>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %85 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %86 = stablehlo.add %85, %84 : tensor<8x16x128xbf16>
    %cst_17 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %87 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %88 = stablehlo.multiply %87, %86 : tensor<8x16x128xbf16>
    %89 = stablehlo.multiply %76, %88 : tensor<8x16x128xbf16>
    %90 = stablehlo.dot_general %89, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x128xbf16>, tensor<128x64xbf16>) -> tensor<8x16x64xbf16>
    %91 = stablehlo.add %48, %90 : tensor<8x16x64xbf16>
    %92 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<8x16x64xbf16>
    %94 = stablehlo.add %91, %93 : tensor<8x16x64xbf16>
    return %94 : tensor<8x16x64xbf16>
  }
  func.func private @_where(%arg0: tensor<16x16xi1>, %arg1: tensor<8x8x16x16xbf16>, %arg2: tensor<bf16>) -> tensor<8x8x16x16xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<16x16xi1>) -> tensor<8x8x16x16xi1>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<bf16>) -> tensor<8x8x16x16xbf16>
    %2 = stablehlo.select %0, %arg1, %1 : tensor<8x8x16x16xi1>, tensor<8x8x16x16xbf16>
    return %2 : tensor<8x8x16x16xbf16>
  }
}
