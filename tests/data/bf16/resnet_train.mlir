module @jit__step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x3x16x16xbf16> {tf.aliasing_output = 2 : i32}, %arg1: tensor<16xbf16> {tf.aliasing_output = 3 : i32}, %arg2: tensor<16xbf16> {tf.aliasing_output = 4 : i32}, %arg3: tensor<1x1x32x16xbf16> {tf.aliasing_output = 5 : i32}, %arg4: tensor<16xbf16> {tf.aliasing_output = 6 : i32}, %arg5: tensor<16xbf16> {tf.aliasing_output = 7 : i32}, %arg6: tensor<1x1x32x64xbf16> {tf.aliasing_output = 8 : i32}, %arg7: tensor<64xbf16> {tf.aliasing_output = 9 : i32}, %arg8: tensor<64xbf16> {tf.aliasing_output = 10 : i32}, %arg9: tensor<1x1x16x64xbf16> {tf.aliasing_output = 11 : i32}, %arg10: tensor<64xbf16> {tf.aliasing_output = 12 : i32}, %arg11: tensor<64xbf16> {tf.aliasing_output = 13 : i32}, %arg12: tensor<3x3x16x16xf32> {tf.aliasing_output = 14 : i32}, %arg13: tensor<16xf32> {tf.aliasing_output = 15 : i32}, %arg14: tensor<16xf32> {tf.aliasing_output = 16 : i32}, %arg15: tensor<1x1x32x16xf32> {tf.aliasing_output = 17 : i32}, %arg16: tensor<16xf32> {tf.aliasing_output = 18 : i32}, %arg17: tensor<16xf32> {tf.aliasing_output = 19 : i32}, %arg18: tensor<1x1x32x64xf32> {tf.aliasing_output = 20 : i32}, %arg19: tensor<64xf32> {tf.aliasing_output = 21 : i32}, %arg20: tensor<64xf32> {tf.aliasing_output = 22 : i32}, %arg21: tensor<1x1x16x64xf32> {tf.aliasing_output = 23 : i32}, %arg22: tensor<64xf32> {tf.aliasing_output = 24 : i32}, %arg23: tensor<64xf32> {tf.aliasing_output = 25 : i32}, %arg24: tensor<3x3x16x16xf32> {tf.aliasing_output = 26 : i32}, %arg25: tensor<16xf32> {tf.aliasing_output = 27 : i32}, %arg26: tensor<16xf32> {tf.aliasing_output = 28 : i32}, %arg27: tensor<1x1x32x16xf32> {tf.aliasing_output = 29 : i32}, %arg28: tensor<16xf32> {tf.aliasing_output = 30 : i32}, %arg29: tensor<16xf32> {tf.aliasing_output = 31 : i32}, %arg30: tensor<1x1x32x64xf32> {tf.aliasing_output = 32 : i32}, %arg31: tensor<64xf32> {tf.aliasing_output = 33 : i32}, %arg32: tensor<64xf32> {tf.aliasing_output = 34 : i32}, %arg33: tensor<1x1x16x64xf32> {tf.aliasing_output = 35 : i32}, %arg34: tensor<64xf32> {tf.aliasing_output = 36 : i32}, %arg35: tensor<64xf32> {tf.aliasing_output = 37 : i32}, %arg36: tensor<2x8x8x32xbf16>, %arg37: tensor<2x4x4x64xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x8x8x32xbf16> {jax.result_info = "result[1]"}, tensor<3x3x16x16xbf16> {jax.result_info = "result[2]['middle']"}, tensor<16xbf16> {jax.result_info = "result[2]['middle_scale']"}, tensor<16xbf16> {jax.result_info = "result[2]['middle_shift']"}, tensor<1x1x32x16xbf16> {jax.result_info = "result[2]['narrow']"}, tensor<16xbf16> {jax.result_info = "result[2]['narrow_scale']"}, tensor<16xbf16> {jax.result_info = "result[2]['narrow_shift']"}, tensor<1x1x32x64xbf16> {jax.result_info = "result[2]['shortcut']"}, tensor<64xbf16> {jax.result_info = "result[2]['shortcut_scale']"}, tensor<64xbf16> {jax.result_info = "result[2]['shortcut_shift']"}, tensor<1x1x16x64xbf16> {jax.result_info = "result[2]['wide']"}, tensor<64xbf16> {jax.result_info = "result[2]['wide_scale']"}, tensor<64xbf16> {jax.result_info = "result[2]['wide_shift']"}, tensor<3x3x16x16xf32> {jax.result_info = "result[3]['middle']"}, tensor<16xf32> {jax.result_info = "result[3]['middle_scale']"}, tensor<16xf32> {jax.result_info = "result[3]['middle_shift']"}, tensor<1x1x32x16xf32> {jax.result_info = "result[3]['narrow']"}, tensor<16xf32> {jax.result_info = "result[3]['narrow_scale']"}, tensor<16xf32> {jax.result_info = "result[3]['narrow_shift']"}, tensor<1x1x32x64xf32> {jax.result_info = "result[3]['shortcut']"}, tensor<64xf32> {jax.result_info = "result[3]['shortcut_scale']"}, tensor<64xf32> {jax.result_info = "result[3]['shortcut_shift']"}, tensor<1x1x16x64xf32> {jax.result_info = "result[3]['wide']"}, tensor<64xf32> {jax.result_info = "result[3]['wide_scale']"}, tensor<64xf32> {jax.result_info = "result[3]['wide_shift']"}, tensor<3x3x16x16xf32> {jax.result_info = "result[4]['middle']"}, tensor<16xf32> {jax.result_info = "result[4]['middle_scale']"}, tensor<16xf32> {jax.result_info = "result[4]['middle_shift']"}, tensor<1x1x32x16xf32> {jax.result_info = "result[4]['narrow']"}, tensor<16xf32> {jax.result_info = "result[4]['narrow_scale']"}, tensor<16xf32> {jax.result_info = "result[4]['narrow_shift']"}, tensor<1x1x32x64xf32> {jax.result_info = "result[4]['shortcut']"}, tensor<64xf32> {jax.result_info = "result[4]['shortcut_scale']"}, tensor<64xf32> {jax.result_info = "result[4]['shortcut_shift']"}, tensor<1x1x16x64xf32> {jax.result_info = "result[4]['wide']"}, tensor<64xf32> {jax.result_info = "result[4]['wide_scale']"}, tensor<64xf32> {jax.result_info = "result[4]['wide_shift']"}) {
    %0 = stablehlo.convolution(%arg36, %arg3) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x32xbf16>, tensor<1x1x32x16xbf16>) -> tensor<2x8x8x16xbf16>
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
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %10 = stablehlo.multiply %9, %7 : tensor<2x8x8x16xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%8 init: %cst_2) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x8x8x16xf32>, tensor<f32>) -> tensor<16xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_3 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %14 = stablehlo.divide %12, %13 : tensor<1x1x1x16xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %16 = stablehlo.add %14, %15 : tensor<1x1x1x16xf32>
    %17 = stablehlo.rsqrt %16 : tensor<1x1x1x16xf32>
    %18 = stablehlo.divide %17, %16 : tensor<1x1x1x16xf32>
    %cst_5 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %20 = stablehlo.multiply %19, %18 : tensor<1x1x1x16xf32>
    %21 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
    %22 = stablehlo.multiply %7, %21 : tensor<2x8x8x16xf32>
    %23 = stablehlo.convert %22 : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xbf16>
    %24 = stablehlo.broadcast_in_dim %arg4, dims = [3] : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xbf16>) -> tensor<2x8x8x16xbf16>
    %26 = stablehlo.multiply %23, %25 : tensor<2x8x8x16xbf16>
    %27 = stablehlo.broadcast_in_dim %arg5, dims = [3] : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xbf16>) -> tensor<2x8x8x16xbf16>
    %29 = stablehlo.add %26, %28 : tensor<2x8x8x16xbf16>
    %30 = call @relu(%29) : (tensor<2x8x8x16xbf16>) -> tensor<2x8x8x16xbf16>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %31 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<bf16>) -> tensor<2x8x8x16xbf16>
    %32 = stablehlo.compare GT, %29, %31, FLOAT : (tensor<2x8x8x16xbf16>, tensor<2x8x8x16xbf16>) -> tensor<2x8x8x16xi1>
    %33 = stablehlo.convolution(%30, %arg0) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x16xbf16>, tensor<3x3x16x16xbf16>) -> tensor<2x4x4x16xbf16>
    %34 = stablehlo.convert %33 : (tensor<2x4x4x16xbf16>) -> tensor<2x4x4x16xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %35 = stablehlo.reduce(%34 init: %cst_7) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_8 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %38 = stablehlo.divide %36, %37 : tensor<1x1x1x16xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x4x4x16xf32>
    %40 = stablehlo.subtract %34, %39 : tensor<2x4x4x16xf32>
    %41 = chlo.square %40 : tensor<2x4x4x16xf32> -> tensor<2x4x4x16xf32>
    %cst_9 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x4x4x16xf32>
    %43 = stablehlo.multiply %42, %40 : tensor<2x4x4x16xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %44 = stablehlo.reduce(%41 init: %cst_10) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_11 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %47 = stablehlo.divide %45, %46 : tensor<1x1x1x16xf32>
    %cst_12 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %49 = stablehlo.add %47, %48 : tensor<1x1x1x16xf32>
    %50 = stablehlo.rsqrt %49 : tensor<1x1x1x16xf32>
    %51 = stablehlo.divide %50, %49 : tensor<1x1x1x16xf32>
    %cst_13 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %52 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %53 = stablehlo.multiply %52, %51 : tensor<1x1x1x16xf32>
    %54 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x4x4x16xf32>
    %55 = stablehlo.multiply %40, %54 : tensor<2x4x4x16xf32>
    %56 = stablehlo.convert %55 : (tensor<2x4x4x16xf32>) -> tensor<2x4x4x16xbf16>
    %57 = stablehlo.broadcast_in_dim %arg1, dims = [3] : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xbf16>) -> tensor<2x4x4x16xbf16>
    %59 = stablehlo.multiply %56, %58 : tensor<2x4x4x16xbf16>
    %60 = stablehlo.broadcast_in_dim %arg2, dims = [3] : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xbf16>) -> tensor<2x4x4x16xbf16>
    %62 = stablehlo.add %59, %61 : tensor<2x4x4x16xbf16>
    %63 = call @relu_0(%62) : (tensor<2x4x4x16xbf16>) -> tensor<2x4x4x16xbf16>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %64 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<2x4x4x16xbf16>
    %65 = stablehlo.compare GT, %62, %64, FLOAT : (tensor<2x4x4x16xbf16>, tensor<2x4x4x16xbf16>) -> tensor<2x4x4x16xi1>
    %66 = stablehlo.convolution(%63, %arg9) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x4x4x16xbf16>, tensor<1x1x16x64xbf16>) -> tensor<2x4x4x64xbf16>
    %67 = stablehlo.convert %66 : (tensor<2x4x4x64xbf16>) -> tensor<2x4x4x64xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %68 = stablehlo.reduce(%67 init: %cst_15) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_16 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %71 = stablehlo.divide %69, %70 : tensor<1x1x1x64xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x4x4x64xf32>
    %73 = stablehlo.subtract %67, %72 : tensor<2x4x4x64xf32>
    %74 = chlo.square %73 : tensor<2x4x4x64xf32> -> tensor<2x4x4x64xf32>
    %cst_17 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x4x4x64xf32>
    %76 = stablehlo.multiply %75, %73 : tensor<2x4x4x64xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %77 = stablehlo.reduce(%74 init: %cst_18) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_19 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %80 = stablehlo.divide %78, %79 : tensor<1x1x1x64xf32>
    %cst_20 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %82 = stablehlo.add %80, %81 : tensor<1x1x1x64xf32>
    %83 = stablehlo.rsqrt %82 : tensor<1x1x1x64xf32>
    %84 = stablehlo.divide %83, %82 : tensor<1x1x1x64xf32>
    %cst_21 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %86 = stablehlo.multiply %85, %84 : tensor<1x1x1x64xf32>
    %87 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x4x4x64xf32>
    %88 = stablehlo.multiply %73, %87 : tensor<2x4x4x64xf32>
    %89 = stablehlo.convert %88 : (tensor<2x4x4x64xf32>) -> tensor<2x4x4x64xbf16>
    %90 = stablehlo.broadcast_in_dim %arg10, dims = [3] : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %91 = stablehlo.broadcast_in_dim %90, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xbf16>) -> tensor<2x4x4x64xbf16>
    %92 = stablehlo.multiply %89, %91 : tensor<2x4x4x64xbf16>
    %93 = stablehlo.broadcast_in_dim %arg11, dims = [3] : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %94 = stablehlo.broadcast_in_dim %93, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xbf16>) -> tensor<2x4x4x64xbf16>
    %95 = stablehlo.add %92, %94 : tensor<2x4x4x64xbf16>
    %96 = stablehlo.convolution(%arg36, %arg6) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x32xbf16>, tensor<1x1x32x64xbf16>) -> tensor<2x4x4x64xbf16>
    %97 = stablehlo.convert %96 : (tensor<2x4x4x64xbf16>) -> tensor<2x4x4x64xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %98 = stablehlo.reduce(%97 init: %cst_22) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %99 = stablehlo.broadcast_in_dim %98, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_23 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %101 = stablehlo.divide %99, %100 : tensor<1x1x1x64xf32>
    %102 = stablehlo.broadcast_in_dim %101, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x4x4x64xf32>
    %103 = stablehlo.subtract %97, %102 : tensor<2x4x4x64xf32>
    %104 = chlo.square %103 : tensor<2x4x4x64xf32> -> tensor<2x4x4x64xf32>
    %cst_24 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %105 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2x4x4x64xf32>
    %106 = stablehlo.multiply %105, %103 : tensor<2x4x4x64xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %107 = stablehlo.reduce(%104 init: %cst_25) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %108 = stablehlo.broadcast_in_dim %107, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_26 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %109 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %110 = stablehlo.divide %108, %109 : tensor<1x1x1x64xf32>
    %cst_27 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %111 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %112 = stablehlo.add %110, %111 : tensor<1x1x1x64xf32>
    %113 = stablehlo.rsqrt %112 : tensor<1x1x1x64xf32>
    %114 = stablehlo.divide %113, %112 : tensor<1x1x1x64xf32>
    %cst_28 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %116 = stablehlo.multiply %115, %114 : tensor<1x1x1x64xf32>
    %117 = stablehlo.broadcast_in_dim %113, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x4x4x64xf32>
    %118 = stablehlo.multiply %103, %117 : tensor<2x4x4x64xf32>
    %119 = stablehlo.convert %118 : (tensor<2x4x4x64xf32>) -> tensor<2x4x4x64xbf16>
    %120 = stablehlo.broadcast_in_dim %arg7, dims = [3] : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %121 = stablehlo.broadcast_in_dim %120, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xbf16>) -> tensor<2x4x4x64xbf16>
    %122 = stablehlo.multiply %119, %121 : tensor<2x4x4x64xbf16>
    %123 = stablehlo.broadcast_in_dim %arg8, dims = [3] : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %124 = stablehlo.broadcast_in_dim %123, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xbf16>) -> tensor<2x4x4x64xbf16>
    %125 = stablehlo.add %122, %124 : tensor<2x4x4x64xbf16>
    %126 = stablehlo.add %95, %125 : tensor<2x4x4x64xbf16>
    %127 = call @relu_1(%126) : (tensor<2x4x4x64xbf16>) -> tensor<2x4x4x64xbf16>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %128 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<bf16>) -> tensor<2x4x4x64xbf16>
    %129 = stablehlo.compare GT, %126, %128, FLOAT : (tensor<2x4x4x64xbf16>, tensor<2x4x4x64xbf16>) -> tensor<2x4x4x64xi1>
    %130 = stablehlo.subtract %127, %arg37 : tensor<2x4x4x64xbf16>
    %131 = stablehlo.convert %130 : (tensor<2x4x4x64xbf16>) -> tensor<2x4x4x64xf32>
    %132 = chlo.square %131 : tensor<2x4x4x64xf32> -> tensor<2x4x4x64xf32>
    %cst_30 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %133 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<2x4x4x64xf32>
    %134 = stablehlo.multiply %133, %131 : tensor<2x4x4x64xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %135 = stablehlo.reduce(%132 init: %cst_31) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_32 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %136 = stablehlo.divide %135, %cst_32 : tensor<f32>
    %cst_33 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_34 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %137 = stablehlo.divide %cst_33, %cst_34 : tensor<f32>
    %138 = stablehlo.broadcast_in_dim %137, dims = [] : (tensor<f32>) -> tensor<2x4x4x64xf32>
    %139 = stablehlo.multiply %138, %134 : tensor<2x4x4x64xf32>
    %140 = stablehlo.convert %139 : (tensor<2x4x4x64xf32>) -> tensor<2x4x4x64xbf16>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %141 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<bf16>) -> tensor<2x4x4x64xbf16>
    %142 = stablehlo.select %129, %140, %141 : tensor<2x4x4x64xi1>, tensor<2x4x4x64xbf16>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %143 = stablehlo.reduce(%142 init: %cst_36) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %144 = stablehlo.reshape %143 : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %145 = stablehlo.reduce(%144 init: %cst_37) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %146 = stablehlo.multiply %119, %142 : tensor<2x4x4x64xbf16>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %147 = stablehlo.reduce(%146 init: %cst_38) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %148 = stablehlo.reshape %147 : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %149 = stablehlo.broadcast_in_dim %120, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xbf16>) -> tensor<2x4x4x64xbf16>
    %150 = stablehlo.multiply %142, %149 : tensor<2x4x4x64xbf16>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %151 = stablehlo.reduce(%148 init: %cst_39) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %152 = stablehlo.convert %150 : (tensor<2x4x4x64xbf16>) -> tensor<2x4x4x64xf32>
    %153 = stablehlo.multiply %103, %152 : tensor<2x4x4x64xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %154 = stablehlo.reduce(%153 init: %cst_40) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %155 = stablehlo.reshape %154 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %156 = stablehlo.broadcast_in_dim %113, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x4x4x64xf32>
    %157 = stablehlo.multiply %152, %156 : tensor<2x4x4x64xf32>
    %158 = stablehlo.multiply %155, %116 : tensor<1x1x1x64xf32>
    %cst_41 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %159 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %160 = stablehlo.divide %158, %159 : tensor<1x1x1x64xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %161 = stablehlo.reduce(%160 init: %cst_42) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x64xf32>, tensor<f32>) -> tensor<64xf32>
    %162 = stablehlo.broadcast_in_dim %161, dims = [3] : (tensor<64xf32>) -> tensor<2x4x4x64xf32>
    %163 = stablehlo.multiply %162, %106 : tensor<2x4x4x64xf32>
    %164 = stablehlo.add %157, %163 : tensor<2x4x4x64xf32>
    %165 = stablehlo.negate %164 : tensor<2x4x4x64xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %166 = stablehlo.reduce(%165 init: %cst_43) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %167 = stablehlo.reshape %166 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_44 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %168 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %169 = stablehlo.divide %167, %168 : tensor<1x1x1x64xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %170 = stablehlo.reduce(%169 init: %cst_45) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x64xf32>, tensor<f32>) -> tensor<64xf32>
    %171 = stablehlo.broadcast_in_dim %170, dims = [3] : (tensor<64xf32>) -> tensor<2x4x4x64xf32>
    %172 = stablehlo.add %164, %171 : tensor<2x4x4x64xf32>
    %173 = stablehlo.convert %172 : (tensor<2x4x4x64xf32>) -> tensor<2x4x4x64xbf16>
    %174 = stablehlo.convolution(%arg36, %173) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {stride = [1, 1], pad = [[0, -1], [0, -1]], lhs_dilate = [1, 1], rhs_dilate = [2, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x32xbf16>, tensor<2x4x4x64xbf16>) -> tensor<1x1x32x64xbf16>
    %175 = stablehlo.reverse %arg6, dims = [0, 1] : tensor<1x1x32x64xbf16>
    %176 = stablehlo.convolution(%173, %175) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 1], [0, 1]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x4x4x64xbf16>, tensor<1x1x32x64xbf16>) -> tensor<2x8x8x32xbf16>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %177 = stablehlo.reduce(%142 init: %cst_46) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %178 = stablehlo.reshape %177 : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %179 = stablehlo.reduce(%178 init: %cst_47) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %180 = stablehlo.multiply %89, %142 : tensor<2x4x4x64xbf16>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %181 = stablehlo.reduce(%180 init: %cst_48) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %182 = stablehlo.reshape %181 : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %183 = stablehlo.broadcast_in_dim %90, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xbf16>) -> tensor<2x4x4x64xbf16>
    %184 = stablehlo.multiply %142, %183 : tensor<2x4x4x64xbf16>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %185 = stablehlo.reduce(%182 init: %cst_49) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %186 = stablehlo.convert %184 : (tensor<2x4x4x64xbf16>) -> tensor<2x4x4x64xf32>
    %187 = stablehlo.multiply %73, %186 : tensor<2x4x4x64xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %188 = stablehlo.reduce(%187 init: %cst_50) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %189 = stablehlo.reshape %188 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %190 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x4x4x64xf32>
    %191 = stablehlo.multiply %186, %190 : tensor<2x4x4x64xf32>
    %192 = stablehlo.multiply %189, %86 : tensor<1x1x1x64xf32>
    %cst_51 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %193 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %194 = stablehlo.divide %192, %193 : tensor<1x1x1x64xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %195 = stablehlo.reduce(%194 init: %cst_52) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x64xf32>, tensor<f32>) -> tensor<64xf32>
    %196 = stablehlo.broadcast_in_dim %195, dims = [3] : (tensor<64xf32>) -> tensor<2x4x4x64xf32>
    %197 = stablehlo.multiply %196, %76 : tensor<2x4x4x64xf32>
    %198 = stablehlo.add %191, %197 : tensor<2x4x4x64xf32>
    %199 = stablehlo.negate %198 : tensor<2x4x4x64xf32>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %200 = stablehlo.reduce(%199 init: %cst_53) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x64xf32>, tensor<f32>) -> tensor<64xf32>
    %201 = stablehlo.reshape %200 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %cst_54 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %202 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %203 = stablehlo.divide %201, %202 : tensor<1x1x1x64xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %204 = stablehlo.reduce(%203 init: %cst_55) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x64xf32>, tensor<f32>) -> tensor<64xf32>
    %205 = stablehlo.broadcast_in_dim %204, dims = [3] : (tensor<64xf32>) -> tensor<2x4x4x64xf32>
    %206 = stablehlo.add %198, %205 : tensor<2x4x4x64xf32>
    %207 = stablehlo.convert %206 : (tensor<2x4x4x64xf32>) -> tensor<2x4x4x64xbf16>
    %208 = stablehlo.convolution(%63, %207) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x4x4x16xbf16>, tensor<2x4x4x64xbf16>) -> tensor<1x1x16x64xbf16>
    %209 = stablehlo.reverse %arg9, dims = [0, 1] : tensor<1x1x16x64xbf16>
    %210 = stablehlo.convolution(%207, %209) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x4x4x64xbf16>, tensor<1x1x16x64xbf16>) -> tensor<2x4x4x16xbf16>
    %cst_56 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %211 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<bf16>) -> tensor<2x4x4x16xbf16>
    %212 = stablehlo.select %65, %210, %211 : tensor<2x4x4x16xi1>, tensor<2x4x4x16xbf16>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %213 = stablehlo.reduce(%212 init: %cst_57) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %214 = stablehlo.reshape %213 : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %cst_58 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %215 = stablehlo.reduce(%214 init: %cst_58) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %216 = stablehlo.multiply %56, %212 : tensor<2x4x4x16xbf16>
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %217 = stablehlo.reduce(%216 init: %cst_59) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %218 = stablehlo.reshape %217 : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %219 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xbf16>) -> tensor<2x4x4x16xbf16>
    %220 = stablehlo.multiply %212, %219 : tensor<2x4x4x16xbf16>
    %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %221 = stablehlo.reduce(%218 init: %cst_60) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %222 = stablehlo.convert %220 : (tensor<2x4x4x16xbf16>) -> tensor<2x4x4x16xf32>
    %223 = stablehlo.multiply %40, %222 : tensor<2x4x4x16xf32>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %224 = stablehlo.reduce(%223 init: %cst_61) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %225 = stablehlo.reshape %224 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %226 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x4x4x16xf32>
    %227 = stablehlo.multiply %222, %226 : tensor<2x4x4x16xf32>
    %228 = stablehlo.multiply %225, %53 : tensor<1x1x1x16xf32>
    %cst_62 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %229 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %230 = stablehlo.divide %228, %229 : tensor<1x1x1x16xf32>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %231 = stablehlo.reduce(%230 init: %cst_63) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %232 = stablehlo.broadcast_in_dim %231, dims = [3] : (tensor<16xf32>) -> tensor<2x4x4x16xf32>
    %233 = stablehlo.multiply %232, %43 : tensor<2x4x4x16xf32>
    %234 = stablehlo.add %227, %233 : tensor<2x4x4x16xf32>
    %235 = stablehlo.negate %234 : tensor<2x4x4x16xf32>
    %cst_64 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %236 = stablehlo.reduce(%235 init: %cst_64) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x4x4x16xf32>, tensor<f32>) -> tensor<16xf32>
    %237 = stablehlo.reshape %236 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_65 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %238 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %239 = stablehlo.divide %237, %238 : tensor<1x1x1x16xf32>
    %cst_66 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %240 = stablehlo.reduce(%239 init: %cst_66) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %241 = stablehlo.broadcast_in_dim %240, dims = [3] : (tensor<16xf32>) -> tensor<2x4x4x16xf32>
    %242 = stablehlo.add %234, %241 : tensor<2x4x4x16xf32>
    %243 = stablehlo.convert %242 : (tensor<2x4x4x16xf32>) -> tensor<2x4x4x16xbf16>
    %244 = stablehlo.convolution(%30, %243) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {stride = [1, 1], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [2, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x16xbf16>, tensor<2x4x4x16xbf16>) -> tensor<3x3x16x16xbf16>
    %245 = stablehlo.reverse %arg0, dims = [0, 1] : tensor<3x3x16x16xbf16>
    %246 = stablehlo.convolution(%243, %245) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[2, 1], [2, 1]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x4x4x16xbf16>, tensor<3x3x16x16xbf16>) -> tensor<2x8x8x16xbf16>
    %cst_67 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %247 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<bf16>) -> tensor<2x8x8x16xbf16>
    %248 = stablehlo.select %32, %246, %247 : tensor<2x8x8x16xi1>, tensor<2x8x8x16xbf16>
    %cst_68 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %249 = stablehlo.reduce(%248 init: %cst_68) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x8x8x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %250 = stablehlo.reshape %249 : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %251 = stablehlo.reduce(%250 init: %cst_69) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %252 = stablehlo.multiply %23, %248 : tensor<2x8x8x16xbf16>
    %cst_70 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %253 = stablehlo.reduce(%252 init: %cst_70) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x8x8x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %254 = stablehlo.reshape %253 : (tensor<16xbf16>) -> tensor<1x1x1x16xbf16>
    %255 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xbf16>) -> tensor<2x8x8x16xbf16>
    %256 = stablehlo.multiply %248, %255 : tensor<2x8x8x16xbf16>
    %cst_71 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %257 = stablehlo.reduce(%254 init: %cst_71) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %258 = stablehlo.convert %256 : (tensor<2x8x8x16xbf16>) -> tensor<2x8x8x16xf32>
    %259 = stablehlo.multiply %7, %258 : tensor<2x8x8x16xf32>
    %cst_72 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %260 = stablehlo.reduce(%259 init: %cst_72) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x8x8x16xf32>, tensor<f32>) -> tensor<16xf32>
    %261 = stablehlo.reshape %260 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %262 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
    %263 = stablehlo.multiply %258, %262 : tensor<2x8x8x16xf32>
    %264 = stablehlo.multiply %261, %20 : tensor<1x1x1x16xf32>
    %cst_73 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %265 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %266 = stablehlo.divide %264, %265 : tensor<1x1x1x16xf32>
    %cst_74 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %267 = stablehlo.reduce(%266 init: %cst_74) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %268 = stablehlo.broadcast_in_dim %267, dims = [3] : (tensor<16xf32>) -> tensor<2x8x8x16xf32>
    %269 = stablehlo.multiply %268, %10 : tensor<2x8x8x16xf32>
    %270 = stablehlo.add %263, %269 : tensor<2x8x8x16xf32>
    %271 = stablehlo.negate %270 : tensor<2x8x8x16xf32>
    %cst_75 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %272 = stablehlo.reduce(%271 init: %cst_75) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x8x8x16xf32>, tensor<f32>) -> tensor<16xf32>
    %273 = stablehlo.reshape %272 : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %cst_76 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %274 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<1x1x1x16xf32>
    %275 = stablehlo.divide %273, %274 : tensor<1x1x1x16xf32>
    %cst_77 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %276 = stablehlo.reduce(%275 init: %cst_77) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x1x1x16xf32>, tensor<f32>) -> tensor<16xf32>
    %277 = stablehlo.broadcast_in_dim %276, dims = [3] : (tensor<16xf32>) -> tensor<2x8x8x16xf32>
    %278 = stablehlo.add %270, %277 : tensor<2x8x8x16xf32>
    %279 = stablehlo.convert %278 : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xbf16>
    %280 = stablehlo.convolution(%arg36, %279) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x32xbf16>, tensor<2x8x8x16xbf16>) -> tensor<1x1x32x16xbf16>
    %281 = stablehlo.reverse %arg3, dims = [0, 1] : tensor<1x1x32x16xbf16>
    %282 = stablehlo.convolution(%279, %281) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x16xbf16>, tensor<1x1x32x16xbf16>) -> tensor<2x8x8x32xbf16>
    %283 = stablehlo.add %176, %282 : tensor<2x8x8x32xbf16>
    %284 = stablehlo.convert %244 : (tensor<3x3x16x16xbf16>) -> tensor<3x3x16x16xf32>
    %285 = stablehlo.convert %221 : (tensor<16xbf16>) -> tensor<16xf32>
    %286 = stablehlo.convert %215 : (tensor<16xbf16>) -> tensor<16xf32>
    %287 = stablehlo.convert %280 : (tensor<1x1x32x16xbf16>) -> tensor<1x1x32x16xf32>
    %288 = stablehlo.convert %257 : (tensor<16xbf16>) -> tensor<16xf32>
    %289 = stablehlo.convert %251 : (tensor<16xbf16>) -> tensor<16xf32>
    %290 = stablehlo.convert %174 : (tensor<1x1x32x64xbf16>) -> tensor<1x1x32x64xf32>
    %291 = stablehlo.convert %151 : (tensor<64xbf16>) -> tensor<64xf32>
    %292 = stablehlo.convert %145 : (tensor<64xbf16>) -> tensor<64xf32>
    %293 = stablehlo.convert %208 : (tensor<1x1x16x64xbf16>) -> tensor<1x1x16x64xf32>
    %294 = stablehlo.convert %185 : (tensor<64xbf16>) -> tensor<64xf32>
    %295 = stablehlo.convert %179 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_78 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %296 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<3x3x16x16xf32>
    %297 = stablehlo.multiply %296, %arg12 : tensor<3x3x16x16xf32>
    %cst_79 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %298 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<3x3x16x16xf32>
    %299 = stablehlo.multiply %298, %284 : tensor<3x3x16x16xf32>
    %300 = stablehlo.add %297, %299 : tensor<3x3x16x16xf32>
    %cst_80 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %301 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %302 = stablehlo.multiply %301, %arg13 : tensor<16xf32>
    %cst_81 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %303 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %304 = stablehlo.multiply %303, %285 : tensor<16xf32>
    %305 = stablehlo.add %302, %304 : tensor<16xf32>
    %cst_82 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %306 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %307 = stablehlo.multiply %306, %arg14 : tensor<16xf32>
    %cst_83 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %308 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %309 = stablehlo.multiply %308, %286 : tensor<16xf32>
    %310 = stablehlo.add %307, %309 : tensor<16xf32>
    %cst_84 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %311 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<1x1x32x16xf32>
    %312 = stablehlo.multiply %311, %arg15 : tensor<1x1x32x16xf32>
    %cst_85 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %313 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<1x1x32x16xf32>
    %314 = stablehlo.multiply %313, %287 : tensor<1x1x32x16xf32>
    %315 = stablehlo.add %312, %314 : tensor<1x1x32x16xf32>
    %cst_86 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %316 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %317 = stablehlo.multiply %316, %arg16 : tensor<16xf32>
    %cst_87 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %318 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %319 = stablehlo.multiply %318, %288 : tensor<16xf32>
    %320 = stablehlo.add %317, %319 : tensor<16xf32>
    %cst_88 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %321 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %322 = stablehlo.multiply %321, %arg17 : tensor<16xf32>
    %cst_89 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %323 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %324 = stablehlo.multiply %323, %289 : tensor<16xf32>
    %325 = stablehlo.add %322, %324 : tensor<16xf32>
    %cst_90 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %326 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<1x1x32x64xf32>
    %327 = stablehlo.multiply %326, %arg18 : tensor<1x1x32x64xf32>
    %cst_91 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %328 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<1x1x32x64xf32>
    %329 = stablehlo.multiply %328, %290 : tensor<1x1x32x64xf32>
    %330 = stablehlo.add %327, %329 : tensor<1x1x32x64xf32>
    %cst_92 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %331 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %332 = stablehlo.multiply %331, %arg19 : tensor<64xf32>
    %cst_93 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %333 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %334 = stablehlo.multiply %333, %291 : tensor<64xf32>
    %335 = stablehlo.add %332, %334 : tensor<64xf32>
    %cst_94 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %336 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %337 = stablehlo.multiply %336, %arg20 : tensor<64xf32>
    %cst_95 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %338 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %339 = stablehlo.multiply %338, %292 : tensor<64xf32>
    %340 = stablehlo.add %337, %339 : tensor<64xf32>
    %cst_96 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %341 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<1x1x16x64xf32>
    %342 = stablehlo.multiply %341, %arg21 : tensor<1x1x16x64xf32>
    %cst_97 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %343 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<1x1x16x64xf32>
    %344 = stablehlo.multiply %343, %293 : tensor<1x1x16x64xf32>
    %345 = stablehlo.add %342, %344 : tensor<1x1x16x64xf32>
    %cst_98 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %346 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %347 = stablehlo.multiply %346, %arg22 : tensor<64xf32>
    %cst_99 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %348 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %349 = stablehlo.multiply %348, %294 : tensor<64xf32>
    %350 = stablehlo.add %347, %349 : tensor<64xf32>
    %cst_100 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %351 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %352 = stablehlo.multiply %351, %arg23 : tensor<64xf32>
    %cst_101 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %353 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %354 = stablehlo.multiply %353, %295 : tensor<64xf32>
    %355 = stablehlo.add %352, %354 : tensor<64xf32>
    %cst_102 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %356 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<3x3x16x16xf32>
    %357 = stablehlo.multiply %356, %arg24 : tensor<3x3x16x16xf32>
    %cst_103 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %358 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<3x3x16x16xf32>
    %359 = stablehlo.multiply %358, %284 : tensor<3x3x16x16xf32>
    %360 = stablehlo.multiply %359, %284 : tensor<3x3x16x16xf32>
    %361 = stablehlo.add %357, %360 : tensor<3x3x16x16xf32>
    %cst_104 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %362 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %363 = stablehlo.multiply %362, %arg25 : tensor<16xf32>
    %cst_105 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %364 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %365 = stablehlo.multiply %364, %285 : tensor<16xf32>
    %366 = stablehlo.multiply %365, %285 : tensor<16xf32>
    %367 = stablehlo.add %363, %366 : tensor<16xf32>
    %cst_106 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %368 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %369 = stablehlo.multiply %368, %arg26 : tensor<16xf32>
    %cst_107 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %370 = stablehlo.broadcast_in_dim %cst_107, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %371 = stablehlo.multiply %370, %286 : tensor<16xf32>
    %372 = stablehlo.multiply %371, %286 : tensor<16xf32>
    %373 = stablehlo.add %369, %372 : tensor<16xf32>
    %cst_108 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %374 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<1x1x32x16xf32>
    %375 = stablehlo.multiply %374, %arg27 : tensor<1x1x32x16xf32>
    %cst_109 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %376 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<1x1x32x16xf32>
    %377 = stablehlo.multiply %376, %287 : tensor<1x1x32x16xf32>
    %378 = stablehlo.multiply %377, %287 : tensor<1x1x32x16xf32>
    %379 = stablehlo.add %375, %378 : tensor<1x1x32x16xf32>
    %cst_110 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %380 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %381 = stablehlo.multiply %380, %arg28 : tensor<16xf32>
    %cst_111 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %382 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %383 = stablehlo.multiply %382, %288 : tensor<16xf32>
    %384 = stablehlo.multiply %383, %288 : tensor<16xf32>
    %385 = stablehlo.add %381, %384 : tensor<16xf32>
    %cst_112 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %386 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %387 = stablehlo.multiply %386, %arg29 : tensor<16xf32>
    %cst_113 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %388 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %389 = stablehlo.multiply %388, %289 : tensor<16xf32>
    %390 = stablehlo.multiply %389, %289 : tensor<16xf32>
    %391 = stablehlo.add %387, %390 : tensor<16xf32>
    %cst_114 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %392 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<1x1x32x64xf32>
    %393 = stablehlo.multiply %392, %arg30 : tensor<1x1x32x64xf32>
    %cst_115 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %394 = stablehlo.broadcast_in_dim %cst_115, dims = [] : (tensor<f32>) -> tensor<1x1x32x64xf32>
    %395 = stablehlo.multiply %394, %290 : tensor<1x1x32x64xf32>
    %396 = stablehlo.multiply %395, %290 : tensor<1x1x32x64xf32>
    %397 = stablehlo.add %393, %396 : tensor<1x1x32x64xf32>
    %cst_116 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %398 = stablehlo.broadcast_in_dim %cst_116, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %399 = stablehlo.multiply %398, %arg31 : tensor<64xf32>
    %cst_117 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %400 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %401 = stablehlo.multiply %400, %291 : tensor<64xf32>
    %402 = stablehlo.multiply %401, %291 : tensor<64xf32>
    %403 = stablehlo.add %399, %402 : tensor<64xf32>
    %cst_118 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %404 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %405 = stablehlo.multiply %404, %arg32 : tensor<64xf32>
    %cst_119 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %406 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %407 = stablehlo.multiply %406, %292 : tensor<64xf32>
    %408 = stablehlo.multiply %407, %292 : tensor<64xf32>
    %409 = stablehlo.add %405, %408 : tensor<64xf32>
    %cst_120 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %410 = stablehlo.broadcast_in_dim %cst_120, dims = [] : (tensor<f32>) -> tensor<1x1x16x64xf32>
    %411 = stablehlo.multiply %410, %arg33 : tensor<1x1x16x64xf32>
    %cst_121 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %412 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<1x1x16x64xf32>
    %413 = stablehlo.multiply %412, %293 : tensor<1x1x16x64xf32>
    %414 = stablehlo.multiply %413, %293 : tensor<1x1x16x64xf32>
    %415 = stablehlo.add %411, %414 : tensor<1x1x16x64xf32>
    %cst_122 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %416 = stablehlo.broadcast_in_dim %cst_122, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %417 = stablehlo.multiply %416, %arg34 : tensor<64xf32>
    %cst_123 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %418 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %419 = stablehlo.multiply %418, %294 : tensor<64xf32>
    %420 = stablehlo.multiply %419, %294 : tensor<64xf32>
    %421 = stablehlo.add %417, %420 : tensor<64xf32>
    %cst_124 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %422 = stablehlo.broadcast_in_dim %cst_124, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %423 = stablehlo.multiply %422, %arg35 : tensor<64xf32>
    %cst_125 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %424 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %425 = stablehlo.multiply %424, %295 : tensor<64xf32>
    %426 = stablehlo.multiply %425, %295 : tensor<64xf32>
    %427 = stablehlo.add %423, %426 : tensor<64xf32>
    %428 = stablehlo.sqrt %361 : tensor<3x3x16x16xf32>
    %cst_126 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %429 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<3x3x16x16xf32>
    %430 = stablehlo.add %428, %429 : tensor<3x3x16x16xf32>
    %431 = stablehlo.divide %300, %430 : tensor<3x3x16x16xf32>
    %432 = stablehlo.convert %arg0 : (tensor<3x3x16x16xbf16>) -> tensor<3x3x16x16xf32>
    %cst_127 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %433 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<3x3x16x16xf32>
    %434 = stablehlo.multiply %433, %432 : tensor<3x3x16x16xf32>
    %435 = stablehlo.add %431, %434 : tensor<3x3x16x16xf32>
    %cst_128 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %436 = stablehlo.broadcast_in_dim %cst_128, dims = [] : (tensor<f32>) -> tensor<3x3x16x16xf32>
    %437 = stablehlo.multiply %436, %435 : tensor<3x3x16x16xf32>
    %438 = stablehlo.convert %arg0 : (tensor<3x3x16x16xbf16>) -> tensor<3x3x16x16xf32>
    %439 = stablehlo.subtract %438, %437 : tensor<3x3x16x16xf32>
    %440 = stablehlo.convert %439 : (tensor<3x3x16x16xf32>) -> tensor<3x3x16x16xbf16>
    %441 = stablehlo.sqrt %367 : tensor<16xf32>
    %cst_129 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %442 = stablehlo.broadcast_in_dim %cst_129, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %443 = stablehlo.add %441, %442 : tensor<16xf32>
    %444 = stablehlo.divide %305, %443 : tensor<16xf32>
    %445 = stablehlo.convert %arg1 : (tensor<16xbf16>) -> tensor<16xf32>
    %cst_130 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %446 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %447 = stablehlo.multiply %446, %445 : tensor<16xf32>
    %448 = stablehlo.add %444, %447 : tensor<16xf32>
    %cst_131 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %449 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %450 = stablehlo.multiply %449, %448 : tensor<16xf32>
    %451 = stablehlo.convert %arg1 : (tensor<16xbf16>) -> tensor<16xf32>
    %452 = stablehlo.subtract %451, %450 : tensor<16xf32>
    %453 = stablehlo.convert %452 : (tensor<16xf32>) -> tensor<16xbf16>
    %454 = stablehlo.sqrt %373 : tensor<16xf32>
    %cst_132 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %455 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %456 = stablehlo.add %454, %455 : tensor<16xf32>
    %457 = stablehlo.divide %310, %456 : tensor<16xf32>
    %458 = stablehlo.convert %arg2 : (tensor<16xbf16>) -> tensor<16xf32>
    %cst_133 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %459 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %460 = stablehlo.multiply %459, %458 : tensor<16xf32>
    %461 = stablehlo.add %457, %460 : tensor<16xf32>
    %cst_134 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %462 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %463 = stablehlo.multiply %462, %461 : tensor<16xf32>
    %464 = stablehlo.convert %arg2 : (tensor<16xbf16>) -> tensor<16xf32>
    %465 = stablehlo.subtract %464, %463 : tensor<16xf32>
    %466 = stablehlo.convert %465 : (tensor<16xf32>) -> tensor<16xbf16>
    %467 = stablehlo.sqrt %379 : tensor<1x1x32x16xf32>
    %cst_135 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %468 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<1x1x32x16xf32>
    %469 = stablehlo.add %467, %468 : tensor<1x1x32x16xf32>
    %470 = stablehlo.divide %315, %469 : tensor<1x1x32x16xf32>
    %471 = stablehlo.convert %arg3 : (tensor<1x1x32x16xbf16>) -> tensor<1x1x32x16xf32>
    %cst_136 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %472 = stablehlo.broadcast_in_dim %cst_136, dims = [] : (tensor<f32>) -> tensor<1x1x32x16xf32>
    %473 = stablehlo.multiply %472, %471 : tensor<1x1x32x16xf32>
    %474 = stablehlo.add %470, %473 : tensor<1x1x32x16xf32>
    %cst_137 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %475 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<1x1x32x16xf32>
    %476 = stablehlo.multiply %475, %474 : tensor<1x1x32x16xf32>
    %477 = stablehlo.convert %arg3 : (tensor<1x1x32x16xbf16>) -> tensor<1x1x32x16xf32>
    %478 = stablehlo.subtract %477, %476 : tensor<1x1x32x16xf32>
    %479 = stablehlo.convert %478 : (tensor<1x1x32x16xf32>) -> tensor<1x1x32x16xbf16>
    %480 = stablehlo.sqrt %385 : tensor<16xf32>
    %cst_138 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %481 = stablehlo.broadcast_in_dim %cst_138, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %482 = stablehlo.add %480, %481 : tensor<16xf32>
    %483 = stablehlo.divide %320, %482 : tensor<16xf32>
    %484 = stablehlo.convert %arg4 : (tensor<16xbf16>) -> tensor<16xf32>
    %cst_139 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %485 = stablehlo.broadcast_in_dim %cst_139, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %486 = stablehlo.multiply %485, %484 : tensor<16xf32>
    %487 = stablehlo.add %483, %486 : tensor<16xf32>
    %cst_140 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %488 = stablehlo.broadcast_in_dim %cst_140, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %489 = stablehlo.multiply %488, %487 : tensor<16xf32>
    %490 = stablehlo.convert %arg4 : (tensor<16xbf16>) -> tensor<16xf32>
    %491 = stablehlo.subtract %490, %489 : tensor<16xf32>
    %492 = stablehlo.convert %491 : (tensor<16xf32>) -> tensor<16xbf16>
    %493 = stablehlo.sqrt %391 : tensor<16xf32>
    %cst_141 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %494 = stablehlo.broadcast_in_dim %cst_141, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %495 = stablehlo.add %493, %494 : tensor<16xf32>
    %496 = stablehlo.divide %325, %495 : tensor<16xf32>
    %497 = stablehlo.convert %arg5 : (tensor<16xbf16>) -> tensor<16xf32>
    %cst_142 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %498 = stablehlo.broadcast_in_dim %cst_142, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %499 = stablehlo.multiply %498, %497 : tensor<16xf32>
    %500 = stablehlo.add %496, %499 : tensor<16xf32>
    %cst_143 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %501 = stablehlo.broadcast_in_dim %cst_143, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %502 = stablehlo.multiply %501, %500 : tensor<16xf32>
    %503 = stablehlo.convert %arg5 : (tensor<16xbf16>) -> tensor<16xf32>
    %504 = stablehlo.subtract %503, %502 : tensor<16xf32>
    %505 = stablehlo.convert %504 : (tensor<16xf32>) -> tensor<16xbf16>
    %506 = stablehlo.sqrt %397 : tensor<1x1x32x64xf32>
    %cst_144 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %507 = stablehlo.broadcast_in_dim %cst_144, dims = [] : (tensor<f32>) -> tensor<1x1x32x64xf32>
    %508 = stablehlo.add %506, %507 : tensor<1x1x32x64xf32>
    %509 = stablehlo.divide %330, %508 : tensor<1x1x32x64xf32>
    %510 = stablehlo.convert %arg6 : (tensor<1x1x32x64xbf16>) -> tensor<1x1x32x64xf32>
    %cst_145 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %511 = stablehlo.broadcast_in_dim %cst_145, dims = [] : (tensor<f32>) -> tensor<1x1x32x64xf32>
    %512 = stablehlo.multiply %511, %510 : tensor<1x1x32x64xf32>
    %513 = stablehlo.add %509, %512 : tensor<1x1x32x64xf32>
    %cst_146 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %514 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<1x1x32x64xf32>
    %515 = stablehlo.multiply %514, %513 : tensor<1x1x32x64xf32>
    %516 = stablehlo.convert %arg6 : (tensor<1x1x32x64xbf16>) -> tensor<1x1x32x64xf32>
    %517 = stablehlo.subtract %516, %515 : tensor<1x1x32x64xf32>
    %518 = stablehlo.convert %517 : (tensor<1x1x32x64xf32>) -> tensor<1x1x32x64xbf16>
    %519 = stablehlo.sqrt %403 : tensor<64xf32>
    %cst_147 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %520 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %521 = stablehlo.add %519, %520 : tensor<64xf32>
    %522 = stablehlo.divide %335, %521 : tensor<64xf32>
    %523 = stablehlo.convert %arg7 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_148 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %524 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %525 = stablehlo.multiply %524, %523 : tensor<64xf32>
    %526 = stablehlo.add %522, %525 : tensor<64xf32>
    %cst_149 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %527 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %528 = stablehlo.multiply %527, %526 : tensor<64xf32>
    %529 = stablehlo.convert %arg7 : (tensor<64xbf16>) -> tensor<64xf32>
    %530 = stablehlo.subtract %529, %528 : tensor<64xf32>
    %531 = stablehlo.convert %530 : (tensor<64xf32>) -> tensor<64xbf16>
    %532 = stablehlo.sqrt %409 : tensor<64xf32>
    %cst_150 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %533 = stablehlo.broadcast_in_dim %cst_150, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %534 = stablehlo.add %532, %533 : tensor<64xf32>
    %535 = stablehlo.divide %340, %534 : tensor<64xf32>
    %536 = stablehlo.convert %arg8 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_151 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %537 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %538 = stablehlo.multiply %537, %536 : tensor<64xf32>
    %539 = stablehlo.add %535, %538 : tensor<64xf32>
    %cst_152 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %540 = stablehlo.broadcast_in_dim %cst_152, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %541 = stablehlo.multiply %540, %539 : tensor<64xf32>
    %542 = stablehlo.convert %arg8 : (tensor<64xbf16>) -> tensor<64xf32>
    %543 = stablehlo.subtract %542, %541 : tensor<64xf32>
    %544 = stablehlo.convert %543 : (tensor<64xf32>) -> tensor<64xbf16>
    %545 = stablehlo.sqrt %415 : tensor<1x1x16x64xf32>
    %cst_153 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %546 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<1x1x16x64xf32>
    %547 = stablehlo.add %545, %546 : tensor<1x1x16x64xf32>
    %548 = stablehlo.divide %345, %547 : tensor<1x1x16x64xf32>
    %549 = stablehlo.convert %arg9 : (tensor<1x1x16x64xbf16>) -> tensor<1x1x16x64xf32>
    %cst_154 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %550 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<1x1x16x64xf32>
    %551 = stablehlo.multiply %550, %549 : tensor<1x1x16x64xf32>
    %552 = stablehlo.add %548, %551 : tensor<1x1x16x64xf32>
    %cst_155 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %553 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<1x1x16x64xf32>
    %554 = stablehlo.multiply %553, %552 : tensor<1x1x16x64xf32>
    %555 = stablehlo.convert %arg9 : (tensor<1x1x16x64xbf16>) -> tensor<1x1x16x64xf32>
    %556 = stablehlo.subtract %555, %554 : tensor<1x1x16x64xf32>
    %557 = stablehlo.convert %556 : (tensor<1x1x16x64xf32>) -> tensor<1x1x16x64xbf16>
    %558 = stablehlo.sqrt %421 : tensor<64xf32>
    %cst_156 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %559 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %560 = stablehlo.add %558, %559 : tensor<64xf32>
    %561 = stablehlo.divide %350, %560 : tensor<64xf32>
    %562 = stablehlo.convert %arg10 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_157 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %563 = stablehlo.broadcast_in_dim %cst_157, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %564 = stablehlo.multiply %563, %562 : tensor<64xf32>
    %565 = stablehlo.add %561, %564 : tensor<64xf32>
    %cst_158 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %566 = stablehlo.broadcast_in_dim %cst_158, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %567 = stablehlo.multiply %566, %565 : tensor<64xf32>
    %568 = stablehlo.convert %arg10 : (tensor<64xbf16>) -> tensor<64xf32>
    %569 = stablehlo.subtract %568, %567 : tensor<64xf32>
    %570 = stablehlo.convert %569 : (tensor<64xf32>) -> tensor<64xbf16>
    %571 = stablehlo.sqrt %427 : tensor<64xf32>
    %cst_159 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %572 = stablehlo.broadcast_in_dim %cst_159, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %573 = stablehlo.add %571, %572 : tensor<64xf32>
    %574 = stablehlo.divide %355, %573 : tensor<64xf32>
    %575 = stablehlo.convert %arg11 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_160 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %576 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %577 = stablehlo.multiply %576, %575 : tensor<64xf32>
    %578 = stablehlo.add %574, %577 : tensor<64xf32>
    %cst_161 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %579 = stablehlo.broadcast_in_dim %cst_161, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %580 = stablehlo.multiply %579, %578 : tensor<64xf32>
    %581 = stablehlo.convert %arg11 : (tensor<64xbf16>) -> tensor<64xf32>
    %582 = stablehlo.subtract %581, %580 : tensor<64xf32>
    %583 = stablehlo.convert %582 : (tensor<64xf32>) -> tensor<64xbf16>
    return %136, %283, %440, %453, %466, %479, %492, %505, %518, %531, %544, %557, %570, %583, %300, %305, %310, %315, %320, %325, %330, %335, %340, %345, %350, %355, %361, %367, %373, %379, %385, %391, %397, %403, %409, %415, %421, %427 : tensor<f32>, tensor<2x8x8x32xbf16>, tensor<3x3x16x16xbf16>, tensor<16xbf16>, tensor<16xbf16>, tensor<1x1x32x16xbf16>, tensor<16xbf16>, tensor<16xbf16>, tensor<1x1x32x64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<1x1x16x64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<3x3x16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<1x1x32x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<1x1x32x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<1x1x16x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<3x3x16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<1x1x32x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<1x1x32x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<1x1x16x64xf32>, tensor<64xf32>, tensor<64xf32>
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
