module @jit_block attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<8x128x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %arg1: tensor<1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}]>}, %arg2: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg3: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg4: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg5: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg6: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg7: tensor<256x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}, %arg8: tensor<1024x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}, %arg9: tensor<256x8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg10: tensor<8x32x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}, {}]>}, %arg11: tensor<256x8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}, %arg12: tensor<256x8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}, {}]>}) -> (tensor<8x128x256xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<8x128x256xf32>, tensor<f32>) -> tensor<8x128xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x128xf32>) -> tensor<8x128x1xf32>
    %cst_0 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<8x128x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<8x128x1xf32>) -> tensor<8x128x256xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<8x128x256xf32>
    %6 = stablehlo.multiply %5, %5 : tensor<8x128x256xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<8x128x256xf32>, tensor<f32>) -> tensor<8x128xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<8x128xf32>) -> tensor<8x128x1xf32>
    %cst_2 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %10 = stablehlo.divide %8, %9 : tensor<8x128x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %12 = stablehlo.add %10, %11 : tensor<8x128x1xf32>
    %13 = stablehlo.rsqrt %12 : tensor<8x128x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<8x128x1xf32>) -> tensor<8x128x256xf32>
    %15 = stablehlo.multiply %5, %14 : tensor<8x128x256xf32>
    %16 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<8x128x256xf32>
    %18 = stablehlo.multiply %15, %17 : tensor<8x128x256xf32>
    %19 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<8x128x256xf32>
    %21 = stablehlo.add %18, %20 : tensor<8x128x256xf32>
    %22 = stablehlo.dot_general %arg11, %21, contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<256x8x32xf32>, tensor<8x128x256xf32>) -> tensor<8x32x8x128xf32>
    %23 = stablehlo.transpose %22, dims = [2, 0, 3, 1] : (tensor<8x32x8x128xf32>) -> tensor<8x8x128x32xf32>
    %24 = stablehlo.dot_general %arg9, %21, contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<256x8x32xf32>, tensor<8x128x256xf32>) -> tensor<8x32x8x128xf32>
    %25 = stablehlo.transpose %24, dims = [2, 0, 3, 1] : (tensor<8x32x8x128xf32>) -> tensor<8x8x128x32xf32>
    %26 = stablehlo.dot_general %arg12, %21, contracting_dims = [0] x [2], precision = [DEFAULT, DEFAULT] : (tensor<256x8x32xf32>, tensor<8x128x256xf32>) -> tensor<8x32x8x128xf32>
    %27 = stablehlo.transpose %26, dims = [2, 0, 3, 1] : (tensor<8x32x8x128xf32>) -> tensor<8x8x128x32xf32>
    %28 = stablehlo.dot_general %23, %25, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<8x8x128x32xf32>, tensor<8x8x128x32xf32>) -> tensor<8x8x128x128xf32>
    %cst_4 = stablehlo.constant dense<0.176776692> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8x8x128x128xf32>
    %30 = stablehlo.multiply %28, %29 : tensor<8x8x128x128xf32>
    %31 = stablehlo.iota dim = 0 : tensor<128xi32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0] : (tensor<128xi32>) -> tensor<128x1xi32>
    %33 = stablehlo.iota dim = 0 : tensor<128xi32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [1] : (tensor<128xi32>) -> tensor<1x128xi32>
    %35 = stablehlo.broadcast_in_dim %32, dims = [0, 1] : (tensor<128x1xi32>) -> tensor<128x128xi32>
    %36 = stablehlo.broadcast_in_dim %34, dims = [0, 1] : (tensor<1x128xi32>) -> tensor<128x128xi32>
    %37 = stablehlo.compare GE, %35, %36, SIGNED : (tensor<128x128xi32>, tensor<128x128xi32>) -> tensor<128x128xi1>
    %cst_5 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %38 = call @_where(%37, %30, %cst_5) : (tensor<128x128xi1>, tensor<8x8x128x128xf32>, tensor<f32>) -> tensor<8x8x128x128xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %39 = stablehlo.reduce(%38 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<8x8x128x128xf32>, tensor<f32>) -> tensor<8x8x128xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %40 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<8x8x128xf32>
    %41 = stablehlo.maximum %40, %39 : tensor<8x8x128xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2] : (tensor<8x8x128xf32>) -> tensor<8x8x128x1xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3] : (tensor<8x8x128x1xf32>) -> tensor<8x8x128x128xf32>
    %44 = stablehlo.subtract %38, %43 : tensor<8x8x128x128xf32>
    %45 = stablehlo.exponential %44 : tensor<8x8x128x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %46 = stablehlo.reduce(%45 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<8x8x128x128xf32>, tensor<f32>) -> tensor<8x8x128xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2] : (tensor<8x8x128xf32>) -> tensor<8x8x128x1xf32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2, 3] : (tensor<8x8x128x1xf32>) -> tensor<8x8x128x128xf32>
    %49 = stablehlo.divide %45, %48 : tensor<8x8x128x128xf32>
    %50 = stablehlo.dot_general %49, %27, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<8x8x128x128xf32>, tensor<8x8x128x32xf32>) -> tensor<8x8x128x32xf32>
    %51 = stablehlo.dot_general %50, %arg10, contracting_dims = [3, 1] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x8x128x32xf32>, tensor<8x32x256xf32>) -> tensor<8x128x256xf32>
    %52 = stablehlo.add %arg0, %51 : tensor<8x128x256xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %53 = stablehlo.reduce(%52 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<8x128x256xf32>, tensor<f32>) -> tensor<8x128xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1] : (tensor<8x128xf32>) -> tensor<8x128x1xf32>
    %cst_10 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %56 = stablehlo.divide %54, %55 : tensor<8x128x1xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2] : (tensor<8x128x1xf32>) -> tensor<8x128x256xf32>
    %58 = stablehlo.subtract %52, %57 : tensor<8x128x256xf32>
    %59 = stablehlo.multiply %58, %58 : tensor<8x128x256xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.reduce(%59 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<8x128x256xf32>, tensor<f32>) -> tensor<8x128xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1] : (tensor<8x128xf32>) -> tensor<8x128x1xf32>
    %cst_12 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %62 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %63 = stablehlo.divide %61, %62 : tensor<8x128x1xf32>
    %cst_13 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<8x128x1xf32>
    %65 = stablehlo.add %63, %64 : tensor<8x128x1xf32>
    %66 = stablehlo.rsqrt %65 : tensor<8x128x1xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] : (tensor<8x128x1xf32>) -> tensor<8x128x256xf32>
    %68 = stablehlo.multiply %58, %67 : tensor<8x128x256xf32>
    %69 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<8x128x256xf32>
    %71 = stablehlo.multiply %68, %70 : tensor<8x128x256xf32>
    %72 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<8x128x256xf32>
    %74 = stablehlo.add %71, %73 : tensor<8x128x256xf32>
    %75 = stablehlo.dot_general %74, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x128x256xf32>, tensor<256x1024xf32>) -> tensor<8x128x1024xf32>
    %76 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<1024xf32>) -> tensor<1x1x1024xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2] : (tensor<1x1x1024xf32>) -> tensor<8x128x1024xf32>
    %78 = stablehlo.add %75, %77 : tensor<8x128x1024xf32>
    %79 = stablehlo.multiply %78, %78 : tensor<8x128x1024xf32>
    %80 = stablehlo.multiply %79, %78 : tensor<8x128x1024xf32>
    %cst_14 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<8x128x1024xf32>
    %82 = stablehlo.multiply %81, %80 : tensor<8x128x1024xf32>
    %83 = stablehlo.add %78, %82 : tensor<8x128x1024xf32>
    %cst_15 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %84 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<8x128x1024xf32>
    %85 = stablehlo.multiply %84, %83 : tensor<8x128x1024xf32>
    %86 = stablehlo.tanh %85 : tensor<8x128x1024xf32>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %87 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<8x128x1024xf32>
    %88 = stablehlo.add %87, %86 : tensor<8x128x1024xf32>
    %cst_17 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<8x128x1024xf32>
    %90 = stablehlo.multiply %89, %88 : tensor<8x128x1024xf32>
    %91 = stablehlo.multiply %78, %90 : tensor<8x128x1024xf32>
    %92 = stablehlo.dot_general %91, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x128x1024xf32>, tensor<1024x256xf32>) -> tensor<8x128x256xf32>
    %93 = stablehlo.add %52, %92 : tensor<8x128x256xf32>
    %94 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<8x128x256xf32>
    %96 = stablehlo.add %93, %95 : tensor<8x128x256xf32>
    return %96 : tensor<8x128x256xf32>
  }
  func.func private @_where(%arg0: tensor<128x128xi1>, %arg1: tensor<8x8x128x128xf32>, %arg2: tensor<f32>) -> tensor<8x8x128x128xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<128x128xi1>) -> tensor<8x8x128x128xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x8x128x128xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<8x8x128x128xi1>, tensor<8x8x128x128xf32>
    return %3 : tensor<8x8x128x128xf32>
  }
}
