module @jit__lambda attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}]>}, %arg1: tensor<64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg2: tensor<64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg3: tensor<64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg4: tensor<64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg5: tensor<64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg6: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}, %arg7: tensor<128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}, %arg8: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg9: tensor<8x8x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}, %arg10: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg11: tensor<64x8x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg12: tensor<8x16x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %arg13: tensor<8x16x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}) -> (tensor<bf16> {jax.result_info = "result[0]", sdy.sharding = #sdy.sharding<@mesh, []>}, tensor<128xbf16> {jax.result_info = "result[1]['b1']", sdy.sharding = #sdy.sharding<@mesh, [{"tp"}]>}, tensor<64xbf16> {jax.result_info = "result[1]['b2']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<64xbf16> {jax.result_info = "result[1]['ln1b']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<64xbf16> {jax.result_info = "result[1]['ln1g']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<64xbf16> {jax.result_info = "result[1]['ln2b']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<64xbf16> {jax.result_info = "result[1]['ln2g']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<64x128xbf16> {jax.result_info = "result[1]['w1']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}, tensor<128x64xbf16> {jax.result_info = "result[1]['w2']", sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}, tensor<64x8x8xbf16> {jax.result_info = "result[1]['wk']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, tensor<8x8x64xbf16> {jax.result_info = "result[1]['wo']", sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}, tensor<64x8x8xbf16> {jax.result_info = "result[1]['wq']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, tensor<64x8x8xbf16> {jax.result_info = "result[1]['wv']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.reduce(%arg12 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %3 = stablehlo.divide %1, %2 : tensor<8x16x1xbf16>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %5 = stablehlo.subtract %arg12, %4 : tensor<8x16x64xbf16>
    %6 = stablehlo.multiply %5, %5 : tensor<8x16x64xbf16>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %cst_2 = stablehlo.constant dense<6.400000e+01> : tensor<bf16>
    %9 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %10 = stablehlo.divide %8, %9 : tensor<8x16x1xbf16>
    %11 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %12 = stablehlo.subtract %arg12, %11 : tensor<8x16x64xbf16>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<bf16>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %14 = stablehlo.add %10, %13 : tensor<8x16x1xbf16>
    %15 = stablehlo.rsqrt %14 : tensor<8x16x1xbf16>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %17 = stablehlo.multiply %12, %16 : tensor<8x16x64xbf16>
    %18 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<8x16x64xbf16>
    %20 = stablehlo.multiply %17, %19 : tensor<8x16x64xbf16>
    %21 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<8x16x64xbf16>
    %23 = stablehlo.add %20, %22 : tensor<8x16x64xbf16>
    %24 = stablehlo.dot_general %23, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x8x8xbf16>
    %25 = stablehlo.dot_general %23, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x8x8xbf16>
    %26 = stablehlo.dot_general %23, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x8x8xbf16>
    %27 = stablehlo.dot_general %24, %25, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x16x8x8xbf16>) -> tensor<8x8x16x16xbf16>
    %cst_4 = stablehlo.constant dense<0.353553385> : tensor<bf16>
    %28 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<bf16>) -> tensor<8x8x16x16xbf16>
    %29 = stablehlo.multiply %27, %28 : tensor<8x8x16x16xbf16>
    %30 = stablehlo.iota dim = 0 : tensor<16x16xi32>
    %31 = stablehlo.iota dim = 1 : tensor<16x16xi32>
    %32 = stablehlo.compare GE, %30, %31, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
    %cst_5 = stablehlo.constant dense<-1.000000e+09> : tensor<bf16>
    %33:2 = call @_where(%32, %29, %cst_5) : (tensor<16x16xi1>, tensor<8x8x16x16xbf16>, tensor<bf16>) -> (tensor<8x8x16x16xbf16>, tensor<8x8x16x16xi1>)
    %cst_6 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %34 = stablehlo.reduce(%33#0 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<8x8x16x16xbf16>, tensor<bf16>) -> tensor<8x8x16xbf16>
    %cst_7 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %35 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<bf16>) -> tensor<8x8x16xbf16>
    %36 = stablehlo.maximum %35, %34 : tensor<8x8x16xbf16>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2] : (tensor<8x8x16xbf16>) -> tensor<8x8x16x1xbf16>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 3] : (tensor<8x8x16x1xbf16>) -> tensor<8x8x16x16xbf16>
    %39 = stablehlo.subtract %33#0, %38 : tensor<8x8x16x16xbf16>
    %40 = stablehlo.exponential %39 : tensor<8x8x16x16xbf16>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %41 = stablehlo.reduce(%40 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<8x8x16x16xbf16>, tensor<bf16>) -> tensor<8x8x16xbf16>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2] : (tensor<8x8x16xbf16>) -> tensor<8x8x16x1xbf16>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3] : (tensor<8x8x16x1xbf16>) -> tensor<8x8x16x16xbf16>
    %44 = stablehlo.divide %40, %43 : tensor<8x8x16x16xbf16>
    %45 = stablehlo.multiply %42, %42 : tensor<8x8x16x1xbf16>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %46 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<bf16>) -> tensor<8x8x16x1xbf16>
    %47 = stablehlo.divide %46, %45 : tensor<8x8x16x1xbf16>
    %48 = stablehlo.dot_general %26, %44, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x8x16x16xbf16>) -> tensor<8x8x8x16xbf16>
    %49 = stablehlo.transpose %48, dims = [0, 3, 1, 2] : (tensor<8x8x8x16xbf16>) -> tensor<8x16x8x8xbf16>
    %50 = stablehlo.dot_general %49, %arg9, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x8x64xbf16>) -> tensor<8x16x64xbf16>
    %51 = stablehlo.add %arg12, %50 : tensor<8x16x64xbf16>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %52 = stablehlo.reduce(%51 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %cst_11 = stablehlo.constant dense<6.400000e+01> : tensor<bf16>
    %54 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %55 = stablehlo.divide %53, %54 : tensor<8x16x1xbf16>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %57 = stablehlo.subtract %51, %56 : tensor<8x16x64xbf16>
    %58 = stablehlo.multiply %57, %57 : tensor<8x16x64xbf16>
    %cst_12 = stablehlo.constant dense<2.000000e+00> : tensor<bf16>
    %59 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<bf16>) -> tensor<8x16x64xbf16>
    %60 = stablehlo.multiply %59, %57 : tensor<8x16x64xbf16>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %61 = stablehlo.reduce(%58 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %cst_14 = stablehlo.constant dense<6.400000e+01> : tensor<bf16>
    %63 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %64 = stablehlo.divide %62, %63 : tensor<8x16x1xbf16>
    %65 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %66 = stablehlo.subtract %51, %65 : tensor<8x16x64xbf16>
    %cst_15 = stablehlo.constant dense<9.99999974E-6> : tensor<bf16>
    %67 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %68 = stablehlo.add %64, %67 : tensor<8x16x1xbf16>
    %69 = stablehlo.rsqrt %68 : tensor<8x16x1xbf16>
    %70 = stablehlo.divide %69, %68 : tensor<8x16x1xbf16>
    %cst_16 = stablehlo.constant dense<-5.000000e-01> : tensor<bf16>
    %71 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %72 = stablehlo.multiply %71, %70 : tensor<8x16x1xbf16>
    %73 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %74 = stablehlo.multiply %66, %73 : tensor<8x16x64xbf16>
    %75 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<8x16x64xbf16>
    %77 = stablehlo.multiply %74, %76 : tensor<8x16x64xbf16>
    %78 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<8x16x64xbf16>
    %80 = stablehlo.add %77, %79 : tensor<8x16x64xbf16>
    %81 = stablehlo.dot_general %80, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x128xbf16>) -> tensor<8x16x128xbf16>
    %82 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<128xbf16>) -> tensor<1x1x128xbf16>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<1x1x128xbf16>) -> tensor<8x16x128xbf16>
    %84 = stablehlo.add %81, %83 : tensor<8x16x128xbf16>
    %85 = stablehlo.multiply %84, %84 : tensor<8x16x128xbf16>
    %86 = stablehlo.multiply %85, %84 : tensor<8x16x128xbf16>
    %87 = stablehlo.multiply %84, %84 : tensor<8x16x128xbf16>
    %cst_17 = stablehlo.constant dense<3.000000e+00> : tensor<bf16>
    %88 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %89 = stablehlo.multiply %88, %87 : tensor<8x16x128xbf16>
    %cst_18 = stablehlo.constant dense<4.471500e-02> : tensor<bf16>
    %90 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %91 = stablehlo.multiply %90, %86 : tensor<8x16x128xbf16>
    %92 = stablehlo.add %84, %91 : tensor<8x16x128xbf16>
    %cst_19 = stablehlo.constant dense<0.797884583> : tensor<bf16>
    %93 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %94 = stablehlo.multiply %93, %92 : tensor<8x16x128xbf16>
    %95 = stablehlo.tanh %94 : tensor<8x16x128xbf16>
    %cst_20 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %96 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %97 = stablehlo.subtract %96, %95 : tensor<8x16x128xbf16>
    %cst_21 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %98 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %99 = stablehlo.add %98, %95 : tensor<8x16x128xbf16>
    %cst_22 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %100 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %101 = stablehlo.multiply %100, %99 : tensor<8x16x128xbf16>
    %102 = stablehlo.multiply %84, %101 : tensor<8x16x128xbf16>
    %103 = stablehlo.dot_general %102, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x128xbf16>, tensor<128x64xbf16>) -> tensor<8x16x64xbf16>
    %104 = stablehlo.add %51, %103 : tensor<8x16x64xbf16>
    %105 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %106 = stablehlo.broadcast_in_dim %105, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<8x16x64xbf16>
    %107 = stablehlo.add %104, %106 : tensor<8x16x64xbf16>
    %108 = stablehlo.subtract %107, %arg13 : tensor<8x16x64xbf16>
    %109 = stablehlo.multiply %108, %108 : tensor<8x16x64xbf16>
    %cst_23 = stablehlo.constant dense<2.000000e+00> : tensor<bf16>
    %110 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<bf16>) -> tensor<8x16x64xbf16>
    %111 = stablehlo.multiply %110, %108 : tensor<8x16x64xbf16>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %112 = stablehlo.reduce(%109 init: %cst_24) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<bf16>
    %cst_25 = stablehlo.constant dense<8.192000e+03> : tensor<bf16>
    %113 = stablehlo.divide %112, %cst_25 : tensor<bf16>
    %cst_26 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %cst_27 = stablehlo.constant dense<8.192000e+03> : tensor<bf16>
    %114 = stablehlo.divide %cst_26, %cst_27 : tensor<bf16>
    %115 = stablehlo.broadcast_in_dim %114, dims = [] : (tensor<bf16>) -> tensor<8x16x64xbf16>
    %116 = stablehlo.multiply %115, %111 : tensor<8x16x64xbf16>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %117 = stablehlo.reduce(%116 init: %cst_28) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %118 = stablehlo.reshape %117 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %119 = stablehlo.reduce(%118 init: %cst_29) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %120 = stablehlo.dot_general %116, %102, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<8x16x128xbf16>) -> tensor<64x128xbf16>
    %121 = stablehlo.transpose %120, dims = [1, 0] : (tensor<64x128xbf16>) -> tensor<128x64xbf16>
    %122 = stablehlo.dot_general %116, %arg7, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<128x64xbf16>) -> tensor<8x16x128xbf16>
    %123 = stablehlo.multiply %84, %122 : tensor<8x16x128xbf16>
    %124 = stablehlo.multiply %122, %101 : tensor<8x16x128xbf16>
    %cst_30 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %125 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %126 = stablehlo.multiply %125, %123 : tensor<8x16x128xbf16>
    %127 = stablehlo.multiply %126, %97 : tensor<8x16x128xbf16>
    %128 = stablehlo.multiply %127, %95 : tensor<8x16x128xbf16>
    %129 = stablehlo.add %127, %128 : tensor<8x16x128xbf16>
    %cst_31 = stablehlo.constant dense<0.797884583> : tensor<bf16>
    %130 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %131 = stablehlo.multiply %130, %129 : tensor<8x16x128xbf16>
    %132 = stablehlo.add %124, %131 : tensor<8x16x128xbf16>
    %cst_32 = stablehlo.constant dense<4.471500e-02> : tensor<bf16>
    %133 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<bf16>) -> tensor<8x16x128xbf16>
    %134 = stablehlo.multiply %133, %131 : tensor<8x16x128xbf16>
    %135 = stablehlo.multiply %134, %89 : tensor<8x16x128xbf16>
    %136 = stablehlo.add %132, %135 : tensor<8x16x128xbf16>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %137 = stablehlo.reduce(%136 init: %cst_33) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x16x128xbf16>, tensor<bf16>) -> tensor<128xbf16>
    %138 = stablehlo.reshape %137 : (tensor<128xbf16>) -> tensor<1x1x128xbf16>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %139 = stablehlo.reduce(%138 init: %cst_34) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xbf16>, tensor<bf16>) -> tensor<128xbf16>
    %140 = stablehlo.dot_general %136, %80, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x16x128xbf16>, tensor<8x16x64xbf16>) -> tensor<128x64xbf16>
    %141 = stablehlo.transpose %140, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %142 = stablehlo.dot_general %136, %arg6, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x16x128xbf16>, tensor<64x128xbf16>) -> tensor<8x16x64xbf16>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %143 = stablehlo.reduce(%142 init: %cst_35) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %144 = stablehlo.reshape %143 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %145 = stablehlo.reduce(%144 init: %cst_36) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %146 = stablehlo.multiply %74, %142 : tensor<8x16x64xbf16>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %147 = stablehlo.reduce(%146 init: %cst_37) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %148 = stablehlo.reshape %147 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %149 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<8x16x64xbf16>
    %150 = stablehlo.multiply %142, %149 : tensor<8x16x64xbf16>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %151 = stablehlo.reduce(%148 init: %cst_38) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %152 = stablehlo.multiply %66, %150 : tensor<8x16x64xbf16>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %153 = stablehlo.reduce(%152 init: %cst_39) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %154 = stablehlo.reshape %153 : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %155 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x64xbf16>
    %156 = stablehlo.multiply %150, %155 : tensor<8x16x64xbf16>
    %157 = stablehlo.multiply %154, %72 : tensor<8x16x1xbf16>
    %158 = stablehlo.negate %156 : tensor<8x16x64xbf16>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %159 = stablehlo.reduce(%158 init: %cst_40) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %160 = stablehlo.reshape %159 : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %161 = stablehlo.add %116, %156 : tensor<8x16x64xbf16>
    %cst_41 = stablehlo.constant dense<6.400000e+01> : tensor<bf16>
    %162 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %163 = stablehlo.divide %157, %162 : tensor<8x16x1xbf16>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %164 = stablehlo.reduce(%163 init: %cst_42) applies stablehlo.add across dimensions = [2] : (tensor<8x16x1xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %165 = stablehlo.broadcast_in_dim %164, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x64xbf16>
    %166 = stablehlo.multiply %165, %60 : tensor<8x16x64xbf16>
    %167 = stablehlo.negate %166 : tensor<8x16x64xbf16>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %168 = stablehlo.reduce(%167 init: %cst_43) applies stablehlo.add across dimensions = [2] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %169 = stablehlo.reshape %168 : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %170 = stablehlo.add %161, %166 : tensor<8x16x64xbf16>
    %171 = stablehlo.add %160, %169 : tensor<8x16x1xbf16>
    %cst_44 = stablehlo.constant dense<6.400000e+01> : tensor<bf16>
    %172 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<bf16>) -> tensor<8x16x1xbf16>
    %173 = stablehlo.divide %171, %172 : tensor<8x16x1xbf16>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %174 = stablehlo.reduce(%173 init: %cst_45) applies stablehlo.add across dimensions = [2] : (tensor<8x16x1xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %175 = stablehlo.broadcast_in_dim %174, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x64xbf16>
    %176 = stablehlo.add %170, %175 : tensor<8x16x64xbf16>
    %177 = stablehlo.dot_general %176, %49, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<8x16x8x8xbf16>) -> tensor<64x8x8xbf16>
    %178 = stablehlo.transpose %177, dims = [1, 2, 0] : (tensor<64x8x8xbf16>) -> tensor<8x8x64xbf16>
    %179 = stablehlo.dot_general %176, %arg9, contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<8x8x64xbf16>) -> tensor<8x16x8x8xbf16>
    %180 = stablehlo.transpose %179, dims = [0, 2, 3, 1] : (tensor<8x16x8x8xbf16>) -> tensor<8x8x8x16xbf16>
    %181 = stablehlo.dot_general %180, %26, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x8x8x16xbf16>, tensor<8x16x8x8xbf16>) -> tensor<8x8x16x16xbf16>
    %182 = stablehlo.dot_general %180, %44, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<8x8x8x16xbf16>, tensor<8x8x16x16xbf16>) -> tensor<8x8x8x16xbf16>
    %183 = stablehlo.transpose %182, dims = [0, 3, 1, 2] : (tensor<8x8x8x16xbf16>) -> tensor<8x16x8x8xbf16>
    %184 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2, 3] : (tensor<8x8x16x1xbf16>) -> tensor<8x8x16x16xbf16>
    %185 = stablehlo.multiply %181, %184 : tensor<8x8x16x16xbf16>
    %186 = stablehlo.multiply %185, %40 : tensor<8x8x16x16xbf16>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %187 = stablehlo.reduce(%186 init: %cst_46) applies stablehlo.add across dimensions = [3] : (tensor<8x8x16x16xbf16>, tensor<bf16>) -> tensor<8x8x16xbf16>
    %188 = stablehlo.reshape %187 : (tensor<8x8x16xbf16>) -> tensor<8x8x16x1xbf16>
    %189 = stablehlo.negate %188 : tensor<8x8x16x1xbf16>
    %190 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3] : (tensor<8x8x16x1xbf16>) -> tensor<8x8x16x16xbf16>
    %191 = stablehlo.divide %181, %190 : tensor<8x8x16x16xbf16>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %192 = stablehlo.reduce(%189 init: %cst_47) applies stablehlo.add across dimensions = [3] : (tensor<8x8x16x1xbf16>, tensor<bf16>) -> tensor<8x8x16xbf16>
    %193 = stablehlo.broadcast_in_dim %192, dims = [0, 1, 2] : (tensor<8x8x16xbf16>) -> tensor<8x8x16x16xbf16>
    %194 = stablehlo.add %191, %193 : tensor<8x8x16x16xbf16>
    %195 = stablehlo.multiply %194, %40 : tensor<8x8x16x16xbf16>
    %196 = call @_where_0(%33#1, %195) : (tensor<8x8x16x16xi1>, tensor<8x8x16x16xbf16>) -> tensor<8x8x16x16xbf16>
    %cst_48 = stablehlo.constant dense<0.353553385> : tensor<bf16>
    %197 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<bf16>) -> tensor<8x8x16x16xbf16>
    %198 = stablehlo.multiply %196, %197 : tensor<8x8x16x16xbf16>
    %199 = stablehlo.dot_general %198, %24, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x8x16x16xbf16>, tensor<8x16x8x8xbf16>) -> tensor<8x8x16x8xbf16>
    %200 = stablehlo.transpose %199, dims = [0, 2, 1, 3] : (tensor<8x8x16x8xbf16>) -> tensor<8x16x8x8xbf16>
    %201 = stablehlo.dot_general %198, %25, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x8x16x16xbf16>, tensor<8x16x8x8xbf16>) -> tensor<8x8x16x8xbf16>
    %202 = stablehlo.transpose %201, dims = [0, 2, 1, 3] : (tensor<8x8x16x8xbf16>) -> tensor<8x16x8x8xbf16>
    %203 = stablehlo.dot_general %183, %23, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x16x64xbf16>) -> tensor<8x8x64xbf16>
    %204 = stablehlo.transpose %203, dims = [2, 0, 1] : (tensor<8x8x64xbf16>) -> tensor<64x8x8xbf16>
    %205 = stablehlo.dot_general %183, %arg11, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x64xbf16>
    %206 = stablehlo.dot_general %200, %23, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x16x64xbf16>) -> tensor<8x8x64xbf16>
    %207 = stablehlo.transpose %206, dims = [2, 0, 1] : (tensor<8x8x64xbf16>) -> tensor<64x8x8xbf16>
    %208 = stablehlo.dot_general %200, %arg8, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x64xbf16>
    %209 = stablehlo.add %205, %208 : tensor<8x16x64xbf16>
    %210 = stablehlo.dot_general %202, %23, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<8x16x64xbf16>) -> tensor<8x8x64xbf16>
    %211 = stablehlo.transpose %210, dims = [2, 0, 1] : (tensor<8x8x64xbf16>) -> tensor<64x8x8xbf16>
    %212 = stablehlo.dot_general %202, %arg10, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x8xbf16>, tensor<64x8x8xbf16>) -> tensor<8x16x64xbf16>
    %213 = stablehlo.add %209, %212 : tensor<8x16x64xbf16>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %214 = stablehlo.reduce(%213 init: %cst_49) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %215 = stablehlo.reshape %214 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %216 = stablehlo.reduce(%215 init: %cst_50) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %217 = stablehlo.multiply %17, %213 : tensor<8x16x64xbf16>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %218 = stablehlo.reduce(%217 init: %cst_51) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x16x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %219 = stablehlo.reshape %218 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %220 = stablehlo.reduce(%219 init: %cst_52) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %cst_53 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %221 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<bf16>) -> tensor<128xbf16>
    %222 = stablehlo.multiply %221, %139 : tensor<128xbf16>
    %223 = stablehlo.subtract %arg0, %222 : tensor<128xbf16>
    %cst_54 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %224 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<bf16>) -> tensor<64xbf16>
    %225 = stablehlo.multiply %224, %119 : tensor<64xbf16>
    %226 = stablehlo.subtract %arg1, %225 : tensor<64xbf16>
    %cst_55 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %227 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<bf16>) -> tensor<64xbf16>
    %228 = stablehlo.multiply %227, %216 : tensor<64xbf16>
    %229 = stablehlo.subtract %arg2, %228 : tensor<64xbf16>
    %cst_56 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %230 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<bf16>) -> tensor<64xbf16>
    %231 = stablehlo.multiply %230, %220 : tensor<64xbf16>
    %232 = stablehlo.subtract %arg3, %231 : tensor<64xbf16>
    %cst_57 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %233 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<bf16>) -> tensor<64xbf16>
    %234 = stablehlo.multiply %233, %145 : tensor<64xbf16>
    %235 = stablehlo.subtract %arg4, %234 : tensor<64xbf16>
    %cst_58 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %236 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<bf16>) -> tensor<64xbf16>
    %237 = stablehlo.multiply %236, %151 : tensor<64xbf16>
    %238 = stablehlo.subtract %arg5, %237 : tensor<64xbf16>
    %cst_59 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %239 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<bf16>) -> tensor<64x128xbf16>
    %240 = stablehlo.multiply %239, %141 : tensor<64x128xbf16>
    %241 = stablehlo.subtract %arg6, %240 : tensor<64x128xbf16>
    %cst_60 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %242 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<bf16>) -> tensor<128x64xbf16>
    %243 = stablehlo.multiply %242, %121 : tensor<128x64xbf16>
    %244 = stablehlo.subtract %arg7, %243 : tensor<128x64xbf16>
    %cst_61 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %245 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<bf16>) -> tensor<64x8x8xbf16>
    %246 = stablehlo.multiply %245, %207 : tensor<64x8x8xbf16>
    %247 = stablehlo.subtract %arg8, %246 : tensor<64x8x8xbf16>
    %cst_62 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %248 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<bf16>) -> tensor<8x8x64xbf16>
    %249 = stablehlo.multiply %248, %178 : tensor<8x8x64xbf16>
    %250 = stablehlo.subtract %arg9, %249 : tensor<8x8x64xbf16>
    %cst_63 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %251 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<bf16>) -> tensor<64x8x8xbf16>
    %252 = stablehlo.multiply %251, %211 : tensor<64x8x8xbf16>
    %253 = stablehlo.subtract %arg10, %252 : tensor<64x8x8xbf16>
    %cst_64 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %254 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<bf16>) -> tensor<64x8x8xbf16>
    %255 = stablehlo.multiply %254, %204 : tensor<64x8x8xbf16>
    %256 = stablehlo.subtract %arg11, %255 : tensor<64x8x8xbf16>
    return %113, %223, %226, %229, %232, %235, %238, %241, %244, %247, %250, %253, %256 : tensor<bf16>, tensor<128xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64x128xbf16>, tensor<128x64xbf16>, tensor<64x8x8xbf16>, tensor<8x8x64xbf16>, tensor<64x8x8xbf16>, tensor<64x8x8xbf16>
  }
  func.func private @_where(%arg0: tensor<16x16xi1>, %arg1: tensor<8x8x16x16xbf16>, %arg2: tensor<bf16>) -> (tensor<8x8x16x16xbf16>, tensor<8x8x16x16xi1>) {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<16x16xi1>) -> tensor<8x8x16x16xi1>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<bf16>) -> tensor<8x8x16x16xbf16>
    %2 = stablehlo.select %0, %arg1, %1 : tensor<8x8x16x16xi1>, tensor<8x8x16x16xbf16>
    return %2, %0 : tensor<8x8x16x16xbf16>, tensor<8x8x16x16xi1>
  }
  func.func private @_where_0(%arg0: tensor<8x8x16x16xi1>, %arg1: tensor<8x8x16x16xbf16>) -> tensor<8x8x16x16xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<8x8x16x16xbf16>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<8x8x16x16xi1>, tensor<8x8x16x16xbf16>
    return %1 : tensor<8x8x16x16xbf16>
  }
}
