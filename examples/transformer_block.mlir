module @jit_block attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<8x128x256xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %arg1: tensor<1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}]>}, %arg2: tensor<256xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg3: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg4: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg5: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg6: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg7: tensor<256x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}, %arg8: tensor<1024x256xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}, %arg9: tensor<256x8x32xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg10: tensor<8x32x256xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}, %arg11: tensor<256x8x32xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg12: tensor<256x8x32xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}) -> (tensor<8x128x256xbf16> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}) {
    %0 = stablehlo.convert %arg0 : (tensor<8x128x256xbf16>) -> tensor<8x128x256xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<8x128x256xf32>, tensor<f32>) -> tensor<8x128xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<8x128xf32>) -> tensor<8x128x1xf32>
    %cst_0 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<8x128x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<8x128x1xf32>) -> tensor<8x128x256xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<8x128x256xf32>
    %7 = stablehlo.multiply %6, %6 : tensor<8x128x256xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<8x128x256xf32>, tensor<f32>) -> tensor<8x128xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<8x128xf32>) -> tensor<8x128x1xf32>
    %cst_2 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %11 = stablehlo.divide %9, %10 : tensor<8x128x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %13 = stablehlo.add %11, %12 : tensor<8x128x1xf32>
    %14 = stablehlo.rsqrt %13 : tensor<8x128x1xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<8x128x1xf32>) -> tensor<8x128x256xf32>
    %16 = stablehlo.multiply %6, %15 : tensor<8x128x256xf32>
    %17 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<8x128x256xf32>
    %19 = stablehlo.multiply %16, %18 : tensor<8x128x256xf32>
    %20 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<8x128x256xf32>
    %22 = stablehlo.add %19, %21 : tensor<8x128x256xf32>
    %23 = stablehlo.convert %22 : (tensor<8x128x256xf32>) -> tensor<8x128x256xbf16>
    %24 = stablehlo.dot_general %arg11, %23, contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<256x8x32xbf16>, tensor<8x128x256xbf16>) -> tensor<8x32x8x128xbf16>
    %25 = stablehlo.transpose %24, dims = [2, 0, 3, 1] : (tensor<8x32x8x128xbf16>) -> tensor<8x8x128x32xbf16>
    %26 = stablehlo.dot_general %arg9, %23, contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<256x8x32xbf16>, tensor<8x128x256xbf16>) -> tensor<8x32x8x128xbf16>
    %27 = stablehlo.transpose %26, dims = [2, 0, 3, 1] : (tensor<8x32x8x128xbf16>) -> tensor<8x8x128x32xbf16>
    %28 = stablehlo.dot_general %arg12, %23, contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<256x8x32xbf16>, tensor<8x128x256xbf16>) -> tensor<8x32x8x128xbf16>
    %29 = stablehlo.transpose %28, dims = [2, 0, 3, 1] : (tensor<8x32x8x128xbf16>) -> tensor<8x8x128x32xbf16>
    %30 = stablehlo.dot_general %25, %27, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x8x128x32xbf16>, tensor<8x8x128x32xbf16>) -> tensor<8x8x128x128xbf16>
    %31 = stablehlo.convert %30 : (tensor<8x8x128x128xbf16>) -> tensor<8x8x128x128xf32>
    %cst_4 = stablehlo.constant dense<0.176776692> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8x8x128x128xf32>
    %33 = stablehlo.multiply %31, %32 : tensor<8x8x128x128xf32>
    %34 = stablehlo.iota dim = 0 : tensor<128xi32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0] : (tensor<128xi32>) -> tensor<128x1xi32>
    %36 = stablehlo.iota dim = 0 : tensor<128xi32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [1] : (tensor<128xi32>) -> tensor<1x128xi32>
    %38 = stablehlo.broadcast_in_dim %35, dims = [0, 1] : (tensor<128x1xi32>) -> tensor<128x128xi32>
    %39 = stablehlo.broadcast_in_dim %37, dims = [0, 1] : (tensor<1x128xi32>) -> tensor<128x128xi32>
    %40 = stablehlo.compare GE, %38, %39, SIGNED : (tensor<128x128xi32>, tensor<128x128xi32>) -> tensor<128x128xi1>
    %cst_5 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %41 = call @_where(%40, %33, %cst_5) : (tensor<128x128xi1>, tensor<8x8x128x128xf32>, tensor<f32>) -> tensor<8x8x128x128xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %42 = stablehlo.reduce(%41 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<8x8x128x128xf32>, tensor<f32>) -> tensor<8x8x128xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<8x8x128xf32>
    %44 = stablehlo.maximum %43, %42 : tensor<8x8x128xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<8x8x128xf32>) -> tensor<8x8x128x1xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<8x8x128x1xf32>) -> tensor<8x8x128x128xf32>
    %47 = stablehlo.subtract %41, %46 : tensor<8x8x128x128xf32>
    %48 = stablehlo.exponential %47 : tensor<8x8x128x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<8x8x128x128xf32>, tensor<f32>) -> tensor<8x8x128xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2] : (tensor<8x8x128xf32>) -> tensor<8x8x128x1xf32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<8x8x128x1xf32>) -> tensor<8x8x128x128xf32>
    %52 = stablehlo.divide %48, %51 : tensor<8x8x128x128xf32>
    %53 = stablehlo.convert %52 : (tensor<8x8x128x128xf32>) -> tensor<8x8x128x128xbf16>
    %54 = stablehlo.dot_general %53, %29, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<8x8x128x128xbf16>, tensor<8x8x128x32xbf16>) -> tensor<8x8x128x32xbf16>
    %55 = stablehlo.dot_general %54, %arg10, contracting_dims = [3, 1] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x8x128x32xbf16>, tensor<8x32x256xbf16>) -> tensor<8x128x256xbf16>
    %56 = stablehlo.add %arg0, %55 : tensor<8x128x256xbf16>
    %57 = stablehlo.convert %56 : (tensor<8x128x256xbf16>) -> tensor<8x128x256xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %58 = stablehlo.reduce(%57 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<8x128x256xf32>, tensor<f32>) -> tensor<8x128xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1] : (tensor<8x128xf32>) -> tensor<8x128x1xf32>
    %cst_10 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %61 = stablehlo.divide %59, %60 : tensor<8x128x1xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2] : (tensor<8x128x1xf32>) -> tensor<8x128x256xf32>
    %63 = stablehlo.subtract %57, %62 : tensor<8x128x256xf32>
    %64 = stablehlo.multiply %63, %63 : tensor<8x128x256xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %65 = stablehlo.reduce(%64 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<8x128x256xf32>, tensor<f32>) -> tensor<8x128xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 1] : (tensor<8x128xf32>) -> tensor<8x128x1xf32>
    %cst_12 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %68 = stablehlo.divide %66, %67 : tensor<8x128x1xf32>
    %cst_13 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %70 = stablehlo.add %68, %69 : tensor<8x128x1xf32>
    %71 = stablehlo.rsqrt %70 : tensor<8x128x1xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2] : (tensor<8x128x1xf32>) -> tensor<8x128x256xf32>
    %73 = stablehlo.multiply %63, %72 : tensor<8x128x256xf32>
    %74 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<8x128x256xf32>
    %76 = stablehlo.multiply %73, %75 : tensor<8x128x256xf32>
    %77 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<8x128x256xf32>
    %79 = stablehlo.add %76, %78 : tensor<8x128x256xf32>
    %80 = stablehlo.convert %79 : (tensor<8x128x256xf32>) -> tensor<8x128x256xbf16>
    %81 = stablehlo.dot_general %80, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x128x256xbf16>, tensor<256x1024xbf16>) -> tensor<8x128x1024xbf16>
    %82 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<1024xbf16>) -> tensor<1x1x1024xbf16>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<1x1x1024xbf16>) -> tensor<8x128x1024xbf16>
    %84 = stablehlo.add %81, %83 : tensor<8x128x1024xbf16>
    %85 = stablehlo.multiply %84, %84 : tensor<8x128x1024xbf16>
    %86 = stablehlo.multiply %85, %84 : tensor<8x128x1024xbf16>
    %cst_14 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %87 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<8x128x1024xbf16>
    %88 = stablehlo.multiply %87, %86 : tensor<8x128x1024xbf16>
    %89 = stablehlo.add %84, %88 : tensor<8x128x1024xbf16>
    %cst_15 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %90 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<bf16>) -> tensor<8x128x1024xbf16>
    %91 = stablehlo.multiply %90, %89 : tensor<8x128x1024xbf16>
    %92 = stablehlo.tanh %91 : tensor<8x128x1024xbf16>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %93 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<bf16>) -> tensor<8x128x1024xbf16>
    %94 = stablehlo.add %93, %92 : tensor<8x128x1024xbf16>
    %cst_17 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %95 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<bf16>) -> tensor<8x128x1024xbf16>
    %96 = stablehlo.multiply %95, %94 : tensor<8x128x1024xbf16>
    %97 = stablehlo.multiply %84, %96 : tensor<8x128x1024xbf16>
    %98 = stablehlo.dot_general %97, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x128x1024xbf16>, tensor<1024x256xbf16>) -> tensor<8x128x256xbf16>
    %99 = stablehlo.add %56, %98 : tensor<8x128x256xbf16>
    %100 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %101 = stablehlo.broadcast_in_dim %100, dims = [0, 1, 2] : (tensor<1x1x256xbf16>) -> tensor<8x128x256xbf16>
    %102 = stablehlo.add %99, %101 : tensor<8x128x256xbf16>
    return %102 : tensor<8x128x256xbf16>
  }
  func.func private @_where(%arg0: tensor<128x128xi1>, %arg1: tensor<8x8x128x128xf32>, %arg2: tensor<f32>) -> tensor<8x8x128x128xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<128x128xi1>) -> tensor<8x8x128x128xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x8x128x128xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<8x8x128x128xi1>, tensor<8x8x128x128xf32>
    return %3 : tensor<8x8x128x128xf32>
  }
}
