module @jit__step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<256x64xbf16> {tf.aliasing_output = 2 : i32}, %arg1: tensor<64xbf16> {tf.aliasing_output = 3 : i32}, %arg2: tensor<64x10xbf16> {tf.aliasing_output = 4 : i32}, %arg3: tensor<4x16x64xbf16> {tf.aliasing_output = 5 : i32}, %arg4: tensor<64xbf16> {tf.aliasing_output = 6 : i32}, %arg5: tensor<4x4x3x64xbf16> {tf.aliasing_output = 7 : i32}, %arg6: tensor<25x64xbf16> {tf.aliasing_output = 8 : i32}, %arg7: tensor<64x3x4x16xbf16> {tf.aliasing_output = 9 : i32}, %arg8: tensor<3x4x16xbf16> {tf.aliasing_output = 10 : i32}, %arg9: tensor<64xbf16> {tf.aliasing_output = 11 : i32}, %arg10: tensor<64xbf16> {tf.aliasing_output = 12 : i32}, %arg11: tensor<64xbf16> {tf.aliasing_output = 13 : i32}, %arg12: tensor<64xbf16> {tf.aliasing_output = 14 : i32}, %arg13: tensor<64x256xbf16> {tf.aliasing_output = 15 : i32}, %arg14: tensor<256xbf16> {tf.aliasing_output = 16 : i32}, %arg15: tensor<256x64xf32> {tf.aliasing_output = 17 : i32}, %arg16: tensor<64xf32> {tf.aliasing_output = 18 : i32}, %arg17: tensor<64x10xf32> {tf.aliasing_output = 19 : i32}, %arg18: tensor<4x16x64xf32> {tf.aliasing_output = 20 : i32}, %arg19: tensor<64xf32> {tf.aliasing_output = 21 : i32}, %arg20: tensor<4x4x3x64xf32> {tf.aliasing_output = 22 : i32}, %arg21: tensor<25x64xf32> {tf.aliasing_output = 23 : i32}, %arg22: tensor<64x3x4x16xf32> {tf.aliasing_output = 24 : i32}, %arg23: tensor<3x4x16xf32> {tf.aliasing_output = 25 : i32}, %arg24: tensor<64xf32> {tf.aliasing_output = 26 : i32}, %arg25: tensor<64xf32> {tf.aliasing_output = 27 : i32}, %arg26: tensor<64xf32> {tf.aliasing_output = 28 : i32}, %arg27: tensor<64xf32> {tf.aliasing_output = 29 : i32}, %arg28: tensor<64x256xf32> {tf.aliasing_output = 30 : i32}, %arg29: tensor<256xf32> {tf.aliasing_output = 31 : i32}, %arg30: tensor<256x64xf32> {tf.aliasing_output = 32 : i32}, %arg31: tensor<64xf32> {tf.aliasing_output = 33 : i32}, %arg32: tensor<64x10xf32> {tf.aliasing_output = 34 : i32}, %arg33: tensor<4x16x64xf32> {tf.aliasing_output = 35 : i32}, %arg34: tensor<64xf32> {tf.aliasing_output = 36 : i32}, %arg35: tensor<4x4x3x64xf32> {tf.aliasing_output = 37 : i32}, %arg36: tensor<25x64xf32> {tf.aliasing_output = 38 : i32}, %arg37: tensor<64x3x4x16xf32> {tf.aliasing_output = 39 : i32}, %arg38: tensor<3x4x16xf32> {tf.aliasing_output = 40 : i32}, %arg39: tensor<64xf32> {tf.aliasing_output = 41 : i32}, %arg40: tensor<64xf32> {tf.aliasing_output = 42 : i32}, %arg41: tensor<64xf32> {tf.aliasing_output = 43 : i32}, %arg42: tensor<64xf32> {tf.aliasing_output = 44 : i32}, %arg43: tensor<64x256xf32> {tf.aliasing_output = 45 : i32}, %arg44: tensor<256xf32> {tf.aliasing_output = 46 : i32}, %arg45: tensor<2x20x20x3xbf16>, %arg46: tensor<2x10xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x20x20x3xbf16> {jax.result_info = "result[1]"}, tensor<256x64xbf16> {jax.result_info = "result[2]['down']"}, tensor<64xbf16> {jax.result_info = "result[2]['down_bias']"}, tensor<64x10xbf16> {jax.result_info = "result[2]['head']"}, tensor<4x16x64xbf16> {jax.result_info = "result[2]['o']"}, tensor<64xbf16> {jax.result_info = "result[2]['o_bias']"}, tensor<4x4x3x64xbf16> {jax.result_info = "result[2]['patch']"}, tensor<25x64xbf16> {jax.result_info = "result[2]['places']"}, tensor<64x3x4x16xbf16> {jax.result_info = "result[2]['qkv']"}, tensor<3x4x16xbf16> {jax.result_info = "result[2]['qkv_bias']"}, tensor<64xbf16> {jax.result_info = "result[2]['scale1']"}, tensor<64xbf16> {jax.result_info = "result[2]['scale2']"}, tensor<64xbf16> {jax.result_info = "result[2]['shift1']"}, tensor<64xbf16> {jax.result_info = "result[2]['shift2']"}, tensor<64x256xbf16> {jax.result_info = "result[2]['up']"}, tensor<256xbf16> {jax.result_info = "result[2]['up_bias']"}, tensor<256x64xf32> {jax.result_info = "result[3]['down']"}, tensor<64xf32> {jax.result_info = "result[3]['down_bias']"}, tensor<64x10xf32> {jax.result_info = "result[3]['head']"}, tensor<4x16x64xf32> {jax.result_info = "result[3]['o']"}, tensor<64xf32> {jax.result_info = "result[3]['o_bias']"}, tensor<4x4x3x64xf32> {jax.result_info = "result[3]['patch']"}, tensor<25x64xf32> {jax.result_info = "result[3]['places']"}, tensor<64x3x4x16xf32> {jax.result_info = "result[3]['qkv']"}, tensor<3x4x16xf32> {jax.result_info = "result[3]['qkv_bias']"}, tensor<64xf32> {jax.result_info = "result[3]['scale1']"}, tensor<64xf32> {jax.result_info = "result[3]['scale2']"}, tensor<64xf32> {jax.result_info = "result[3]['shift1']"}, tensor<64xf32> {jax.result_info = "result[3]['shift2']"}, tensor<64x256xf32> {jax.result_info = "result[3]['up']"}, tensor<256xf32> {jax.result_info = "result[3]['up_bias']"}, tensor<256x64xf32> {jax.result_info = "result[4]['down']"}, tensor<64xf32> {jax.result_info = "result[4]['down_bias']"}, tensor<64x10xf32> {jax.result_info = "result[4]['head']"}, tensor<4x16x64xf32> {jax.result_info = "result[4]['o']"}, tensor<64xf32> {jax.result_info = "result[4]['o_bias']"}, tensor<4x4x3x64xf32> {jax.result_info = "result[4]['patch']"}, tensor<25x64xf32> {jax.result_info = "result[4]['places']"}, tensor<64x3x4x16xf32> {jax.result_info = "result[4]['qkv']"}, tensor<3x4x16xf32> {jax.result_info = "result[4]['qkv_bias']"}, tensor<64xf32> {jax.result_info = "result[4]['scale1']"}, tensor<64xf32> {jax.result_info = "result[4]['scale2']"}, tensor<64xf32> {jax.result_info = "result[4]['shift1']"}, tensor<64xf32> {jax.result_info = "result[4]['shift2']"}, tensor<64x256xf32> {jax.result_info = "result[4]['up']"}, tensor<256xf32> {jax.result_info = "result[4]['up_bias']"}) {
    %0 = stablehlo.convolution(%arg45, %arg5) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [4, 4], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x20x20x3xbf16>, tensor<4x4x3x64xbf16>) -> tensor<2x5x5x64xbf16>
    %1 = stablehlo.reshape %0 : (tensor<2x5x5x64xbf16>) -> tensor<2x25x64xbf16>
    %2 = stablehlo.broadcast_in_dim %arg6, dims = [1, 2] : (tensor<25x64xbf16>) -> tensor<1x25x64xbf16>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x25x64xbf16>) -> tensor<2x25x64xbf16>
    %4 = stablehlo.add %1, %3 : tensor<2x25x64xbf16>
    %5 = stablehlo.convert %4 : (tensor<2x25x64xbf16>) -> tensor<2x25x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%5 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x25xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<2x25xf32>) -> tensor<2x25x1xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %9 = stablehlo.divide %7, %8 : tensor<2x25x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x25x1xf32>) -> tensor<2x25x64xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<2x25x64xf32>
    %12 = chlo.square %11 : tensor<2x25x64xf32> -> tensor<2x25x64xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x25x64xf32>
    %14 = stablehlo.multiply %13, %11 : tensor<2x25x64xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%12 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x25xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<2x25xf32>) -> tensor<2x25x1xf32>
    %cst_3 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %18 = stablehlo.divide %16, %17 : tensor<2x25x1xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %20 = stablehlo.add %18, %19 : tensor<2x25x1xf32>
    %21 = stablehlo.rsqrt %20 : tensor<2x25x1xf32>
    %22 = stablehlo.divide %21, %20 : tensor<2x25x1xf32>
    %cst_5 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %24 = stablehlo.multiply %23, %22 : tensor<2x25x1xf32>
    %25 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<2x25x1xf32>) -> tensor<2x25x64xf32>
    %26 = stablehlo.multiply %11, %25 : tensor<2x25x64xf32>
    %27 = stablehlo.convert %26 : (tensor<2x25x64xf32>) -> tensor<2x25x64xbf16>
    %28 = stablehlo.broadcast_in_dim %arg9, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %30 = stablehlo.multiply %27, %29 : tensor<2x25x64xbf16>
    %31 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %33 = stablehlo.add %30, %32 : tensor<2x25x64xbf16>
    %34 = stablehlo.dot_general %33, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x25x64xbf16>, tensor<64x3x4x16xbf16>) -> tensor<2x25x3x4x16xbf16>
    %35 = stablehlo.broadcast_in_dim %arg8, dims = [2, 3, 4] : (tensor<3x4x16xbf16>) -> tensor<1x1x3x4x16xbf16>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3, 4] : (tensor<1x1x3x4x16xbf16>) -> tensor<2x25x3x4x16xbf16>
    %37 = stablehlo.add %34, %36 : tensor<2x25x3x4x16xbf16>
    %38 = stablehlo.transpose %37, dims = [2, 0, 1, 3, 4] : (tensor<2x25x3x4x16xbf16>) -> tensor<3x2x25x4x16xbf16>
    %39 = stablehlo.slice %38 [0:1, 0:2, 0:25, 0:4, 0:16] : (tensor<3x2x25x4x16xbf16>) -> tensor<1x2x25x4x16xbf16>
    %40 = stablehlo.reshape %39 : (tensor<1x2x25x4x16xbf16>) -> tensor<2x25x4x16xbf16>
    %41 = stablehlo.slice %38 [1:2, 0:2, 0:25, 0:4, 0:16] : (tensor<3x2x25x4x16xbf16>) -> tensor<1x2x25x4x16xbf16>
    %42 = stablehlo.reshape %41 : (tensor<1x2x25x4x16xbf16>) -> tensor<2x25x4x16xbf16>
    %43 = stablehlo.slice %38 [2:3, 0:2, 0:25, 0:4, 0:16] : (tensor<3x2x25x4x16xbf16>) -> tensor<1x2x25x4x16xbf16>
    %44 = stablehlo.reshape %43 : (tensor<1x2x25x4x16xbf16>) -> tensor<2x25x4x16xbf16>
    %45 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 4] : (tensor<2x25x4x16xbf16>) -> tensor<2x25x4x1x16xbf16>
    %46 = stablehlo.reshape %45 : (tensor<2x25x4x1x16xbf16>) -> tensor<2x25x4x16xbf16>
    %47 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2, 4] : (tensor<2x25x4x16xbf16>) -> tensor<2x25x4x1x16xbf16>
    %48 = stablehlo.reshape %47 : (tensor<2x25x4x1x16xbf16>) -> tensor<2x25x4x16xbf16>
    %49 = stablehlo.dot_general %40, %46, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x25x4x16xbf16>, tensor<2x25x4x16xbf16>) -> tensor<2x4x25x25xbf16>
    %50 = stablehlo.convert %49 : (tensor<2x4x25x25xbf16>) -> tensor<2x4x25x25xf32>
    %cst_6 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x4x25x25xf32>
    %52 = stablehlo.multiply %50, %51 : tensor<2x4x25x25xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %53 = stablehlo.reduce(%52 init: %cst_7) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x25x25xf32>, tensor<f32>) -> tensor<2x4x25xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x4x25xf32>
    %55 = stablehlo.maximum %54, %53 : tensor<2x4x25xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2] : (tensor<2x4x25xf32>) -> tensor<2x4x25x1xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2, 3] : (tensor<2x4x25x1xf32>) -> tensor<2x4x25x25xf32>
    %58 = stablehlo.subtract %52, %57 : tensor<2x4x25x25xf32>
    %59 = stablehlo.exponential %58 : tensor<2x4x25x25xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.reduce(%59 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<2x4x25x25xf32>, tensor<f32>) -> tensor<2x4x25xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2] : (tensor<2x4x25xf32>) -> tensor<2x4x25x1xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<2x4x25x1xf32>) -> tensor<2x4x25x25xf32>
    %63 = stablehlo.divide %59, %62 : tensor<2x4x25x25xf32>
    %64 = stablehlo.multiply %61, %61 : tensor<2x4x25x1xf32>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x4x25x1xf32>
    %66 = stablehlo.divide %65, %64 : tensor<2x4x25x1xf32>
    %67 = stablehlo.convert %63 : (tensor<2x4x25x25xf32>) -> tensor<2x4x25x25xbf16>
    %68 = stablehlo.dot_general %48, %67, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x25x4x16xbf16>, tensor<2x4x25x25xbf16>) -> tensor<2x4x16x25xbf16>
    %69 = stablehlo.transpose %68, dims = [0, 3, 1, 2] : (tensor<2x4x16x25xbf16>) -> tensor<2x25x4x16xbf16>
    %70 = stablehlo.dot_general %69, %arg3, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x25x4x16xbf16>, tensor<4x16x64xbf16>) -> tensor<2x25x64xbf16>
    %71 = stablehlo.add %4, %70 : tensor<2x25x64xbf16>
    %72 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %74 = stablehlo.add %71, %73 : tensor<2x25x64xbf16>
    %75 = stablehlo.convert %74 : (tensor<2x25x64xbf16>) -> tensor<2x25x64xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %76 = stablehlo.reduce(%75 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x25xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1] : (tensor<2x25xf32>) -> tensor<2x25x1xf32>
    %cst_12 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %78 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %79 = stablehlo.divide %77, %78 : tensor<2x25x1xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1, 2] : (tensor<2x25x1xf32>) -> tensor<2x25x64xf32>
    %81 = stablehlo.subtract %75, %80 : tensor<2x25x64xf32>
    %82 = chlo.square %81 : tensor<2x25x64xf32> -> tensor<2x25x64xf32>
    %cst_13 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %83 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x25x64xf32>
    %84 = stablehlo.multiply %83, %81 : tensor<2x25x64xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %85 = stablehlo.reduce(%82 init: %cst_14) applies stablehlo.add across dimensions = [2] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x25xf32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1] : (tensor<2x25xf32>) -> tensor<2x25x1xf32>
    %cst_15 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %87 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %88 = stablehlo.divide %86, %87 : tensor<2x25x1xf32>
    %cst_16 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %90 = stablehlo.add %88, %89 : tensor<2x25x1xf32>
    %91 = stablehlo.rsqrt %90 : tensor<2x25x1xf32>
    %92 = stablehlo.divide %91, %90 : tensor<2x25x1xf32>
    %cst_17 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %93 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %94 = stablehlo.multiply %93, %92 : tensor<2x25x1xf32>
    %95 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<2x25x1xf32>) -> tensor<2x25x64xf32>
    %96 = stablehlo.multiply %81, %95 : tensor<2x25x64xf32>
    %97 = stablehlo.convert %96 : (tensor<2x25x64xf32>) -> tensor<2x25x64xbf16>
    %98 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %99 = stablehlo.broadcast_in_dim %98, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %100 = stablehlo.multiply %97, %99 : tensor<2x25x64xbf16>
    %101 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %102 = stablehlo.broadcast_in_dim %101, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %103 = stablehlo.add %100, %102 : tensor<2x25x64xbf16>
    %104 = stablehlo.dot_general %103, %arg13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x25x64xbf16>, tensor<64x256xbf16>) -> tensor<2x25x256xbf16>
    %105 = stablehlo.broadcast_in_dim %arg14, dims = [2] : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %106 = stablehlo.broadcast_in_dim %105, dims = [0, 1, 2] : (tensor<1x1x256xbf16>) -> tensor<2x25x256xbf16>
    %107 = stablehlo.add %104, %106 : tensor<2x25x256xbf16>
    %108 = stablehlo.multiply %107, %107 : tensor<2x25x256xbf16>
    %109 = stablehlo.multiply %108, %107 : tensor<2x25x256xbf16>
    %110 = stablehlo.multiply %107, %107 : tensor<2x25x256xbf16>
    %cst_18 = stablehlo.constant dense<3.000000e+00> : tensor<bf16>
    %111 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %112 = stablehlo.multiply %111, %110 : tensor<2x25x256xbf16>
    %cst_19 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %113 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %114 = stablehlo.multiply %113, %109 : tensor<2x25x256xbf16>
    %115 = stablehlo.add %107, %114 : tensor<2x25x256xbf16>
    %cst_20 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %116 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %117 = stablehlo.multiply %116, %115 : tensor<2x25x256xbf16>
    %118 = stablehlo.tanh %117 : tensor<2x25x256xbf16>
    %cst_21 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %119 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %120 = stablehlo.subtract %119, %118 : tensor<2x25x256xbf16>
    %cst_22 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %121 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %122 = stablehlo.add %121, %118 : tensor<2x25x256xbf16>
    %cst_23 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %123 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %124 = stablehlo.multiply %123, %122 : tensor<2x25x256xbf16>
    %125 = stablehlo.multiply %107, %124 : tensor<2x25x256xbf16>
    %126 = stablehlo.dot_general %125, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x25x256xbf16>, tensor<256x64xbf16>) -> tensor<2x25x64xbf16>
    %127 = stablehlo.add %74, %126 : tensor<2x25x64xbf16>
    %128 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %129 = stablehlo.broadcast_in_dim %128, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %130 = stablehlo.add %127, %129 : tensor<2x25x64xbf16>
    %131 = stablehlo.convert %130 : (tensor<2x25x64xbf16>) -> tensor<2x25x64xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %132 = stablehlo.reduce(%131 init: %cst_24) applies stablehlo.add across dimensions = [1] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_25 = stablehlo.constant dense<2.500000e+01> : tensor<f32>
    %133 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %134 = stablehlo.divide %132, %133 : tensor<2x64xf32>
    %135 = stablehlo.convert %134 : (tensor<2x64xf32>) -> tensor<2x64xbf16>
    %136 = stablehlo.dot_general %135, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64xbf16>, tensor<64x10xbf16>) -> tensor<2x10xbf16>
    %137 = stablehlo.subtract %136, %arg46 : tensor<2x10xbf16>
    %138 = stablehlo.convert %137 : (tensor<2x10xbf16>) -> tensor<2x10xf32>
    %139 = chlo.square %138 : tensor<2x10xf32> -> tensor<2x10xf32>
    %cst_26 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %140 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<2x10xf32>
    %141 = stablehlo.multiply %140, %138 : tensor<2x10xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %142 = stablehlo.reduce(%139 init: %cst_27) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x10xf32>, tensor<f32>) -> tensor<f32>
    %cst_28 = stablehlo.constant dense<2.000000e+01> : tensor<f32>
    %143 = stablehlo.divide %142, %cst_28 : tensor<f32>
    %cst_29 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_30 = stablehlo.constant dense<2.000000e+01> : tensor<f32>
    %144 = stablehlo.divide %cst_29, %cst_30 : tensor<f32>
    %145 = stablehlo.broadcast_in_dim %144, dims = [] : (tensor<f32>) -> tensor<2x10xf32>
    %146 = stablehlo.multiply %145, %141 : tensor<2x10xf32>
    %147 = stablehlo.convert %146 : (tensor<2x10xf32>) -> tensor<2x10xbf16>
    %148 = stablehlo.dot_general %147, %135, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x10xbf16>, tensor<2x64xbf16>) -> tensor<10x64xbf16>
    %149 = stablehlo.transpose %148, dims = [1, 0] : (tensor<10x64xbf16>) -> tensor<64x10xbf16>
    %150 = stablehlo.dot_general %147, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x10xbf16>, tensor<64x10xbf16>) -> tensor<2x64xbf16>
    %151 = stablehlo.convert %150 : (tensor<2x64xbf16>) -> tensor<2x64xf32>
    %cst_31 = stablehlo.constant dense<2.500000e+01> : tensor<f32>
    %152 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %153 = stablehlo.divide %151, %152 : tensor<2x64xf32>
    %154 = stablehlo.broadcast_in_dim %153, dims = [0, 2] : (tensor<2x64xf32>) -> tensor<2x25x64xf32>
    %155 = stablehlo.convert %154 : (tensor<2x25x64xf32>) -> tensor<2x25x64xbf16>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %156 = stablehlo.reduce(%155 init: %cst_32) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x25x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %157 = stablehlo.reshape %156 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %158 = stablehlo.reduce(%157 init: %cst_33) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %159 = stablehlo.dot_general %155, %125, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x25x64xbf16>, tensor<2x25x256xbf16>) -> tensor<64x256xbf16>
    %160 = stablehlo.transpose %159, dims = [1, 0] : (tensor<64x256xbf16>) -> tensor<256x64xbf16>
    %161 = stablehlo.dot_general %155, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x25x64xbf16>, tensor<256x64xbf16>) -> tensor<2x25x256xbf16>
    %162 = stablehlo.multiply %107, %161 : tensor<2x25x256xbf16>
    %163 = stablehlo.multiply %161, %124 : tensor<2x25x256xbf16>
    %cst_34 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %164 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %165 = stablehlo.multiply %164, %162 : tensor<2x25x256xbf16>
    %166 = stablehlo.multiply %165, %120 : tensor<2x25x256xbf16>
    %167 = stablehlo.multiply %166, %118 : tensor<2x25x256xbf16>
    %168 = stablehlo.add %166, %167 : tensor<2x25x256xbf16>
    %cst_35 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %169 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %170 = stablehlo.multiply %169, %168 : tensor<2x25x256xbf16>
    %171 = stablehlo.add %163, %170 : tensor<2x25x256xbf16>
    %cst_36 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %172 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %173 = stablehlo.multiply %172, %170 : tensor<2x25x256xbf16>
    %174 = stablehlo.multiply %173, %112 : tensor<2x25x256xbf16>
    %175 = stablehlo.add %171, %174 : tensor<2x25x256xbf16>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %176 = stablehlo.reduce(%175 init: %cst_37) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x25x256xbf16>, tensor<bf16>) -> tensor<256xbf16>
    %177 = stablehlo.reshape %176 : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %178 = stablehlo.reduce(%177 init: %cst_38) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x256xbf16>, tensor<bf16>) -> tensor<256xbf16>
    %179 = stablehlo.dot_general %175, %103, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x25x256xbf16>, tensor<2x25x64xbf16>) -> tensor<256x64xbf16>
    %180 = stablehlo.transpose %179, dims = [1, 0] : (tensor<256x64xbf16>) -> tensor<64x256xbf16>
    %181 = stablehlo.dot_general %175, %arg13, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x25x256xbf16>, tensor<64x256xbf16>) -> tensor<2x25x64xbf16>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %182 = stablehlo.reduce(%181 init: %cst_39) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x25x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %183 = stablehlo.reshape %182 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %184 = stablehlo.reduce(%183 init: %cst_40) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %185 = stablehlo.multiply %97, %181 : tensor<2x25x64xbf16>
    %cst_41 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %186 = stablehlo.reduce(%185 init: %cst_41) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x25x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %187 = stablehlo.reshape %186 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %188 = stablehlo.broadcast_in_dim %98, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %189 = stablehlo.multiply %181, %188 : tensor<2x25x64xbf16>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %190 = stablehlo.reduce(%187 init: %cst_42) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %191 = stablehlo.convert %189 : (tensor<2x25x64xbf16>) -> tensor<2x25x64xf32>
    %192 = stablehlo.multiply %81, %191 : tensor<2x25x64xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %193 = stablehlo.reduce(%192 init: %cst_43) applies stablehlo.add across dimensions = [2] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x25xf32>
    %194 = stablehlo.reshape %193 : (tensor<2x25xf32>) -> tensor<2x25x1xf32>
    %195 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<2x25x1xf32>) -> tensor<2x25x64xf32>
    %196 = stablehlo.multiply %191, %195 : tensor<2x25x64xf32>
    %197 = stablehlo.multiply %194, %94 : tensor<2x25x1xf32>
    %cst_44 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %198 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %199 = stablehlo.divide %197, %198 : tensor<2x25x1xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %200 = stablehlo.reduce(%199 init: %cst_45) applies stablehlo.add across dimensions = [2] : (tensor<2x25x1xf32>, tensor<f32>) -> tensor<2x25xf32>
    %201 = stablehlo.broadcast_in_dim %200, dims = [0, 1] : (tensor<2x25xf32>) -> tensor<2x25x64xf32>
    %202 = stablehlo.multiply %201, %84 : tensor<2x25x64xf32>
    %203 = stablehlo.add %196, %202 : tensor<2x25x64xf32>
    %204 = stablehlo.negate %203 : tensor<2x25x64xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %205 = stablehlo.reduce(%204 init: %cst_46) applies stablehlo.add across dimensions = [2] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x25xf32>
    %206 = stablehlo.reshape %205 : (tensor<2x25xf32>) -> tensor<2x25x1xf32>
    %cst_47 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %207 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %208 = stablehlo.divide %206, %207 : tensor<2x25x1xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %209 = stablehlo.reduce(%208 init: %cst_48) applies stablehlo.add across dimensions = [2] : (tensor<2x25x1xf32>, tensor<f32>) -> tensor<2x25xf32>
    %210 = stablehlo.broadcast_in_dim %209, dims = [0, 1] : (tensor<2x25xf32>) -> tensor<2x25x64xf32>
    %211 = stablehlo.add %203, %210 : tensor<2x25x64xf32>
    %212 = stablehlo.convert %211 : (tensor<2x25x64xf32>) -> tensor<2x25x64xbf16>
    %213 = stablehlo.add %155, %212 : tensor<2x25x64xbf16>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %214 = stablehlo.reduce(%213 init: %cst_49) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x25x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %215 = stablehlo.reshape %214 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %216 = stablehlo.reduce(%215 init: %cst_50) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %217 = stablehlo.dot_general %213, %69, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x25x64xbf16>, tensor<2x25x4x16xbf16>) -> tensor<64x4x16xbf16>
    %218 = stablehlo.transpose %217, dims = [1, 2, 0] : (tensor<64x4x16xbf16>) -> tensor<4x16x64xbf16>
    %219 = stablehlo.dot_general %213, %arg3, contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x25x64xbf16>, tensor<4x16x64xbf16>) -> tensor<2x25x4x16xbf16>
    %220 = stablehlo.transpose %219, dims = [0, 2, 3, 1] : (tensor<2x25x4x16xbf16>) -> tensor<2x4x16x25xbf16>
    %221 = stablehlo.dot_general %220, %48, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16x25xbf16>, tensor<2x25x4x16xbf16>) -> tensor<2x4x25x25xbf16>
    %222 = stablehlo.dot_general %220, %67, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16x25xbf16>, tensor<2x4x25x25xbf16>) -> tensor<2x4x16x25xbf16>
    %223 = stablehlo.transpose %222, dims = [0, 3, 1, 2] : (tensor<2x4x16x25xbf16>) -> tensor<2x25x4x16xbf16>
    %224 = stablehlo.convert %221 : (tensor<2x4x25x25xbf16>) -> tensor<2x4x25x25xf32>
    %225 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2, 3] : (tensor<2x4x25x1xf32>) -> tensor<2x4x25x25xf32>
    %226 = stablehlo.multiply %224, %225 : tensor<2x4x25x25xf32>
    %227 = stablehlo.multiply %226, %59 : tensor<2x4x25x25xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %228 = stablehlo.reduce(%227 init: %cst_51) applies stablehlo.add across dimensions = [3] : (tensor<2x4x25x25xf32>, tensor<f32>) -> tensor<2x4x25xf32>
    %229 = stablehlo.reshape %228 : (tensor<2x4x25xf32>) -> tensor<2x4x25x1xf32>
    %230 = stablehlo.negate %229 : tensor<2x4x25x1xf32>
    %231 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<2x4x25x1xf32>) -> tensor<2x4x25x25xf32>
    %232 = stablehlo.divide %224, %231 : tensor<2x4x25x25xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %233 = stablehlo.reduce(%230 init: %cst_52) applies stablehlo.add across dimensions = [3] : (tensor<2x4x25x1xf32>, tensor<f32>) -> tensor<2x4x25xf32>
    %234 = stablehlo.broadcast_in_dim %233, dims = [0, 1, 2] : (tensor<2x4x25xf32>) -> tensor<2x4x25x25xf32>
    %235 = stablehlo.add %232, %234 : tensor<2x4x25x25xf32>
    %236 = stablehlo.multiply %235, %59 : tensor<2x4x25x25xf32>
    %cst_53 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %237 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<2x4x25x25xf32>
    %238 = stablehlo.multiply %236, %237 : tensor<2x4x25x25xf32>
    %239 = stablehlo.convert %238 : (tensor<2x4x25x25xf32>) -> tensor<2x4x25x25xbf16>
    %240 = stablehlo.dot_general %239, %40, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x25x25xbf16>, tensor<2x25x4x16xbf16>) -> tensor<2x4x25x16xbf16>
    %241 = stablehlo.transpose %240, dims = [0, 2, 1, 3] : (tensor<2x4x25x16xbf16>) -> tensor<2x25x4x16xbf16>
    %242 = stablehlo.dot_general %239, %46, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x25x25xbf16>, tensor<2x25x4x16xbf16>) -> tensor<2x4x25x16xbf16>
    %243 = stablehlo.transpose %242, dims = [0, 2, 1, 3] : (tensor<2x4x25x16xbf16>) -> tensor<2x25x4x16xbf16>
    %244 = stablehlo.reshape %223 : (tensor<2x25x4x16xbf16>) -> tensor<2x25x4x1x16xbf16>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %245 = stablehlo.reduce(%244 init: %cst_54) applies stablehlo.add across dimensions = [3] : (tensor<2x25x4x1x16xbf16>, tensor<bf16>) -> tensor<2x25x4x16xbf16>
    %246 = stablehlo.reshape %241 : (tensor<2x25x4x16xbf16>) -> tensor<2x25x4x1x16xbf16>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %247 = stablehlo.reduce(%246 init: %cst_55) applies stablehlo.add across dimensions = [3] : (tensor<2x25x4x1x16xbf16>, tensor<bf16>) -> tensor<2x25x4x16xbf16>
    %248 = stablehlo.broadcast_in_dim %245, dims = [1, 2, 3, 4] : (tensor<2x25x4x16xbf16>) -> tensor<1x2x25x4x16xbf16>
    %cst_56 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %249 = stablehlo.pad %248, %cst_56, low = [2, 0, 0, 0, 0], high = [0, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<1x2x25x4x16xbf16>, tensor<bf16>) -> tensor<3x2x25x4x16xbf16>
    %250 = stablehlo.broadcast_in_dim %247, dims = [1, 2, 3, 4] : (tensor<2x25x4x16xbf16>) -> tensor<1x2x25x4x16xbf16>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %251 = stablehlo.pad %250, %cst_57, low = [1, 0, 0, 0, 0], high = [1, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<1x2x25x4x16xbf16>, tensor<bf16>) -> tensor<3x2x25x4x16xbf16>
    %252 = stablehlo.add %249, %251 : tensor<3x2x25x4x16xbf16>
    %253 = stablehlo.broadcast_in_dim %243, dims = [1, 2, 3, 4] : (tensor<2x25x4x16xbf16>) -> tensor<1x2x25x4x16xbf16>
    %cst_58 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %254 = stablehlo.pad %253, %cst_58, low = [0, 0, 0, 0, 0], high = [2, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<1x2x25x4x16xbf16>, tensor<bf16>) -> tensor<3x2x25x4x16xbf16>
    %255 = stablehlo.add %252, %254 : tensor<3x2x25x4x16xbf16>
    %256 = stablehlo.transpose %255, dims = [1, 2, 0, 3, 4] : (tensor<3x2x25x4x16xbf16>) -> tensor<2x25x3x4x16xbf16>
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %257 = stablehlo.reduce(%256 init: %cst_59) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x25x3x4x16xbf16>, tensor<bf16>) -> tensor<3x4x16xbf16>
    %258 = stablehlo.reshape %257 : (tensor<3x4x16xbf16>) -> tensor<1x1x3x4x16xbf16>
    %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %259 = stablehlo.reduce(%258 init: %cst_60) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x3x4x16xbf16>, tensor<bf16>) -> tensor<3x4x16xbf16>
    %260 = stablehlo.dot_general %256, %33, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x25x3x4x16xbf16>, tensor<2x25x64xbf16>) -> tensor<3x4x16x64xbf16>
    %261 = stablehlo.transpose %260, dims = [3, 0, 1, 2] : (tensor<3x4x16x64xbf16>) -> tensor<64x3x4x16xbf16>
    %262 = stablehlo.dot_general %256, %arg7, contracting_dims = [2, 3, 4] x [1, 2, 3], precision = [DEFAULT, DEFAULT] : (tensor<2x25x3x4x16xbf16>, tensor<64x3x4x16xbf16>) -> tensor<2x25x64xbf16>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %263 = stablehlo.reduce(%262 init: %cst_61) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x25x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %264 = stablehlo.reshape %263 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_62 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %265 = stablehlo.reduce(%264 init: %cst_62) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %266 = stablehlo.multiply %27, %262 : tensor<2x25x64xbf16>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %267 = stablehlo.reduce(%266 init: %cst_63) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x25x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %268 = stablehlo.reshape %267 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %269 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %270 = stablehlo.multiply %262, %269 : tensor<2x25x64xbf16>
    %cst_64 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %271 = stablehlo.reduce(%268 init: %cst_64) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %272 = stablehlo.convert %270 : (tensor<2x25x64xbf16>) -> tensor<2x25x64xf32>
    %273 = stablehlo.multiply %11, %272 : tensor<2x25x64xf32>
    %cst_65 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %274 = stablehlo.reduce(%273 init: %cst_65) applies stablehlo.add across dimensions = [2] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x25xf32>
    %275 = stablehlo.reshape %274 : (tensor<2x25xf32>) -> tensor<2x25x1xf32>
    %276 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<2x25x1xf32>) -> tensor<2x25x64xf32>
    %277 = stablehlo.multiply %272, %276 : tensor<2x25x64xf32>
    %278 = stablehlo.multiply %275, %24 : tensor<2x25x1xf32>
    %cst_66 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %279 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %280 = stablehlo.divide %278, %279 : tensor<2x25x1xf32>
    %cst_67 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %281 = stablehlo.reduce(%280 init: %cst_67) applies stablehlo.add across dimensions = [2] : (tensor<2x25x1xf32>, tensor<f32>) -> tensor<2x25xf32>
    %282 = stablehlo.broadcast_in_dim %281, dims = [0, 1] : (tensor<2x25xf32>) -> tensor<2x25x64xf32>
    %283 = stablehlo.multiply %282, %14 : tensor<2x25x64xf32>
    %284 = stablehlo.add %277, %283 : tensor<2x25x64xf32>
    %285 = stablehlo.negate %284 : tensor<2x25x64xf32>
    %cst_68 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %286 = stablehlo.reduce(%285 init: %cst_68) applies stablehlo.add across dimensions = [2] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x25xf32>
    %287 = stablehlo.reshape %286 : (tensor<2x25xf32>) -> tensor<2x25x1xf32>
    %cst_69 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %288 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %289 = stablehlo.divide %287, %288 : tensor<2x25x1xf32>
    %cst_70 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %290 = stablehlo.reduce(%289 init: %cst_70) applies stablehlo.add across dimensions = [2] : (tensor<2x25x1xf32>, tensor<f32>) -> tensor<2x25xf32>
    %291 = stablehlo.broadcast_in_dim %290, dims = [0, 1] : (tensor<2x25xf32>) -> tensor<2x25x64xf32>
    %292 = stablehlo.add %284, %291 : tensor<2x25x64xf32>
    %293 = stablehlo.convert %292 : (tensor<2x25x64xf32>) -> tensor<2x25x64xbf16>
    %294 = stablehlo.add %213, %293 : tensor<2x25x64xbf16>
    %cst_71 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %295 = stablehlo.reduce(%294 init: %cst_71) applies stablehlo.add across dimensions = [0] : (tensor<2x25x64xbf16>, tensor<bf16>) -> tensor<25x64xbf16>
    %296 = stablehlo.reshape %295 : (tensor<25x64xbf16>) -> tensor<1x25x64xbf16>
    %cst_72 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %297 = stablehlo.reduce(%296 init: %cst_72) applies stablehlo.add across dimensions = [0] : (tensor<1x25x64xbf16>, tensor<bf16>) -> tensor<25x64xbf16>
    %298 = stablehlo.reshape %294 : (tensor<2x25x64xbf16>) -> tensor<2x5x5x64xbf16>
    %299 = stablehlo.convolution(%arg45, %298) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [4, 4], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x20x20x3xbf16>, tensor<2x5x5x64xbf16>) -> tensor<4x4x3x64xbf16>
    %300 = stablehlo.reverse %arg5, dims = [0, 1] : tensor<4x4x3x64xbf16>
    %301 = stablehlo.convolution(%298, %300) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[3, 3], [3, 3]], lhs_dilate = [4, 4], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x5x5x64xbf16>, tensor<4x4x3x64xbf16>) -> tensor<2x20x20x3xbf16>
    %302 = stablehlo.convert %160 : (tensor<256x64xbf16>) -> tensor<256x64xf32>
    %303 = stablehlo.convert %158 : (tensor<64xbf16>) -> tensor<64xf32>
    %304 = stablehlo.convert %149 : (tensor<64x10xbf16>) -> tensor<64x10xf32>
    %305 = stablehlo.convert %218 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %306 = stablehlo.convert %216 : (tensor<64xbf16>) -> tensor<64xf32>
    %307 = stablehlo.convert %299 : (tensor<4x4x3x64xbf16>) -> tensor<4x4x3x64xf32>
    %308 = stablehlo.convert %297 : (tensor<25x64xbf16>) -> tensor<25x64xf32>
    %309 = stablehlo.convert %261 : (tensor<64x3x4x16xbf16>) -> tensor<64x3x4x16xf32>
    %310 = stablehlo.convert %259 : (tensor<3x4x16xbf16>) -> tensor<3x4x16xf32>
    %311 = stablehlo.convert %271 : (tensor<64xbf16>) -> tensor<64xf32>
    %312 = stablehlo.convert %190 : (tensor<64xbf16>) -> tensor<64xf32>
    %313 = stablehlo.convert %265 : (tensor<64xbf16>) -> tensor<64xf32>
    %314 = stablehlo.convert %184 : (tensor<64xbf16>) -> tensor<64xf32>
    %315 = stablehlo.convert %180 : (tensor<64x256xbf16>) -> tensor<64x256xf32>
    %316 = stablehlo.convert %178 : (tensor<256xbf16>) -> tensor<256xf32>
    %cst_73 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %317 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %318 = stablehlo.multiply %317, %arg15 : tensor<256x64xf32>
    %cst_74 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %319 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %320 = stablehlo.multiply %319, %302 : tensor<256x64xf32>
    %321 = stablehlo.add %318, %320 : tensor<256x64xf32>
    %cst_75 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %322 = stablehlo.broadcast_in_dim %cst_75, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %323 = stablehlo.multiply %322, %arg16 : tensor<64xf32>
    %cst_76 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %324 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %325 = stablehlo.multiply %324, %303 : tensor<64xf32>
    %326 = stablehlo.add %323, %325 : tensor<64xf32>
    %cst_77 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %327 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<64x10xf32>
    %328 = stablehlo.multiply %327, %arg17 : tensor<64x10xf32>
    %cst_78 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %329 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<64x10xf32>
    %330 = stablehlo.multiply %329, %304 : tensor<64x10xf32>
    %331 = stablehlo.add %328, %330 : tensor<64x10xf32>
    %cst_79 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %332 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %333 = stablehlo.multiply %332, %arg18 : tensor<4x16x64xf32>
    %cst_80 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %334 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %335 = stablehlo.multiply %334, %305 : tensor<4x16x64xf32>
    %336 = stablehlo.add %333, %335 : tensor<4x16x64xf32>
    %cst_81 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %337 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %338 = stablehlo.multiply %337, %arg19 : tensor<64xf32>
    %cst_82 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %339 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %340 = stablehlo.multiply %339, %306 : tensor<64xf32>
    %341 = stablehlo.add %338, %340 : tensor<64xf32>
    %cst_83 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %342 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<4x4x3x64xf32>
    %343 = stablehlo.multiply %342, %arg20 : tensor<4x4x3x64xf32>
    %cst_84 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %344 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<4x4x3x64xf32>
    %345 = stablehlo.multiply %344, %307 : tensor<4x4x3x64xf32>
    %346 = stablehlo.add %343, %345 : tensor<4x4x3x64xf32>
    %cst_85 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %347 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<25x64xf32>
    %348 = stablehlo.multiply %347, %arg21 : tensor<25x64xf32>
    %cst_86 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %349 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<25x64xf32>
    %350 = stablehlo.multiply %349, %308 : tensor<25x64xf32>
    %351 = stablehlo.add %348, %350 : tensor<25x64xf32>
    %cst_87 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %352 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %353 = stablehlo.multiply %352, %arg22 : tensor<64x3x4x16xf32>
    %cst_88 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %354 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %355 = stablehlo.multiply %354, %309 : tensor<64x3x4x16xf32>
    %356 = stablehlo.add %353, %355 : tensor<64x3x4x16xf32>
    %cst_89 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %357 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %358 = stablehlo.multiply %357, %arg23 : tensor<3x4x16xf32>
    %cst_90 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %359 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %360 = stablehlo.multiply %359, %310 : tensor<3x4x16xf32>
    %361 = stablehlo.add %358, %360 : tensor<3x4x16xf32>
    %cst_91 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %362 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %363 = stablehlo.multiply %362, %arg24 : tensor<64xf32>
    %cst_92 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %364 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %365 = stablehlo.multiply %364, %311 : tensor<64xf32>
    %366 = stablehlo.add %363, %365 : tensor<64xf32>
    %cst_93 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %367 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %368 = stablehlo.multiply %367, %arg25 : tensor<64xf32>
    %cst_94 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %369 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %370 = stablehlo.multiply %369, %312 : tensor<64xf32>
    %371 = stablehlo.add %368, %370 : tensor<64xf32>
    %cst_95 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %372 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %373 = stablehlo.multiply %372, %arg26 : tensor<64xf32>
    %cst_96 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %374 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %375 = stablehlo.multiply %374, %313 : tensor<64xf32>
    %376 = stablehlo.add %373, %375 : tensor<64xf32>
    %cst_97 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %377 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %378 = stablehlo.multiply %377, %arg27 : tensor<64xf32>
    %cst_98 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %379 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %380 = stablehlo.multiply %379, %314 : tensor<64xf32>
    %381 = stablehlo.add %378, %380 : tensor<64xf32>
    %cst_99 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %382 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %383 = stablehlo.multiply %382, %arg28 : tensor<64x256xf32>
    %cst_100 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %384 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %385 = stablehlo.multiply %384, %315 : tensor<64x256xf32>
    %386 = stablehlo.add %383, %385 : tensor<64x256xf32>
    %cst_101 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %387 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %388 = stablehlo.multiply %387, %arg29 : tensor<256xf32>
    %cst_102 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %389 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %390 = stablehlo.multiply %389, %316 : tensor<256xf32>
    %391 = stablehlo.add %388, %390 : tensor<256xf32>
    %cst_103 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %392 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %393 = stablehlo.multiply %392, %arg30 : tensor<256x64xf32>
    %cst_104 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %394 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %395 = stablehlo.multiply %394, %302 : tensor<256x64xf32>
    %396 = stablehlo.multiply %395, %302 : tensor<256x64xf32>
    %397 = stablehlo.add %393, %396 : tensor<256x64xf32>
    %cst_105 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %398 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %399 = stablehlo.multiply %398, %arg31 : tensor<64xf32>
    %cst_106 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %400 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %401 = stablehlo.multiply %400, %303 : tensor<64xf32>
    %402 = stablehlo.multiply %401, %303 : tensor<64xf32>
    %403 = stablehlo.add %399, %402 : tensor<64xf32>
    %cst_107 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %404 = stablehlo.broadcast_in_dim %cst_107, dims = [] : (tensor<f32>) -> tensor<64x10xf32>
    %405 = stablehlo.multiply %404, %arg32 : tensor<64x10xf32>
    %cst_108 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %406 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<64x10xf32>
    %407 = stablehlo.multiply %406, %304 : tensor<64x10xf32>
    %408 = stablehlo.multiply %407, %304 : tensor<64x10xf32>
    %409 = stablehlo.add %405, %408 : tensor<64x10xf32>
    %cst_109 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %410 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %411 = stablehlo.multiply %410, %arg33 : tensor<4x16x64xf32>
    %cst_110 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %412 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %413 = stablehlo.multiply %412, %305 : tensor<4x16x64xf32>
    %414 = stablehlo.multiply %413, %305 : tensor<4x16x64xf32>
    %415 = stablehlo.add %411, %414 : tensor<4x16x64xf32>
    %cst_111 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %416 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %417 = stablehlo.multiply %416, %arg34 : tensor<64xf32>
    %cst_112 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %418 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %419 = stablehlo.multiply %418, %306 : tensor<64xf32>
    %420 = stablehlo.multiply %419, %306 : tensor<64xf32>
    %421 = stablehlo.add %417, %420 : tensor<64xf32>
    %cst_113 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %422 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<4x4x3x64xf32>
    %423 = stablehlo.multiply %422, %arg35 : tensor<4x4x3x64xf32>
    %cst_114 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %424 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<4x4x3x64xf32>
    %425 = stablehlo.multiply %424, %307 : tensor<4x4x3x64xf32>
    %426 = stablehlo.multiply %425, %307 : tensor<4x4x3x64xf32>
    %427 = stablehlo.add %423, %426 : tensor<4x4x3x64xf32>
    %cst_115 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %428 = stablehlo.broadcast_in_dim %cst_115, dims = [] : (tensor<f32>) -> tensor<25x64xf32>
    %429 = stablehlo.multiply %428, %arg36 : tensor<25x64xf32>
    %cst_116 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %430 = stablehlo.broadcast_in_dim %cst_116, dims = [] : (tensor<f32>) -> tensor<25x64xf32>
    %431 = stablehlo.multiply %430, %308 : tensor<25x64xf32>
    %432 = stablehlo.multiply %431, %308 : tensor<25x64xf32>
    %433 = stablehlo.add %429, %432 : tensor<25x64xf32>
    %cst_117 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %434 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %435 = stablehlo.multiply %434, %arg37 : tensor<64x3x4x16xf32>
    %cst_118 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %436 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %437 = stablehlo.multiply %436, %309 : tensor<64x3x4x16xf32>
    %438 = stablehlo.multiply %437, %309 : tensor<64x3x4x16xf32>
    %439 = stablehlo.add %435, %438 : tensor<64x3x4x16xf32>
    %cst_119 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %440 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %441 = stablehlo.multiply %440, %arg38 : tensor<3x4x16xf32>
    %cst_120 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %442 = stablehlo.broadcast_in_dim %cst_120, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %443 = stablehlo.multiply %442, %310 : tensor<3x4x16xf32>
    %444 = stablehlo.multiply %443, %310 : tensor<3x4x16xf32>
    %445 = stablehlo.add %441, %444 : tensor<3x4x16xf32>
    %cst_121 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %446 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %447 = stablehlo.multiply %446, %arg39 : tensor<64xf32>
    %cst_122 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %448 = stablehlo.broadcast_in_dim %cst_122, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %449 = stablehlo.multiply %448, %311 : tensor<64xf32>
    %450 = stablehlo.multiply %449, %311 : tensor<64xf32>
    %451 = stablehlo.add %447, %450 : tensor<64xf32>
    %cst_123 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %452 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %453 = stablehlo.multiply %452, %arg40 : tensor<64xf32>
    %cst_124 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %454 = stablehlo.broadcast_in_dim %cst_124, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %455 = stablehlo.multiply %454, %312 : tensor<64xf32>
    %456 = stablehlo.multiply %455, %312 : tensor<64xf32>
    %457 = stablehlo.add %453, %456 : tensor<64xf32>
    %cst_125 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %458 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %459 = stablehlo.multiply %458, %arg41 : tensor<64xf32>
    %cst_126 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %460 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %461 = stablehlo.multiply %460, %313 : tensor<64xf32>
    %462 = stablehlo.multiply %461, %313 : tensor<64xf32>
    %463 = stablehlo.add %459, %462 : tensor<64xf32>
    %cst_127 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %464 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %465 = stablehlo.multiply %464, %arg42 : tensor<64xf32>
    %cst_128 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %466 = stablehlo.broadcast_in_dim %cst_128, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %467 = stablehlo.multiply %466, %314 : tensor<64xf32>
    %468 = stablehlo.multiply %467, %314 : tensor<64xf32>
    %469 = stablehlo.add %465, %468 : tensor<64xf32>
    %cst_129 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %470 = stablehlo.broadcast_in_dim %cst_129, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %471 = stablehlo.multiply %470, %arg43 : tensor<64x256xf32>
    %cst_130 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %472 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %473 = stablehlo.multiply %472, %315 : tensor<64x256xf32>
    %474 = stablehlo.multiply %473, %315 : tensor<64x256xf32>
    %475 = stablehlo.add %471, %474 : tensor<64x256xf32>
    %cst_131 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %476 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %477 = stablehlo.multiply %476, %arg44 : tensor<256xf32>
    %cst_132 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %478 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %479 = stablehlo.multiply %478, %316 : tensor<256xf32>
    %480 = stablehlo.multiply %479, %316 : tensor<256xf32>
    %481 = stablehlo.add %477, %480 : tensor<256xf32>
    %482 = stablehlo.sqrt %397 : tensor<256x64xf32>
    %cst_133 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %483 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %484 = stablehlo.add %482, %483 : tensor<256x64xf32>
    %485 = stablehlo.divide %321, %484 : tensor<256x64xf32>
    %486 = stablehlo.convert %arg0 : (tensor<256x64xbf16>) -> tensor<256x64xf32>
    %cst_134 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %487 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %488 = stablehlo.multiply %487, %486 : tensor<256x64xf32>
    %489 = stablehlo.add %485, %488 : tensor<256x64xf32>
    %cst_135 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %490 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %491 = stablehlo.multiply %490, %489 : tensor<256x64xf32>
    %492 = stablehlo.convert %arg0 : (tensor<256x64xbf16>) -> tensor<256x64xf32>
    %493 = stablehlo.subtract %492, %491 : tensor<256x64xf32>
    %494 = stablehlo.convert %493 : (tensor<256x64xf32>) -> tensor<256x64xbf16>
    %495 = stablehlo.sqrt %403 : tensor<64xf32>
    %cst_136 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %496 = stablehlo.broadcast_in_dim %cst_136, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %497 = stablehlo.add %495, %496 : tensor<64xf32>
    %498 = stablehlo.divide %326, %497 : tensor<64xf32>
    %499 = stablehlo.convert %arg1 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_137 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %500 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %501 = stablehlo.multiply %500, %499 : tensor<64xf32>
    %502 = stablehlo.add %498, %501 : tensor<64xf32>
    %cst_138 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %503 = stablehlo.broadcast_in_dim %cst_138, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %504 = stablehlo.multiply %503, %502 : tensor<64xf32>
    %505 = stablehlo.convert %arg1 : (tensor<64xbf16>) -> tensor<64xf32>
    %506 = stablehlo.subtract %505, %504 : tensor<64xf32>
    %507 = stablehlo.convert %506 : (tensor<64xf32>) -> tensor<64xbf16>
    %508 = stablehlo.sqrt %409 : tensor<64x10xf32>
    %cst_139 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %509 = stablehlo.broadcast_in_dim %cst_139, dims = [] : (tensor<f32>) -> tensor<64x10xf32>
    %510 = stablehlo.add %508, %509 : tensor<64x10xf32>
    %511 = stablehlo.divide %331, %510 : tensor<64x10xf32>
    %512 = stablehlo.convert %arg2 : (tensor<64x10xbf16>) -> tensor<64x10xf32>
    %cst_140 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %513 = stablehlo.broadcast_in_dim %cst_140, dims = [] : (tensor<f32>) -> tensor<64x10xf32>
    %514 = stablehlo.multiply %513, %512 : tensor<64x10xf32>
    %515 = stablehlo.add %511, %514 : tensor<64x10xf32>
    %cst_141 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %516 = stablehlo.broadcast_in_dim %cst_141, dims = [] : (tensor<f32>) -> tensor<64x10xf32>
    %517 = stablehlo.multiply %516, %515 : tensor<64x10xf32>
    %518 = stablehlo.convert %arg2 : (tensor<64x10xbf16>) -> tensor<64x10xf32>
    %519 = stablehlo.subtract %518, %517 : tensor<64x10xf32>
    %520 = stablehlo.convert %519 : (tensor<64x10xf32>) -> tensor<64x10xbf16>
    %521 = stablehlo.sqrt %415 : tensor<4x16x64xf32>
    %cst_142 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %522 = stablehlo.broadcast_in_dim %cst_142, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %523 = stablehlo.add %521, %522 : tensor<4x16x64xf32>
    %524 = stablehlo.divide %336, %523 : tensor<4x16x64xf32>
    %525 = stablehlo.convert %arg3 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %cst_143 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %526 = stablehlo.broadcast_in_dim %cst_143, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %527 = stablehlo.multiply %526, %525 : tensor<4x16x64xf32>
    %528 = stablehlo.add %524, %527 : tensor<4x16x64xf32>
    %cst_144 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %529 = stablehlo.broadcast_in_dim %cst_144, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %530 = stablehlo.multiply %529, %528 : tensor<4x16x64xf32>
    %531 = stablehlo.convert %arg3 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %532 = stablehlo.subtract %531, %530 : tensor<4x16x64xf32>
    %533 = stablehlo.convert %532 : (tensor<4x16x64xf32>) -> tensor<4x16x64xbf16>
    %534 = stablehlo.sqrt %421 : tensor<64xf32>
    %cst_145 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %535 = stablehlo.broadcast_in_dim %cst_145, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %536 = stablehlo.add %534, %535 : tensor<64xf32>
    %537 = stablehlo.divide %341, %536 : tensor<64xf32>
    %538 = stablehlo.convert %arg4 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_146 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %539 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %540 = stablehlo.multiply %539, %538 : tensor<64xf32>
    %541 = stablehlo.add %537, %540 : tensor<64xf32>
    %cst_147 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %542 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %543 = stablehlo.multiply %542, %541 : tensor<64xf32>
    %544 = stablehlo.convert %arg4 : (tensor<64xbf16>) -> tensor<64xf32>
    %545 = stablehlo.subtract %544, %543 : tensor<64xf32>
    %546 = stablehlo.convert %545 : (tensor<64xf32>) -> tensor<64xbf16>
    %547 = stablehlo.sqrt %427 : tensor<4x4x3x64xf32>
    %cst_148 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %548 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<4x4x3x64xf32>
    %549 = stablehlo.add %547, %548 : tensor<4x4x3x64xf32>
    %550 = stablehlo.divide %346, %549 : tensor<4x4x3x64xf32>
    %551 = stablehlo.convert %arg5 : (tensor<4x4x3x64xbf16>) -> tensor<4x4x3x64xf32>
    %cst_149 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %552 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<4x4x3x64xf32>
    %553 = stablehlo.multiply %552, %551 : tensor<4x4x3x64xf32>
    %554 = stablehlo.add %550, %553 : tensor<4x4x3x64xf32>
    %cst_150 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %555 = stablehlo.broadcast_in_dim %cst_150, dims = [] : (tensor<f32>) -> tensor<4x4x3x64xf32>
    %556 = stablehlo.multiply %555, %554 : tensor<4x4x3x64xf32>
    %557 = stablehlo.convert %arg5 : (tensor<4x4x3x64xbf16>) -> tensor<4x4x3x64xf32>
    %558 = stablehlo.subtract %557, %556 : tensor<4x4x3x64xf32>
    %559 = stablehlo.convert %558 : (tensor<4x4x3x64xf32>) -> tensor<4x4x3x64xbf16>
    %560 = stablehlo.sqrt %433 : tensor<25x64xf32>
    %cst_151 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %561 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<25x64xf32>
    %562 = stablehlo.add %560, %561 : tensor<25x64xf32>
    %563 = stablehlo.divide %351, %562 : tensor<25x64xf32>
    %564 = stablehlo.convert %arg6 : (tensor<25x64xbf16>) -> tensor<25x64xf32>
    %cst_152 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %565 = stablehlo.broadcast_in_dim %cst_152, dims = [] : (tensor<f32>) -> tensor<25x64xf32>
    %566 = stablehlo.multiply %565, %564 : tensor<25x64xf32>
    %567 = stablehlo.add %563, %566 : tensor<25x64xf32>
    %cst_153 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %568 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<25x64xf32>
    %569 = stablehlo.multiply %568, %567 : tensor<25x64xf32>
    %570 = stablehlo.convert %arg6 : (tensor<25x64xbf16>) -> tensor<25x64xf32>
    %571 = stablehlo.subtract %570, %569 : tensor<25x64xf32>
    %572 = stablehlo.convert %571 : (tensor<25x64xf32>) -> tensor<25x64xbf16>
    %573 = stablehlo.sqrt %439 : tensor<64x3x4x16xf32>
    %cst_154 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %574 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %575 = stablehlo.add %573, %574 : tensor<64x3x4x16xf32>
    %576 = stablehlo.divide %356, %575 : tensor<64x3x4x16xf32>
    %577 = stablehlo.convert %arg7 : (tensor<64x3x4x16xbf16>) -> tensor<64x3x4x16xf32>
    %cst_155 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %578 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %579 = stablehlo.multiply %578, %577 : tensor<64x3x4x16xf32>
    %580 = stablehlo.add %576, %579 : tensor<64x3x4x16xf32>
    %cst_156 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %581 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %582 = stablehlo.multiply %581, %580 : tensor<64x3x4x16xf32>
    %583 = stablehlo.convert %arg7 : (tensor<64x3x4x16xbf16>) -> tensor<64x3x4x16xf32>
    %584 = stablehlo.subtract %583, %582 : tensor<64x3x4x16xf32>
    %585 = stablehlo.convert %584 : (tensor<64x3x4x16xf32>) -> tensor<64x3x4x16xbf16>
    %586 = stablehlo.sqrt %445 : tensor<3x4x16xf32>
    %cst_157 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %587 = stablehlo.broadcast_in_dim %cst_157, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %588 = stablehlo.add %586, %587 : tensor<3x4x16xf32>
    %589 = stablehlo.divide %361, %588 : tensor<3x4x16xf32>
    %590 = stablehlo.convert %arg8 : (tensor<3x4x16xbf16>) -> tensor<3x4x16xf32>
    %cst_158 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %591 = stablehlo.broadcast_in_dim %cst_158, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %592 = stablehlo.multiply %591, %590 : tensor<3x4x16xf32>
    %593 = stablehlo.add %589, %592 : tensor<3x4x16xf32>
    %cst_159 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %594 = stablehlo.broadcast_in_dim %cst_159, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %595 = stablehlo.multiply %594, %593 : tensor<3x4x16xf32>
    %596 = stablehlo.convert %arg8 : (tensor<3x4x16xbf16>) -> tensor<3x4x16xf32>
    %597 = stablehlo.subtract %596, %595 : tensor<3x4x16xf32>
    %598 = stablehlo.convert %597 : (tensor<3x4x16xf32>) -> tensor<3x4x16xbf16>
    %599 = stablehlo.sqrt %451 : tensor<64xf32>
    %cst_160 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %600 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %601 = stablehlo.add %599, %600 : tensor<64xf32>
    %602 = stablehlo.divide %366, %601 : tensor<64xf32>
    %603 = stablehlo.convert %arg9 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_161 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %604 = stablehlo.broadcast_in_dim %cst_161, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %605 = stablehlo.multiply %604, %603 : tensor<64xf32>
    %606 = stablehlo.add %602, %605 : tensor<64xf32>
    %cst_162 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %607 = stablehlo.broadcast_in_dim %cst_162, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %608 = stablehlo.multiply %607, %606 : tensor<64xf32>
    %609 = stablehlo.convert %arg9 : (tensor<64xbf16>) -> tensor<64xf32>
    %610 = stablehlo.subtract %609, %608 : tensor<64xf32>
    %611 = stablehlo.convert %610 : (tensor<64xf32>) -> tensor<64xbf16>
    %612 = stablehlo.sqrt %457 : tensor<64xf32>
    %cst_163 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %613 = stablehlo.broadcast_in_dim %cst_163, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %614 = stablehlo.add %612, %613 : tensor<64xf32>
    %615 = stablehlo.divide %371, %614 : tensor<64xf32>
    %616 = stablehlo.convert %arg10 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_164 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %617 = stablehlo.broadcast_in_dim %cst_164, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %618 = stablehlo.multiply %617, %616 : tensor<64xf32>
    %619 = stablehlo.add %615, %618 : tensor<64xf32>
    %cst_165 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %620 = stablehlo.broadcast_in_dim %cst_165, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %621 = stablehlo.multiply %620, %619 : tensor<64xf32>
    %622 = stablehlo.convert %arg10 : (tensor<64xbf16>) -> tensor<64xf32>
    %623 = stablehlo.subtract %622, %621 : tensor<64xf32>
    %624 = stablehlo.convert %623 : (tensor<64xf32>) -> tensor<64xbf16>
    %625 = stablehlo.sqrt %463 : tensor<64xf32>
    %cst_166 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %626 = stablehlo.broadcast_in_dim %cst_166, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %627 = stablehlo.add %625, %626 : tensor<64xf32>
    %628 = stablehlo.divide %376, %627 : tensor<64xf32>
    %629 = stablehlo.convert %arg11 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_167 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %630 = stablehlo.broadcast_in_dim %cst_167, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %631 = stablehlo.multiply %630, %629 : tensor<64xf32>
    %632 = stablehlo.add %628, %631 : tensor<64xf32>
    %cst_168 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %633 = stablehlo.broadcast_in_dim %cst_168, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %634 = stablehlo.multiply %633, %632 : tensor<64xf32>
    %635 = stablehlo.convert %arg11 : (tensor<64xbf16>) -> tensor<64xf32>
    %636 = stablehlo.subtract %635, %634 : tensor<64xf32>
    %637 = stablehlo.convert %636 : (tensor<64xf32>) -> tensor<64xbf16>
    %638 = stablehlo.sqrt %469 : tensor<64xf32>
    %cst_169 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %639 = stablehlo.broadcast_in_dim %cst_169, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %640 = stablehlo.add %638, %639 : tensor<64xf32>
    %641 = stablehlo.divide %381, %640 : tensor<64xf32>
    %642 = stablehlo.convert %arg12 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_170 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %643 = stablehlo.broadcast_in_dim %cst_170, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %644 = stablehlo.multiply %643, %642 : tensor<64xf32>
    %645 = stablehlo.add %641, %644 : tensor<64xf32>
    %cst_171 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %646 = stablehlo.broadcast_in_dim %cst_171, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %647 = stablehlo.multiply %646, %645 : tensor<64xf32>
    %648 = stablehlo.convert %arg12 : (tensor<64xbf16>) -> tensor<64xf32>
    %649 = stablehlo.subtract %648, %647 : tensor<64xf32>
    %650 = stablehlo.convert %649 : (tensor<64xf32>) -> tensor<64xbf16>
    %651 = stablehlo.sqrt %475 : tensor<64x256xf32>
    %cst_172 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %652 = stablehlo.broadcast_in_dim %cst_172, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %653 = stablehlo.add %651, %652 : tensor<64x256xf32>
    %654 = stablehlo.divide %386, %653 : tensor<64x256xf32>
    %655 = stablehlo.convert %arg13 : (tensor<64x256xbf16>) -> tensor<64x256xf32>
    %cst_173 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %656 = stablehlo.broadcast_in_dim %cst_173, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %657 = stablehlo.multiply %656, %655 : tensor<64x256xf32>
    %658 = stablehlo.add %654, %657 : tensor<64x256xf32>
    %cst_174 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %659 = stablehlo.broadcast_in_dim %cst_174, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %660 = stablehlo.multiply %659, %658 : tensor<64x256xf32>
    %661 = stablehlo.convert %arg13 : (tensor<64x256xbf16>) -> tensor<64x256xf32>
    %662 = stablehlo.subtract %661, %660 : tensor<64x256xf32>
    %663 = stablehlo.convert %662 : (tensor<64x256xf32>) -> tensor<64x256xbf16>
    %664 = stablehlo.sqrt %481 : tensor<256xf32>
    %cst_175 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %665 = stablehlo.broadcast_in_dim %cst_175, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %666 = stablehlo.add %664, %665 : tensor<256xf32>
    %667 = stablehlo.divide %391, %666 : tensor<256xf32>
    %668 = stablehlo.convert %arg14 : (tensor<256xbf16>) -> tensor<256xf32>
    %cst_176 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %669 = stablehlo.broadcast_in_dim %cst_176, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %670 = stablehlo.multiply %669, %668 : tensor<256xf32>
    %671 = stablehlo.add %667, %670 : tensor<256xf32>
    %cst_177 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %672 = stablehlo.broadcast_in_dim %cst_177, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %673 = stablehlo.multiply %672, %671 : tensor<256xf32>
    %674 = stablehlo.convert %arg14 : (tensor<256xbf16>) -> tensor<256xf32>
    %675 = stablehlo.subtract %674, %673 : tensor<256xf32>
    %676 = stablehlo.convert %675 : (tensor<256xf32>) -> tensor<256xbf16>
    return %143, %301, %494, %507, %520, %533, %546, %559, %572, %585, %598, %611, %624, %637, %650, %663, %676, %321, %326, %331, %336, %341, %346, %351, %356, %361, %366, %371, %376, %381, %386, %391, %397, %403, %409, %415, %421, %427, %433, %439, %445, %451, %457, %463, %469, %475, %481 : tensor<f32>, tensor<2x20x20x3xbf16>, tensor<256x64xbf16>, tensor<64xbf16>, tensor<64x10xbf16>, tensor<4x16x64xbf16>, tensor<64xbf16>, tensor<4x4x3x64xbf16>, tensor<25x64xbf16>, tensor<64x3x4x16xbf16>, tensor<3x4x16xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64x256xbf16>, tensor<256xbf16>, tensor<256x64xf32>, tensor<64xf32>, tensor<64x10xf32>, tensor<4x16x64xf32>, tensor<64xf32>, tensor<4x4x3x64xf32>, tensor<25x64xf32>, tensor<64x3x4x16xf32>, tensor<3x4x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64x256xf32>, tensor<256xf32>, tensor<256x64xf32>, tensor<64xf32>, tensor<64x10xf32>, tensor<4x16x64xf32>, tensor<64xf32>, tensor<4x4x3x64xf32>, tensor<25x64xf32>, tensor<64x3x4x16xf32>, tensor<3x4x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64x256xf32>, tensor<256xf32>
  }
}
