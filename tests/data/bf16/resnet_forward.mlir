module @jit_resnet attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x3x16x16xbf16>, %arg1: tensor<16xbf16>, %arg2: tensor<16xbf16>, %arg3: tensor<1x1x32x16xbf16>, %arg4: tensor<16xbf16>, %arg5: tensor<16xbf16>, %arg6: tensor<1x1x32x64xbf16>, %arg7: tensor<64xbf16>, %arg8: tensor<64xbf16>, %arg9: tensor<1x1x16x64xbf16>, %arg10: tensor<64xbf16>, %arg11: tensor<64xbf16>, %arg12: tensor<2x8x8x32xbf16>) -> (tensor<2x4x4x64xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg12, %arg3) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x32xbf16>, tensor<1x1x32x16xbf16>) -> tensor<2x8x8x16xbf16>
    %1 = stablehlo.convert %0 : (tensor<2x8x8x16xbf16>) -> tensor<2x8x8x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x8x8x16xf32>, tensor<f32>) -> tensor<16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %5 = stablehlo.divide %3, %4 : tensor<1x1x1x16xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
    %7 = stablehlo.subtract %1, %6 : tensor<2x8x8x16xf32>
    %8 = chlo.square %7 : tensor<2x8x8x16xf32> -> tensor<2x8x8x16xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_1) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x8x8x16xf32>, tensor<f32>) -> tensor<16xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_2 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %12 = stablehlo.divide %10, %11 : tensor<1x1x1x16xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %14 = stablehlo.add %12, %13 : tensor<1x1x1x16xf32>
    %15 = stablehlo.rsqrt %14 : tensor<1x1x1x16xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
    %17 = stablehlo.multiply %7, %16 : tensor<2x8x8x16xf32>
    %18 = stablehlo.convert %17 : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xbf16>
    %19 = stablehlo.broadcast_in_dim %arg4, dims = [3] : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xbf16>) -> tensor<2x8x8x16xbf16>
    %21 = stablehlo.multiply %18, %20 : tensor<2x8x8x16xbf16>
    %22 = stablehlo.broadcast_in_dim %arg5, dims = [3] : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xbf16>) -> tensor<2x8x8x16xbf16>
    %24 = stablehlo.add %21, %23 : tensor<2x8x8x16xbf16>
    %25 = call @relu(%24) : (tensor<2x8x8x16xbf16>) -> tensor<2x8x8x16xbf16>
    %26 = stablehlo.convolution(%25, %arg0) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x16xbf16>, tensor<3x3x16x16xbf16>) -> tensor<2x4x4x16xbf16>
    %27 = stablehlo.convert %26 : (tensor<2x4x4x16xbf16>) -> tensor<2x4x4x16xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %28 = stablehlo.reduce(%27 init: %cst_4) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_5 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %31 = stablehlo.divide %29, %30 : tensor<1x1x1x16xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x4x4x16xf32>
    %33 = stablehlo.subtract %27, %32 : tensor<2x4x4x16xf32>
    %34 = chlo.square %33 : tensor<2x4x4x16xf32> -> tensor<2x4x4x16xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %35 = stablehlo.reduce(%34 init: %cst_6) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_7 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %38 = stablehlo.divide %36, %37 : tensor<1x1x1x16xf32>
    %cst_8 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %40 = stablehlo.add %38, %39 : tensor<1x1x1x16xf32>
    %41 = stablehlo.rsqrt %40 : tensor<1x1x1x16xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x4x4x16xf32>
    %43 = stablehlo.multiply %33, %42 : tensor<2x4x4x16xf32>
    %44 = stablehlo.convert %43 : (tensor<2x4x4x16xf32>) -> tensor<2x4x4x16xbf16>
    %45 = stablehlo.broadcast_in_dim %arg1, dims = [3] : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xbf16>) -> tensor<2x4x4x16xbf16>
    %47 = stablehlo.multiply %44, %46 : tensor<2x4x4x16xbf16>
    %48 = stablehlo.broadcast_in_dim %arg2, dims = [3] : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xbf16>) -> tensor<2x4x4x16xbf16>
    %50 = stablehlo.add %47, %49 : tensor<2x4x4x16xbf16>
    %51 = call @relu_0(%50) : (tensor<2x4x4x16xbf16>) -> tensor<2x4x4x16xbf16>
    %52 = stablehlo.convolution(%51, %arg9) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x4x4x16xbf16>, tensor<1x1x16x64xbf16>) -> tensor<2x4x4x64xbf16>
    %53 = stablehlo.convert %52 : (tensor<2x4x4x64xbf16>) -> tensor<2x4x4x64xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %54 = stablehlo.reduce(%53 init: %cst_9) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_10 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %57 = stablehlo.divide %55, %56 : tensor<1x1x1x64xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x4x4x64xf32>
    %59 = stablehlo.subtract %53, %58 : tensor<2x4x4x64xf32>
    %60 = chlo.square %59 : tensor<2x4x4x64xf32> -> tensor<2x4x4x64xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.reduce(%60 init: %cst_11) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_12 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %64 = stablehlo.divide %62, %63 : tensor<1x1x1x64xf32>
    %cst_13 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %66 = stablehlo.add %64, %65 : tensor<1x1x1x64xf32>
    %67 = stablehlo.rsqrt %66 : tensor<1x1x1x64xf32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x4x4x64xf32>
    %69 = stablehlo.multiply %59, %68 : tensor<2x4x4x64xf32>
    %70 = stablehlo.convert %69 : (tensor<2x4x4x64xf32>) -> tensor<2x4x4x64xbf16>
    %71 = stablehlo.broadcast_in_dim %arg10, dims = [3] : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xbf16>) -> tensor<2x4x4x64xbf16>
    %73 = stablehlo.multiply %70, %72 : tensor<2x4x4x64xbf16>
    %74 = stablehlo.broadcast_in_dim %arg11, dims = [3] : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xbf16>) -> tensor<2x4x4x64xbf16>
    %76 = stablehlo.add %73, %75 : tensor<2x4x4x64xbf16>
    %77 = stablehlo.convolution(%arg12, %arg6) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x32xbf16>, tensor<1x1x32x64xbf16>) -> tensor<2x4x4x64xbf16>
    %78 = stablehlo.convert %77 : (tensor<2x4x4x64xbf16>) -> tensor<2x4x4x64xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %79 = stablehlo.reduce(%78 init: %cst_14) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_15 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %82 = stablehlo.divide %80, %81 : tensor<1x1x1x64xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x4x4x64xf32>
    %84 = stablehlo.subtract %78, %83 : tensor<2x4x4x64xf32>
    %85 = chlo.square %84 : tensor<2x4x4x64xf32> -> tensor<2x4x4x64xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %86 = stablehlo.reduce(%85 init: %cst_16) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_17 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %88 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %89 = stablehlo.divide %87, %88 : tensor<1x1x1x64xf32>
    %cst_18 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %91 = stablehlo.add %89, %90 : tensor<1x1x1x64xf32>
    %92 = stablehlo.rsqrt %91 : tensor<1x1x1x64xf32>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x4x4x64xf32>
    %94 = stablehlo.multiply %84, %93 : tensor<2x4x4x64xf32>
    %95 = stablehlo.convert %94 : (tensor<2x4x4x64xf32>) -> tensor<2x4x4x64xbf16>
    %96 = stablehlo.broadcast_in_dim %arg7, dims = [3] : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xbf16>) -> tensor<2x4x4x64xbf16>
    %98 = stablehlo.multiply %95, %97 : tensor<2x4x4x64xbf16>
    %99 = stablehlo.broadcast_in_dim %arg8, dims = [3] : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xbf16>) -> tensor<2x4x4x64xbf16>
    %101 = stablehlo.add %98, %100 : tensor<2x4x4x64xbf16>
    %102 = stablehlo.add %76, %101 : tensor<2x4x4x64xbf16>
    %103 = call @relu_1(%102) : (tensor<2x4x4x64xbf16>) -> tensor<2x4x4x64xbf16>
    return %103 : tensor<2x4x4x64xbf16>
  }
  func.func private @relu(%arg0: tensor<2x8x8x16xbf16>) -> tensor<2x8x8x16xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<2x8x8x16xbf16>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x8x8x16xbf16>
    return %1 : tensor<2x8x8x16xbf16>
  }
  func.func private @relu_0(%arg0: tensor<2x4x4x16xbf16>) -> tensor<2x4x4x16xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<2x4x4x16xbf16>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x4x4x16xbf16>
    return %1 : tensor<2x4x4x16xbf16>
  }
  func.func private @relu_1(%arg0: tensor<2x4x4x64xbf16>) -> tensor<2x4x4x64xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<2x4x4x64xbf16>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x4x4x64xbf16>
    return %1 : tensor<2x4x4x64xbf16>
  }
}
