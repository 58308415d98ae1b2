module @jit__step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<256x64xbf16> {tf.aliasing_output = 2 : i32}, %arg1: tensor<64xbf16> {tf.aliasing_output = 3 : i32}, %arg2: tensor<4x16x64xbf16> {tf.aliasing_output = 4 : i32}, %arg3: tensor<64xbf16> {tf.aliasing_output = 5 : i32}, %arg4: tensor<64x3x4x16xbf16> {tf.aliasing_output = 6 : i32}, %arg5: tensor<3x4x16xbf16> {tf.aliasing_output = 7 : i32}, %arg6: tensor<64xbf16> {tf.aliasing_output = 8 : i32}, %arg7: tensor<64xbf16> {tf.aliasing_output = 9 : i32}, %arg8: tensor<64xbf16> {tf.aliasing_output = 10 : i32}, %arg9: tensor<64xbf16> {tf.aliasing_output = 11 : i32}, %arg10: tensor<64x256xbf16> {tf.aliasing_output = 12 : i32}, %arg11: tensor<256xbf16> {tf.aliasing_output = 13 : i32}, %arg12: tensor<256x64xf32> {tf.aliasing_output = 14 : i32}, %arg13: tensor<64xf32> {tf.aliasing_output = 15 : i32}, %arg14: tensor<4x16x64xf32> {tf.aliasing_output = 16 : i32}, %arg15: tensor<64xf32> {tf.aliasing_output = 17 : i32}, %arg16: tensor<64x3x4x16xf32> {tf.aliasing_output = 18 : i32}, %arg17: tensor<3x4x16xf32> {tf.aliasing_output = 19 : i32}, %arg18: tensor<64xf32> {tf.aliasing_output = 20 : i32}, %arg19: tensor<64xf32> {tf.aliasing_output = 21 : i32}, %arg20: tensor<64xf32> {tf.aliasing_output = 22 : i32}, %arg21: tensor<64xf32> {tf.aliasing_output = 23 : i32}, %arg22: tensor<64x256xf32> {tf.aliasing_output = 24 : i32}, %arg23: tensor<256xf32> {tf.aliasing_output = 25 : i32}, %arg24: tensor<256x64xf32> {tf.aliasing_output = 26 : i32}, %arg25: tensor<64xf32> {tf.aliasing_output = 27 : i32}, %arg26: tensor<4x16x64xf32> {tf.aliasing_output = 28 : i32}, %arg27: tensor<64xf32> {tf.aliasing_output = 29 : i32}, %arg28: tensor<64x3x4x16xf32> {tf.aliasing_output = 30 : i32}, %arg29: tensor<3x4x16xf32> {tf.aliasing_output = 31 : i32}, %arg30: tensor<64xf32> {tf.aliasing_output = 32 : i32}, %arg31: tensor<64xf32> {tf.aliasing_output = 33 : i32}, %arg32: tensor<64xf32> {tf.aliasing_output = 34 : i32}, %arg33: tensor<64xf32> {tf.aliasing_output = 35 : i32}, %arg34: tensor<64x256xf32> {tf.aliasing_output = 36 : i32}, %arg35: tensor<256xf32> {tf.aliasing_output = 37 : i32}, %arg36: tensor<2x32x64xbf16>, %arg37: tensor<2x32x64xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x32x64xbf16> {jax.result_info = "result[1]"}, tensor<256x64xbf16> {jax.result_info = "result[2]['down']"}, tensor<64xbf16> {jax.result_info = "result[2]['down_bias']"}, tensor<4x16x64xbf16> {jax.result_info = "result[2]['o']"}, tensor<64xbf16> {jax.result_info = "result[2]['o_bias']"}, tensor<64x3x4x16xbf16> {jax.result_info = "result[2]['qkv']"}, tensor<3x4x16xbf16> {jax.result_info = "result[2]['qkv_bias']"}, tensor<64xbf16> {jax.result_info = "result[2]['scale1']"}, tensor<64xbf16> {jax.result_info = "result[2]['scale2']"}, tensor<64xbf16> {jax.result_info = "result[2]['shift1']"}, tensor<64xbf16> {jax.result_info = "result[2]['shift2']"}, tensor<64x256xbf16> {jax.result_info = "result[2]['up']"}, tensor<256xbf16> {jax.result_info = "result[2]['up_bias']"}, tensor<256x64xf32> {jax.result_info = "result[3]['down']"}, tensor<64xf32> {jax.result_info = "result[3]['down_bias']"}, tensor<4x16x64xf32> {jax.result_info = "result[3]['o']"}, tensor<64xf32> {jax.result_info = "result[3]['o_bias']"}, tensor<64x3x4x16xf32> {jax.result_info = "result[3]['qkv']"}, tensor<3x4x16xf32> {jax.result_info = "result[3]['qkv_bias']"}, tensor<64xf32> {jax.result_info = "result[3]['scale1']"}, tensor<64xf32> {jax.result_info = "result[3]['scale2']"}, tensor<64xf32> {jax.result_info = "result[3]['shift1']"}, tensor<64xf32> {jax.result_info = "result[3]['shift2']"}, tensor<64x256xf32> {jax.result_info = "result[3]['up']"}, tensor<256xf32> {jax.result_info = "result[3]['up_bias']"}, tensor<256x64xf32> {jax.result_info = "result[4]['down']"}, tensor<64xf32> {jax.result_info = "result[4]['down_bias']"}, tensor<4x16x64xf32> {jax.result_info = "result[4]['o']"}, tensor<64xf32> {jax.result_info = "result[4]['o_bias']"}, tensor<64x3x4x16xf32> {jax.result_info = "result[4]['qkv']"}, tensor<3x4x16xf32> {jax.result_info = "result[4]['qkv_bias']"}, tensor<64xf32> {jax.result_info = "result[4]['scale1']"}, tensor<64xf32> {jax.result_info = "result[4]['scale2']"}, tensor<64xf32> {jax.result_info = "result[4]['shift1']"}, tensor<64xf32> {jax.result_info = "result[4]['shift2']"}, tensor<64x256xf32> {jax.result_info = "result[4]['up']"}, tensor<256xf32> {jax.result_info = "result[4]['up_bias']"}) {
    %0 = stablehlo.convert %arg36 : (tensor<2x32x64xbf16>) -> tensor<2x32x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<2x32x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<2x32x64xf32>
    %7 = chlo.square %6 : tensor<2x32x64xf32> -> tensor<2x32x64xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x32x64xf32>
    %9 = stablehlo.multiply %8, %6 : tensor<2x32x64xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%7 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_3 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %13 = stablehlo.divide %11, %12 : tensor<2x32x1xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %15 = stablehlo.add %13, %14 : tensor<2x32x1xf32>
    %16 = stablehlo.rsqrt %15 : tensor<2x32x1xf32>
    %17 = stablehlo.divide %16, %15 : tensor<2x32x1xf32>
    %cst_5 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %19 = stablehlo.multiply %18, %17 : tensor<2x32x1xf32>
    %20 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %21 = stablehlo.multiply %6, %20 : tensor<2x32x64xf32>
    %22 = stablehlo.convert %21 : (tensor<2x32x64xf32>) -> tensor<2x32x64xbf16>
    %23 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %25 = stablehlo.multiply %22, %24 : tensor<2x32x64xbf16>
    %26 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %28 = stablehlo.add %25, %27 : tensor<2x32x64xbf16>
    %29 = stablehlo.dot_general %28, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x64xbf16>, tensor<64x3x4x16xbf16>) -> tensor<2x32x3x4x16xbf16>
    %30 = stablehlo.broadcast_in_dim %arg5, dims = [2, 3, 4] : (tensor<3x4x16xbf16>) -> tensor<1x1x3x4x16xbf16>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2, 3, 4] : (tensor<1x1x3x4x16xbf16>) -> tensor<2x32x3x4x16xbf16>
    %32 = stablehlo.add %29, %31 : tensor<2x32x3x4x16xbf16>
    %33 = stablehlo.transpose %32, dims = [2, 0, 1, 3, 4] : (tensor<2x32x3x4x16xbf16>) -> tensor<3x2x32x4x16xbf16>
    %34 = stablehlo.slice %33 [0:1, 0:2, 0:32, 0:4, 0:16] : (tensor<3x2x32x4x16xbf16>) -> tensor<1x2x32x4x16xbf16>
    %35 = stablehlo.reshape %34 : (tensor<1x2x32x4x16xbf16>) -> tensor<2x32x4x16xbf16>
    %36 = stablehlo.slice %33 [1:2, 0:2, 0:32, 0:4, 0:16] : (tensor<3x2x32x4x16xbf16>) -> tensor<1x2x32x4x16xbf16>
    %37 = stablehlo.reshape %36 : (tensor<1x2x32x4x16xbf16>) -> tensor<2x32x4x16xbf16>
    %38 = stablehlo.slice %33 [2:3, 0:2, 0:32, 0:4, 0:16] : (tensor<3x2x32x4x16xbf16>) -> tensor<1x2x32x4x16xbf16>
    %39 = stablehlo.reshape %38 : (tensor<1x2x32x4x16xbf16>) -> tensor<2x32x4x16xbf16>
    %40 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 4] : (tensor<2x32x4x16xbf16>) -> tensor<2x32x4x1x16xbf16>
    %41 = stablehlo.reshape %40 : (tensor<2x32x4x1x16xbf16>) -> tensor<2x32x4x16xbf16>
    %42 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2, 4] : (tensor<2x32x4x16xbf16>) -> tensor<2x32x4x1x16xbf16>
    %43 = stablehlo.reshape %42 : (tensor<2x32x4x1x16xbf16>) -> tensor<2x32x4x16xbf16>
    %44 = stablehlo.dot_general %35, %41, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x32x4x16xbf16>, tensor<2x32x4x16xbf16>) -> tensor<2x4x32x32xbf16>
    %45 = stablehlo.convert %44 : (tensor<2x4x32x32xbf16>) -> tensor<2x4x32x32xf32>
    %cst_6 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x4x32x32xf32>
    %47 = stablehlo.multiply %45, %46 : tensor<2x4x32x32xf32>
    %48 = stablehlo.iota dim = 0 : tensor<32xi32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %50 = stablehlo.broadcast_in_dim %48, dims = [1] : (tensor<32xi32>) -> tensor<1x32xi32>
    %51 = stablehlo.broadcast_in_dim %49, dims = [0, 1] : (tensor<32x1xi32>) -> tensor<32x32xi32>
    %52 = stablehlo.broadcast_in_dim %50, dims = [0, 1] : (tensor<1x32xi32>) -> tensor<32x32xi32>
    %53 = stablehlo.compare GE, %51, %52, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %54:2 = call @_where(%53, %47, %cst_7) : (tensor<32x32xi1>, tensor<2x4x32x32xf32>, tensor<f32>) -> (tensor<2x4x32x32xf32>, tensor<2x4x32x32xi1>)
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %55 = stablehlo.reduce(%54#0 init: %cst_8) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x4x32xf32>
    %57 = stablehlo.maximum %56, %55 : tensor<2x4x32xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2, 3] : (tensor<2x4x32x1xf32>) -> tensor<2x4x32x32xf32>
    %60 = stablehlo.subtract %54#0, %59 : tensor<2x4x32x32xf32>
    %61 = stablehlo.exponential %60 : tensor<2x4x32x32xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %62 = stablehlo.reduce(%61 init: %cst_10) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2, 3] : (tensor<2x4x32x1xf32>) -> tensor<2x4x32x32xf32>
    %65 = stablehlo.divide %61, %64 : tensor<2x4x32x32xf32>
    %66 = stablehlo.multiply %63, %63 : tensor<2x4x32x1xf32>
    %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x4x32x1xf32>
    %68 = stablehlo.divide %67, %66 : tensor<2x4x32x1xf32>
    %69 = stablehlo.convert %65 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xbf16>
    %70 = stablehlo.dot_general %43, %69, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x32x4x16xbf16>, tensor<2x4x32x32xbf16>) -> tensor<2x4x16x32xbf16>
    %71 = stablehlo.transpose %70, dims = [0, 3, 1, 2] : (tensor<2x4x16x32xbf16>) -> tensor<2x32x4x16xbf16>
    %72 = stablehlo.dot_general %71, %arg2, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x4x16xbf16>, tensor<4x16x64xbf16>) -> tensor<2x32x64xbf16>
    %73 = stablehlo.add %arg36, %72 : tensor<2x32x64xbf16>
    %74 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %76 = stablehlo.add %73, %75 : tensor<2x32x64xbf16>
    %77 = stablehlo.convert %76 : (tensor<2x32x64xbf16>) -> tensor<2x32x64xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %78 = stablehlo.reduce(%77 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_13 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %80 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %81 = stablehlo.divide %79, %80 : tensor<2x32x1xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %83 = stablehlo.subtract %77, %82 : tensor<2x32x64xf32>
    %84 = chlo.square %83 : tensor<2x32x64xf32> -> tensor<2x32x64xf32>
    %cst_14 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x32x64xf32>
    %86 = stablehlo.multiply %85, %83 : tensor<2x32x64xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %87 = stablehlo.reduce(%84 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %88 = stablehlo.broadcast_in_dim %87, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_16 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %90 = stablehlo.divide %88, %89 : tensor<2x32x1xf32>
    %cst_17 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %91 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %92 = stablehlo.add %90, %91 : tensor<2x32x1xf32>
    %93 = stablehlo.rsqrt %92 : tensor<2x32x1xf32>
    %94 = stablehlo.divide %93, %92 : tensor<2x32x1xf32>
    %cst_18 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %96 = stablehlo.multiply %95, %94 : tensor<2x32x1xf32>
    %97 = stablehlo.broadcast_in_dim %93, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %98 = stablehlo.multiply %83, %97 : tensor<2x32x64xf32>
    %99 = stablehlo.convert %98 : (tensor<2x32x64xf32>) -> tensor<2x32x64xbf16>
    %100 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %101 = stablehlo.broadcast_in_dim %100, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %102 = stablehlo.multiply %99, %101 : tensor<2x32x64xbf16>
    %103 = stablehlo.broadcast_in_dim %arg9, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %105 = stablehlo.add %102, %104 : tensor<2x32x64xbf16>
    %106 = stablehlo.dot_general %105, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x64xbf16>, tensor<64x256xbf16>) -> tensor<2x32x256xbf16>
    %107 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %108 = stablehlo.broadcast_in_dim %107, dims = [0, 1, 2] : (tensor<1x1x256xbf16>) -> tensor<2x32x256xbf16>
    %109 = stablehlo.add %106, %108 : tensor<2x32x256xbf16>
    %110 = stablehlo.multiply %109, %109 : tensor<2x32x256xbf16>
    %111 = stablehlo.multiply %110, %109 : tensor<2x32x256xbf16>
    %112 = stablehlo.multiply %109, %109 : tensor<2x32x256xbf16>
    %cst_19 = stablehlo.constant dense<3.000000e+00> : tensor<bf16>
    %113 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %114 = stablehlo.multiply %113, %112 : tensor<2x32x256xbf16>
    %cst_20 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %115 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %116 = stablehlo.multiply %115, %111 : tensor<2x32x256xbf16>
    %117 = stablehlo.add %109, %116 : tensor<2x32x256xbf16>
    %cst_21 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %118 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %119 = stablehlo.multiply %118, %117 : tensor<2x32x256xbf16>
    %120 = stablehlo.tanh %119 : tensor<2x32x256xbf16>
    %cst_22 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %121 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %122 = stablehlo.subtract %121, %120 : tensor<2x32x256xbf16>
    %cst_23 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %123 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %124 = stablehlo.add %123, %120 : tensor<2x32x256xbf16>
    %cst_24 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %125 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %126 = stablehlo.multiply %125, %124 : tensor<2x32x256xbf16>
    %127 = stablehlo.multiply %109, %126 : tensor<2x32x256xbf16>
    %128 = stablehlo.dot_general %127, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x256xbf16>, tensor<256x64xbf16>) -> tensor<2x32x64xbf16>
    %129 = stablehlo.add %76, %128 : tensor<2x32x64xbf16>
    %130 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %131 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %132 = stablehlo.add %129, %131 : tensor<2x32x64xbf16>
    %133 = stablehlo.subtract %132, %arg37 : tensor<2x32x64xbf16>
    %134 = stablehlo.convert %133 : (tensor<2x32x64xbf16>) -> tensor<2x32x64xf32>
    %135 = chlo.square %134 : tensor<2x32x64xf32> -> tensor<2x32x64xf32>
    %cst_25 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %136 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2x32x64xf32>
    %137 = stablehlo.multiply %136, %134 : tensor<2x32x64xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %138 = stablehlo.reduce(%135 init: %cst_26) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_27 = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %139 = stablehlo.divide %138, %cst_27 : tensor<f32>
    %cst_28 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_29 = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %140 = stablehlo.divide %cst_28, %cst_29 : tensor<f32>
    %141 = stablehlo.broadcast_in_dim %140, dims = [] : (tensor<f32>) -> tensor<2x32x64xf32>
    %142 = stablehlo.multiply %141, %137 : tensor<2x32x64xf32>
    %143 = stablehlo.convert %142 : (tensor<2x32x64xf32>) -> tensor<2x32x64xbf16>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %144 = stablehlo.reduce(%143 init: %cst_30) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x32x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %145 = stablehlo.reshape %144 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %146 = stablehlo.reduce(%145 init: %cst_31) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %147 = stablehlo.dot_general %143, %127, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x32x64xbf16>, tensor<2x32x256xbf16>) -> tensor<64x256xbf16>
    %148 = stablehlo.transpose %147, dims = [1, 0] : (tensor<64x256xbf16>) -> tensor<256x64xbf16>
    %149 = stablehlo.dot_general %143, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x32x64xbf16>, tensor<256x64xbf16>) -> tensor<2x32x256xbf16>
    %150 = stablehlo.multiply %109, %149 : tensor<2x32x256xbf16>
    %151 = stablehlo.multiply %149, %126 : tensor<2x32x256xbf16>
    %cst_32 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %152 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %153 = stablehlo.multiply %152, %150 : tensor<2x32x256xbf16>
    %154 = stablehlo.multiply %153, %122 : tensor<2x32x256xbf16>
    %155 = stablehlo.multiply %154, %120 : tensor<2x32x256xbf16>
    %156 = stablehlo.add %154, %155 : tensor<2x32x256xbf16>
    %cst_33 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %157 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %158 = stablehlo.multiply %157, %156 : tensor<2x32x256xbf16>
    %159 = stablehlo.add %151, %158 : tensor<2x32x256xbf16>
    %cst_34 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %160 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %161 = stablehlo.multiply %160, %158 : tensor<2x32x256xbf16>
    %162 = stablehlo.multiply %161, %114 : tensor<2x32x256xbf16>
    %163 = stablehlo.add %159, %162 : tensor<2x32x256xbf16>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %164 = stablehlo.reduce(%163 init: %cst_35) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x32x256xbf16>, tensor<bf16>) -> tensor<256xbf16>
    %165 = stablehlo.reshape %164 : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %166 = stablehlo.reduce(%165 init: %cst_36) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x256xbf16>, tensor<bf16>) -> tensor<256xbf16>
    %167 = stablehlo.dot_general %163, %105, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x32x256xbf16>, tensor<2x32x64xbf16>) -> tensor<256x64xbf16>
    %168 = stablehlo.transpose %167, dims = [1, 0] : (tensor<256x64xbf16>) -> tensor<64x256xbf16>
    %169 = stablehlo.dot_general %163, %arg10, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x32x256xbf16>, tensor<64x256xbf16>) -> tensor<2x32x64xbf16>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %170 = stablehlo.reduce(%169 init: %cst_37) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x32x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %171 = stablehlo.reshape %170 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %172 = stablehlo.reduce(%171 init: %cst_38) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %173 = stablehlo.multiply %99, %169 : tensor<2x32x64xbf16>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %174 = stablehlo.reduce(%173 init: %cst_39) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x32x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %175 = stablehlo.reshape %174 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %176 = stablehlo.broadcast_in_dim %100, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %177 = stablehlo.multiply %169, %176 : tensor<2x32x64xbf16>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %178 = stablehlo.reduce(%175 init: %cst_40) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %179 = stablehlo.convert %177 : (tensor<2x32x64xbf16>) -> tensor<2x32x64xf32>
    %180 = stablehlo.multiply %83, %179 : tensor<2x32x64xf32>
    %cst_41 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %181 = stablehlo.reduce(%180 init: %cst_41) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %182 = stablehlo.reshape %181 : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %183 = stablehlo.broadcast_in_dim %93, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %184 = stablehlo.multiply %179, %183 : tensor<2x32x64xf32>
    %185 = stablehlo.multiply %182, %96 : tensor<2x32x1xf32>
    %cst_42 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %186 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %187 = stablehlo.divide %185, %186 : tensor<2x32x1xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %188 = stablehlo.reduce(%187 init: %cst_43) applies stablehlo.add across dimensions = [2] : (tensor<2x32x1xf32>, tensor<f32>) -> tensor<2x32xf32>
    %189 = stablehlo.broadcast_in_dim %188, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x64xf32>
    %190 = stablehlo.multiply %189, %86 : tensor<2x32x64xf32>
    %191 = stablehlo.add %184, %190 : tensor<2x32x64xf32>
    %192 = stablehlo.negate %191 : tensor<2x32x64xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %193 = stablehlo.reduce(%192 init: %cst_44) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %194 = stablehlo.reshape %193 : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_45 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %195 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %196 = stablehlo.divide %194, %195 : tensor<2x32x1xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %197 = stablehlo.reduce(%196 init: %cst_46) applies stablehlo.add across dimensions = [2] : (tensor<2x32x1xf32>, tensor<f32>) -> tensor<2x32xf32>
    %198 = stablehlo.broadcast_in_dim %197, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x64xf32>
    %199 = stablehlo.add %191, %198 : tensor<2x32x64xf32>
    %200 = stablehlo.convert %199 : (tensor<2x32x64xf32>) -> tensor<2x32x64xbf16>
    %201 = stablehlo.add %143, %200 : tensor<2x32x64xbf16>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %202 = stablehlo.reduce(%201 init: %cst_47) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x32x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %203 = stablehlo.reshape %202 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %204 = stablehlo.reduce(%203 init: %cst_48) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %205 = stablehlo.dot_general %201, %71, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x32x64xbf16>, tensor<2x32x4x16xbf16>) -> tensor<64x4x16xbf16>
    %206 = stablehlo.transpose %205, dims = [1, 2, 0] : (tensor<64x4x16xbf16>) -> tensor<4x16x64xbf16>
    %207 = stablehlo.dot_general %201, %arg2, contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x32x64xbf16>, tensor<4x16x64xbf16>) -> tensor<2x32x4x16xbf16>
    %208 = stablehlo.transpose %207, dims = [0, 2, 3, 1] : (tensor<2x32x4x16xbf16>) -> tensor<2x4x16x32xbf16>
    %209 = stablehlo.dot_general %208, %43, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16x32xbf16>, tensor<2x32x4x16xbf16>) -> tensor<2x4x32x32xbf16>
    %210 = stablehlo.dot_general %208, %69, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16x32xbf16>, tensor<2x4x32x32xbf16>) -> tensor<2x4x16x32xbf16>
    %211 = stablehlo.transpose %210, dims = [0, 3, 1, 2] : (tensor<2x4x16x32xbf16>) -> tensor<2x32x4x16xbf16>
    %212 = stablehlo.convert %209 : (tensor<2x4x32x32xbf16>) -> tensor<2x4x32x32xf32>
    %213 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2, 3] : (tensor<2x4x32x1xf32>) -> tensor<2x4x32x32xf32>
    %214 = stablehlo.multiply %212, %213 : tensor<2x4x32x32xf32>
    %215 = stablehlo.multiply %214, %61 : tensor<2x4x32x32xf32>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %216 = stablehlo.reduce(%215 init: %cst_49) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %217 = stablehlo.reshape %216 : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %218 = stablehlo.negate %217 : tensor<2x4x32x1xf32>
    %219 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2, 3] : (tensor<2x4x32x1xf32>) -> tensor<2x4x32x32xf32>
    %220 = stablehlo.divide %212, %219 : tensor<2x4x32x32xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %221 = stablehlo.reduce(%218 init: %cst_50) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x1xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %222 = stablehlo.broadcast_in_dim %221, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x32xf32>
    %223 = stablehlo.add %220, %222 : tensor<2x4x32x32xf32>
    %224 = stablehlo.multiply %223, %61 : tensor<2x4x32x32xf32>
    %225 = call @_where_0(%54#1, %224) : (tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
    %cst_51 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %226 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<2x4x32x32xf32>
    %227 = stablehlo.multiply %225, %226 : tensor<2x4x32x32xf32>
    %228 = stablehlo.convert %227 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xbf16>
    %229 = stablehlo.dot_general %228, %35, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x32x32xbf16>, tensor<2x32x4x16xbf16>) -> tensor<2x4x32x16xbf16>
    %230 = stablehlo.transpose %229, dims = [0, 2, 1, 3] : (tensor<2x4x32x16xbf16>) -> tensor<2x32x4x16xbf16>
    %231 = stablehlo.dot_general %228, %41, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x32x32xbf16>, tensor<2x32x4x16xbf16>) -> tensor<2x4x32x16xbf16>
    %232 = stablehlo.transpose %231, dims = [0, 2, 1, 3] : (tensor<2x4x32x16xbf16>) -> tensor<2x32x4x16xbf16>
    %233 = stablehlo.reshape %211 : (tensor<2x32x4x16xbf16>) -> tensor<2x32x4x1x16xbf16>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %234 = stablehlo.reduce(%233 init: %cst_52) applies stablehlo.add across dimensions = [3] : (tensor<2x32x4x1x16xbf16>, tensor<bf16>) -> tensor<2x32x4x16xbf16>
    %235 = stablehlo.reshape %230 : (tensor<2x32x4x16xbf16>) -> tensor<2x32x4x1x16xbf16>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %236 = stablehlo.reduce(%235 init: %cst_53) applies stablehlo.add across dimensions = [3] : (tensor<2x32x4x1x16xbf16>, tensor<bf16>) -> tensor<2x32x4x16xbf16>
    %237 = stablehlo.broadcast_in_dim %234, dims = [1, 2, 3, 4] : (tensor<2x32x4x16xbf16>) -> tensor<1x2x32x4x16xbf16>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %238 = stablehlo.pad %237, %cst_54, low = [2, 0, 0, 0, 0], high = [0, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<1x2x32x4x16xbf16>, tensor<bf16>) -> tensor<3x2x32x4x16xbf16>
    %239 = stablehlo.broadcast_in_dim %236, dims = [1, 2, 3, 4] : (tensor<2x32x4x16xbf16>) -> tensor<1x2x32x4x16xbf16>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %240 = stablehlo.pad %239, %cst_55, low = [1, 0, 0, 0, 0], high = [1, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<1x2x32x4x16xbf16>, tensor<bf16>) -> tensor<3x2x32x4x16xbf16>
    %241 = stablehlo.add %238, %240 : tensor<3x2x32x4x16xbf16>
    %242 = stablehlo.broadcast_in_dim %232, dims = [1, 2, 3, 4] : (tensor<2x32x4x16xbf16>) -> tensor<1x2x32x4x16xbf16>
    %cst_56 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %243 = stablehlo.pad %242, %cst_56, low = [0, 0, 0, 0, 0], high = [2, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0] : (tensor<1x2x32x4x16xbf16>, tensor<bf16>) -> tensor<3x2x32x4x16xbf16>
    %244 = stablehlo.add %241, %243 : tensor<3x2x32x4x16xbf16>
    %245 = stablehlo.transpose %244, dims = [1, 2, 0, 3, 4] : (tensor<3x2x32x4x16xbf16>) -> tensor<2x32x3x4x16xbf16>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %246 = stablehlo.reduce(%245 init: %cst_57) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x32x3x4x16xbf16>, tensor<bf16>) -> tensor<3x4x16xbf16>
    %247 = stablehlo.reshape %246 : (tensor<3x4x16xbf16>) -> tensor<1x1x3x4x16xbf16>
    %cst_58 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %248 = stablehlo.reduce(%247 init: %cst_58) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x3x4x16xbf16>, tensor<bf16>) -> tensor<3x4x16xbf16>
    %249 = stablehlo.dot_general %245, %28, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x32x3x4x16xbf16>, tensor<2x32x64xbf16>) -> tensor<3x4x16x64xbf16>
    %250 = stablehlo.transpose %249, dims = [3, 0, 1, 2] : (tensor<3x4x16x64xbf16>) -> tensor<64x3x4x16xbf16>
    %251 = stablehlo.dot_general %245, %arg4, contracting_dims = [2, 3, 4] x [1, 2, 3], precision = [DEFAULT, DEFAULT] : (tensor<2x32x3x4x16xbf16>, tensor<64x3x4x16xbf16>) -> tensor<2x32x64xbf16>
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %252 = stablehlo.reduce(%251 init: %cst_59) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x32x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %253 = stablehlo.reshape %252 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %254 = stablehlo.reduce(%253 init: %cst_60) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %255 = stablehlo.multiply %22, %251 : tensor<2x32x64xbf16>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %256 = stablehlo.reduce(%255 init: %cst_61) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x32x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %257 = stablehlo.reshape %256 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %258 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %259 = stablehlo.multiply %251, %258 : tensor<2x32x64xbf16>
    %cst_62 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %260 = stablehlo.reduce(%257 init: %cst_62) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %261 = stablehlo.convert %259 : (tensor<2x32x64xbf16>) -> tensor<2x32x64xf32>
    %262 = stablehlo.multiply %6, %261 : tensor<2x32x64xf32>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %263 = stablehlo.reduce(%262 init: %cst_63) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %264 = stablehlo.reshape %263 : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %265 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %266 = stablehlo.multiply %261, %265 : tensor<2x32x64xf32>
    %267 = stablehlo.multiply %264, %19 : tensor<2x32x1xf32>
    %cst_64 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %268 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %269 = stablehlo.divide %267, %268 : tensor<2x32x1xf32>
    %cst_65 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %270 = stablehlo.reduce(%269 init: %cst_65) applies stablehlo.add across dimensions = [2] : (tensor<2x32x1xf32>, tensor<f32>) -> tensor<2x32xf32>
    %271 = stablehlo.broadcast_in_dim %270, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x64xf32>
    %272 = stablehlo.multiply %271, %9 : tensor<2x32x64xf32>
    %273 = stablehlo.add %266, %272 : tensor<2x32x64xf32>
    %274 = stablehlo.negate %273 : tensor<2x32x64xf32>
    %cst_66 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %275 = stablehlo.reduce(%274 init: %cst_66) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %276 = stablehlo.reshape %275 : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_67 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %277 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %278 = stablehlo.divide %276, %277 : tensor<2x32x1xf32>
    %cst_68 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %279 = stablehlo.reduce(%278 init: %cst_68) applies stablehlo.add across dimensions = [2] : (tensor<2x32x1xf32>, tensor<f32>) -> tensor<2x32xf32>
    %280 = stablehlo.broadcast_in_dim %279, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x64xf32>
    %281 = stablehlo.add %273, %280 : tensor<2x32x64xf32>
    %282 = stablehlo.convert %281 : (tensor<2x32x64xf32>) -> tensor<2x32x64xbf16>
    %283 = stablehlo.add %201, %282 : tensor<2x32x64xbf16>
    %284 = stablehlo.convert %148 : (tensor<256x64xbf16>) -> tensor<256x64xf32>
    %285 = stablehlo.convert %146 : (tensor<64xbf16>) -> tensor<64xf32>
    %286 = stablehlo.convert %206 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %287 = stablehlo.convert %204 : (tensor<64xbf16>) -> tensor<64xf32>
    %288 = stablehlo.convert %250 : (tensor<64x3x4x16xbf16>) -> tensor<64x3x4x16xf32>
    %289 = stablehlo.convert %248 : (tensor<3x4x16xbf16>) -> tensor<3x4x16xf32>
    %290 = stablehlo.convert %260 : (tensor<64xbf16>) -> tensor<64xf32>
    %291 = stablehlo.convert %178 : (tensor<64xbf16>) -> tensor<64xf32>
    %292 = stablehlo.convert %254 : (tensor<64xbf16>) -> tensor<64xf32>
    %293 = stablehlo.convert %172 : (tensor<64xbf16>) -> tensor<64xf32>
    %294 = stablehlo.convert %168 : (tensor<64x256xbf16>) -> tensor<64x256xf32>
    %295 = stablehlo.convert %166 : (tensor<256xbf16>) -> tensor<256xf32>
    %cst_69 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %296 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %297 = stablehlo.multiply %296, %arg12 : tensor<256x64xf32>
    %cst_70 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %298 = stablehlo.broadcast_in_dim %cst_70, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %299 = stablehlo.multiply %298, %284 : tensor<256x64xf32>
    %300 = stablehlo.add %297, %299 : tensor<256x64xf32>
    %cst_71 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %301 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %302 = stablehlo.multiply %301, %arg13 : tensor<64xf32>
    %cst_72 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %303 = stablehlo.broadcast_in_dim %cst_72, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %304 = stablehlo.multiply %303, %285 : tensor<64xf32>
    %305 = stablehlo.add %302, %304 : tensor<64xf32>
    %cst_73 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %306 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %307 = stablehlo.multiply %306, %arg14 : tensor<4x16x64xf32>
    %cst_74 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %308 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %309 = stablehlo.multiply %308, %286 : tensor<4x16x64xf32>
    %310 = stablehlo.add %307, %309 : tensor<4x16x64xf32>
    %cst_75 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %311 = stablehlo.broadcast_in_dim %cst_75, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %312 = stablehlo.multiply %311, %arg15 : tensor<64xf32>
    %cst_76 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %313 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %314 = stablehlo.multiply %313, %287 : tensor<64xf32>
    %315 = stablehlo.add %312, %314 : tensor<64xf32>
    %cst_77 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %316 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %317 = stablehlo.multiply %316, %arg16 : tensor<64x3x4x16xf32>
    %cst_78 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %318 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %319 = stablehlo.multiply %318, %288 : tensor<64x3x4x16xf32>
    %320 = stablehlo.add %317, %319 : tensor<64x3x4x16xf32>
    %cst_79 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %321 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %322 = stablehlo.multiply %321, %arg17 : tensor<3x4x16xf32>
    %cst_80 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %323 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %324 = stablehlo.multiply %323, %289 : tensor<3x4x16xf32>
    %325 = stablehlo.add %322, %324 : tensor<3x4x16xf32>
    %cst_81 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %326 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %327 = stablehlo.multiply %326, %arg18 : tensor<64xf32>
    %cst_82 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %328 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %329 = stablehlo.multiply %328, %290 : tensor<64xf32>
    %330 = stablehlo.add %327, %329 : tensor<64xf32>
    %cst_83 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %331 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %332 = stablehlo.multiply %331, %arg19 : tensor<64xf32>
    %cst_84 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %333 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %334 = stablehlo.multiply %333, %291 : tensor<64xf32>
    %335 = stablehlo.add %332, %334 : tensor<64xf32>
    %cst_85 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %336 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %337 = stablehlo.multiply %336, %arg20 : tensor<64xf32>
    %cst_86 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %338 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %339 = stablehlo.multiply %338, %292 : tensor<64xf32>
    %340 = stablehlo.add %337, %339 : tensor<64xf32>
    %cst_87 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %341 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %342 = stablehlo.multiply %341, %arg21 : tensor<64xf32>
    %cst_88 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %343 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %344 = stablehlo.multiply %343, %293 : tensor<64xf32>
    %345 = stablehlo.add %342, %344 : tensor<64xf32>
    %cst_89 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %346 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %347 = stablehlo.multiply %346, %arg22 : tensor<64x256xf32>
    %cst_90 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %348 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %349 = stablehlo.multiply %348, %294 : tensor<64x256xf32>
    %350 = stablehlo.add %347, %349 : tensor<64x256xf32>
    %cst_91 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %351 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %352 = stablehlo.multiply %351, %arg23 : tensor<256xf32>
    %cst_92 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %353 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %354 = stablehlo.multiply %353, %295 : tensor<256xf32>
    %355 = stablehlo.add %352, %354 : tensor<256xf32>
    %cst_93 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %356 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %357 = stablehlo.multiply %356, %arg24 : tensor<256x64xf32>
    %cst_94 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %358 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %359 = stablehlo.multiply %358, %284 : tensor<256x64xf32>
    %360 = stablehlo.multiply %359, %284 : tensor<256x64xf32>
    %361 = stablehlo.add %357, %360 : tensor<256x64xf32>
    %cst_95 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %362 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %363 = stablehlo.multiply %362, %arg25 : tensor<64xf32>
    %cst_96 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %364 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %365 = stablehlo.multiply %364, %285 : tensor<64xf32>
    %366 = stablehlo.multiply %365, %285 : tensor<64xf32>
    %367 = stablehlo.add %363, %366 : tensor<64xf32>
    %cst_97 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %368 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %369 = stablehlo.multiply %368, %arg26 : tensor<4x16x64xf32>
    %cst_98 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %370 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %371 = stablehlo.multiply %370, %286 : tensor<4x16x64xf32>
    %372 = stablehlo.multiply %371, %286 : tensor<4x16x64xf32>
    %373 = stablehlo.add %369, %372 : tensor<4x16x64xf32>
    %cst_99 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %374 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %375 = stablehlo.multiply %374, %arg27 : tensor<64xf32>
    %cst_100 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %376 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %377 = stablehlo.multiply %376, %287 : tensor<64xf32>
    %378 = stablehlo.multiply %377, %287 : tensor<64xf32>
    %379 = stablehlo.add %375, %378 : tensor<64xf32>
    %cst_101 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %380 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %381 = stablehlo.multiply %380, %arg28 : tensor<64x3x4x16xf32>
    %cst_102 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %382 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %383 = stablehlo.multiply %382, %288 : tensor<64x3x4x16xf32>
    %384 = stablehlo.multiply %383, %288 : tensor<64x3x4x16xf32>
    %385 = stablehlo.add %381, %384 : tensor<64x3x4x16xf32>
    %cst_103 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %386 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %387 = stablehlo.multiply %386, %arg29 : tensor<3x4x16xf32>
    %cst_104 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %388 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %389 = stablehlo.multiply %388, %289 : tensor<3x4x16xf32>
    %390 = stablehlo.multiply %389, %289 : tensor<3x4x16xf32>
    %391 = stablehlo.add %387, %390 : tensor<3x4x16xf32>
    %cst_105 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %392 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %393 = stablehlo.multiply %392, %arg30 : tensor<64xf32>
    %cst_106 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %394 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %395 = stablehlo.multiply %394, %290 : tensor<64xf32>
    %396 = stablehlo.multiply %395, %290 : tensor<64xf32>
    %397 = stablehlo.add %393, %396 : tensor<64xf32>
    %cst_107 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %398 = stablehlo.broadcast_in_dim %cst_107, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %399 = stablehlo.multiply %398, %arg31 : tensor<64xf32>
    %cst_108 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %400 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %401 = stablehlo.multiply %400, %291 : tensor<64xf32>
    %402 = stablehlo.multiply %401, %291 : tensor<64xf32>
    %403 = stablehlo.add %399, %402 : tensor<64xf32>
    %cst_109 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %404 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %405 = stablehlo.multiply %404, %arg32 : tensor<64xf32>
    %cst_110 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %406 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %407 = stablehlo.multiply %406, %292 : tensor<64xf32>
    %408 = stablehlo.multiply %407, %292 : tensor<64xf32>
    %409 = stablehlo.add %405, %408 : tensor<64xf32>
    %cst_111 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %410 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %411 = stablehlo.multiply %410, %arg33 : tensor<64xf32>
    %cst_112 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %412 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %413 = stablehlo.multiply %412, %293 : tensor<64xf32>
    %414 = stablehlo.multiply %413, %293 : tensor<64xf32>
    %415 = stablehlo.add %411, %414 : tensor<64xf32>
    %cst_113 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %416 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %417 = stablehlo.multiply %416, %arg34 : tensor<64x256xf32>
    %cst_114 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %418 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %419 = stablehlo.multiply %418, %294 : tensor<64x256xf32>
    %420 = stablehlo.multiply %419, %294 : tensor<64x256xf32>
    %421 = stablehlo.add %417, %420 : tensor<64x256xf32>
    %cst_115 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %422 = stablehlo.broadcast_in_dim %cst_115, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %423 = stablehlo.multiply %422, %arg35 : tensor<256xf32>
    %cst_116 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %424 = stablehlo.broadcast_in_dim %cst_116, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %425 = stablehlo.multiply %424, %295 : tensor<256xf32>
    %426 = stablehlo.multiply %425, %295 : tensor<256xf32>
    %427 = stablehlo.add %423, %426 : tensor<256xf32>
    %428 = stablehlo.sqrt %361 : tensor<256x64xf32>
    %cst_117 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %429 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %430 = stablehlo.add %428, %429 : tensor<256x64xf32>
    %431 = stablehlo.divide %300, %430 : tensor<256x64xf32>
    %432 = stablehlo.convert %arg0 : (tensor<256x64xbf16>) -> tensor<256x64xf32>
    %cst_118 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %433 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %434 = stablehlo.multiply %433, %432 : tensor<256x64xf32>
    %435 = stablehlo.add %431, %434 : tensor<256x64xf32>
    %cst_119 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %436 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
    %437 = stablehlo.multiply %436, %435 : tensor<256x64xf32>
    %438 = stablehlo.convert %arg0 : (tensor<256x64xbf16>) -> tensor<256x64xf32>
    %439 = stablehlo.subtract %438, %437 : tensor<256x64xf32>
    %440 = stablehlo.convert %439 : (tensor<256x64xf32>) -> tensor<256x64xbf16>
    %441 = stablehlo.sqrt %367 : tensor<64xf32>
    %cst_120 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %442 = stablehlo.broadcast_in_dim %cst_120, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %443 = stablehlo.add %441, %442 : tensor<64xf32>
    %444 = stablehlo.divide %305, %443 : tensor<64xf32>
    %445 = stablehlo.convert %arg1 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_121 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %446 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %447 = stablehlo.multiply %446, %445 : tensor<64xf32>
    %448 = stablehlo.add %444, %447 : tensor<64xf32>
    %cst_122 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %449 = stablehlo.broadcast_in_dim %cst_122, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %450 = stablehlo.multiply %449, %448 : tensor<64xf32>
    %451 = stablehlo.convert %arg1 : (tensor<64xbf16>) -> tensor<64xf32>
    %452 = stablehlo.subtract %451, %450 : tensor<64xf32>
    %453 = stablehlo.convert %452 : (tensor<64xf32>) -> tensor<64xbf16>
    %454 = stablehlo.sqrt %373 : tensor<4x16x64xf32>
    %cst_123 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %455 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %456 = stablehlo.add %454, %455 : tensor<4x16x64xf32>
    %457 = stablehlo.divide %310, %456 : tensor<4x16x64xf32>
    %458 = stablehlo.convert %arg2 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %cst_124 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %459 = stablehlo.broadcast_in_dim %cst_124, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %460 = stablehlo.multiply %459, %458 : tensor<4x16x64xf32>
    %461 = stablehlo.add %457, %460 : tensor<4x16x64xf32>
    %cst_125 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %462 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %463 = stablehlo.multiply %462, %461 : tensor<4x16x64xf32>
    %464 = stablehlo.convert %arg2 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %465 = stablehlo.subtract %464, %463 : tensor<4x16x64xf32>
    %466 = stablehlo.convert %465 : (tensor<4x16x64xf32>) -> tensor<4x16x64xbf16>
    %467 = stablehlo.sqrt %379 : tensor<64xf32>
    %cst_126 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %468 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %469 = stablehlo.add %467, %468 : tensor<64xf32>
    %470 = stablehlo.divide %315, %469 : tensor<64xf32>
    %471 = stablehlo.convert %arg3 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_127 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %472 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %473 = stablehlo.multiply %472, %471 : tensor<64xf32>
    %474 = stablehlo.add %470, %473 : tensor<64xf32>
    %cst_128 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %475 = stablehlo.broadcast_in_dim %cst_128, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %476 = stablehlo.multiply %475, %474 : tensor<64xf32>
    %477 = stablehlo.convert %arg3 : (tensor<64xbf16>) -> tensor<64xf32>
    %478 = stablehlo.subtract %477, %476 : tensor<64xf32>
    %479 = stablehlo.convert %478 : (tensor<64xf32>) -> tensor<64xbf16>
    %480 = stablehlo.sqrt %385 : tensor<64x3x4x16xf32>
    %cst_129 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %481 = stablehlo.broadcast_in_dim %cst_129, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %482 = stablehlo.add %480, %481 : tensor<64x3x4x16xf32>
    %483 = stablehlo.divide %320, %482 : tensor<64x3x4x16xf32>
    %484 = stablehlo.convert %arg4 : (tensor<64x3x4x16xbf16>) -> tensor<64x3x4x16xf32>
    %cst_130 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %485 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %486 = stablehlo.multiply %485, %484 : tensor<64x3x4x16xf32>
    %487 = stablehlo.add %483, %486 : tensor<64x3x4x16xf32>
    %cst_131 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %488 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<64x3x4x16xf32>
    %489 = stablehlo.multiply %488, %487 : tensor<64x3x4x16xf32>
    %490 = stablehlo.convert %arg4 : (tensor<64x3x4x16xbf16>) -> tensor<64x3x4x16xf32>
    %491 = stablehlo.subtract %490, %489 : tensor<64x3x4x16xf32>
    %492 = stablehlo.convert %491 : (tensor<64x3x4x16xf32>) -> tensor<64x3x4x16xbf16>
    %493 = stablehlo.sqrt %391 : tensor<3x4x16xf32>
    %cst_132 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %494 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %495 = stablehlo.add %493, %494 : tensor<3x4x16xf32>
    %496 = stablehlo.divide %325, %495 : tensor<3x4x16xf32>
    %497 = stablehlo.convert %arg5 : (tensor<3x4x16xbf16>) -> tensor<3x4x16xf32>
    %cst_133 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %498 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %499 = stablehlo.multiply %498, %497 : tensor<3x4x16xf32>
    %500 = stablehlo.add %496, %499 : tensor<3x4x16xf32>
    %cst_134 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %501 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<3x4x16xf32>
    %502 = stablehlo.multiply %501, %500 : tensor<3x4x16xf32>
    %503 = stablehlo.convert %arg5 : (tensor<3x4x16xbf16>) -> tensor<3x4x16xf32>
    %504 = stablehlo.subtract %503, %502 : tensor<3x4x16xf32>
    %505 = stablehlo.convert %504 : (tensor<3x4x16xf32>) -> tensor<3x4x16xbf16>
    %506 = stablehlo.sqrt %397 : tensor<64xf32>
    %cst_135 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %507 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %508 = stablehlo.add %506, %507 : tensor<64xf32>
    %509 = stablehlo.divide %330, %508 : tensor<64xf32>
    %510 = stablehlo.convert %arg6 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_136 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %511 = stablehlo.broadcast_in_dim %cst_136, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %512 = stablehlo.multiply %511, %510 : tensor<64xf32>
    %513 = stablehlo.add %509, %512 : tensor<64xf32>
    %cst_137 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %514 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %515 = stablehlo.multiply %514, %513 : tensor<64xf32>
    %516 = stablehlo.convert %arg6 : (tensor<64xbf16>) -> tensor<64xf32>
    %517 = stablehlo.subtract %516, %515 : tensor<64xf32>
    %518 = stablehlo.convert %517 : (tensor<64xf32>) -> tensor<64xbf16>
    %519 = stablehlo.sqrt %403 : tensor<64xf32>
    %cst_138 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %520 = stablehlo.broadcast_in_dim %cst_138, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %521 = stablehlo.add %519, %520 : tensor<64xf32>
    %522 = stablehlo.divide %335, %521 : tensor<64xf32>
    %523 = stablehlo.convert %arg7 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_139 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %524 = stablehlo.broadcast_in_dim %cst_139, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %525 = stablehlo.multiply %524, %523 : tensor<64xf32>
    %526 = stablehlo.add %522, %525 : tensor<64xf32>
    %cst_140 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %527 = stablehlo.broadcast_in_dim %cst_140, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %528 = stablehlo.multiply %527, %526 : tensor<64xf32>
    %529 = stablehlo.convert %arg7 : (tensor<64xbf16>) -> tensor<64xf32>
    %530 = stablehlo.subtract %529, %528 : tensor<64xf32>
    %531 = stablehlo.convert %530 : (tensor<64xf32>) -> tensor<64xbf16>
    %532 = stablehlo.sqrt %409 : tensor<64xf32>
    %cst_141 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %533 = stablehlo.broadcast_in_dim %cst_141, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %534 = stablehlo.add %532, %533 : tensor<64xf32>
    %535 = stablehlo.divide %340, %534 : tensor<64xf32>
    %536 = stablehlo.convert %arg8 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_142 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %537 = stablehlo.broadcast_in_dim %cst_142, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %538 = stablehlo.multiply %537, %536 : tensor<64xf32>
    %539 = stablehlo.add %535, %538 : tensor<64xf32>
    %cst_143 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %540 = stablehlo.broadcast_in_dim %cst_143, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %541 = stablehlo.multiply %540, %539 : tensor<64xf32>
    %542 = stablehlo.convert %arg8 : (tensor<64xbf16>) -> tensor<64xf32>
    %543 = stablehlo.subtract %542, %541 : tensor<64xf32>
    %544 = stablehlo.convert %543 : (tensor<64xf32>) -> tensor<64xbf16>
    %545 = stablehlo.sqrt %415 : tensor<64xf32>
    %cst_144 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %546 = stablehlo.broadcast_in_dim %cst_144, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %547 = stablehlo.add %545, %546 : tensor<64xf32>
    %548 = stablehlo.divide %345, %547 : tensor<64xf32>
    %549 = stablehlo.convert %arg9 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_145 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %550 = stablehlo.broadcast_in_dim %cst_145, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %551 = stablehlo.multiply %550, %549 : tensor<64xf32>
    %552 = stablehlo.add %548, %551 : tensor<64xf32>
    %cst_146 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %553 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %554 = stablehlo.multiply %553, %552 : tensor<64xf32>
    %555 = stablehlo.convert %arg9 : (tensor<64xbf16>) -> tensor<64xf32>
    %556 = stablehlo.subtract %555, %554 : tensor<64xf32>
    %557 = stablehlo.convert %556 : (tensor<64xf32>) -> tensor<64xbf16>
    %558 = stablehlo.sqrt %421 : tensor<64x256xf32>
    %cst_147 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %559 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %560 = stablehlo.add %558, %559 : tensor<64x256xf32>
    %561 = stablehlo.divide %350, %560 : tensor<64x256xf32>
    %562 = stablehlo.convert %arg10 : (tensor<64x256xbf16>) -> tensor<64x256xf32>
    %cst_148 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %563 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %564 = stablehlo.multiply %563, %562 : tensor<64x256xf32>
    %565 = stablehlo.add %561, %564 : tensor<64x256xf32>
    %cst_149 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %566 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<64x256xf32>
    %567 = stablehlo.multiply %566, %565 : tensor<64x256xf32>
    %568 = stablehlo.convert %arg10 : (tensor<64x256xbf16>) -> tensor<64x256xf32>
    %569 = stablehlo.subtract %568, %567 : tensor<64x256xf32>
    %570 = stablehlo.convert %569 : (tensor<64x256xf32>) -> tensor<64x256xbf16>
    %571 = stablehlo.sqrt %427 : tensor<256xf32>
    %cst_150 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %572 = stablehlo.broadcast_in_dim %cst_150, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %573 = stablehlo.add %571, %572 : tensor<256xf32>
    %574 = stablehlo.divide %355, %573 : tensor<256xf32>
    %575 = stablehlo.convert %arg11 : (tensor<256xbf16>) -> tensor<256xf32>
    %cst_151 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %576 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %577 = stablehlo.multiply %576, %575 : tensor<256xf32>
    %578 = stablehlo.add %574, %577 : tensor<256xf32>
    %cst_152 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %579 = stablehlo.broadcast_in_dim %cst_152, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %580 = stablehlo.multiply %579, %578 : tensor<256xf32>
    %581 = stablehlo.convert %arg11 : (tensor<256xbf16>) -> tensor<256xf32>
    %582 = stablehlo.subtract %581, %580 : tensor<256xf32>
    %583 = stablehlo.convert %582 : (tensor<256xf32>) -> tensor<256xbf16>
    return %139, %283, %440, %453, %466, %479, %492, %505, %518, %531, %544, %557, %570, %583, %300, %305, %310, %315, %320, %325, %330, %335, %340, %345, %350, %355, %361, %367, %373, %379, %385, %391, %397, %403, %409, %415, %421, %427 : tensor<f32>, tensor<2x32x64xbf16>, tensor<256x64xbf16>, tensor<64xbf16>, tensor<4x16x64xbf16>, tensor<64xbf16>, tensor<64x3x4x16xbf16>, tensor<3x4x16xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<64x256xbf16>, tensor<256xbf16>, tensor<256x64xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64xf32>, tensor<64x3x4x16xf32>, tensor<3x4x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64x256xf32>, tensor<256xf32>, tensor<256x64xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64xf32>, tensor<64x3x4x16xf32>, tensor<3x4x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64x256xf32>, tensor<256xf32>
  }
  func.func private @_where(%arg0: tensor<32x32xi1>, %arg1: tensor<2x4x32x32xf32>, %arg2: tensor<f32>) -> (tensor<2x4x32x32xf32>, tensor<2x4x32x32xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<2x4x32x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x4x32x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    return %3, %1 : tensor<2x4x32x32xf32>, tensor<2x4x32x32xi1>
  }
  func.func private @_where_0(%arg0: tensor<2x4x32x32xi1>, %arg1: tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x32x32xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    return %1 : tensor<2x4x32x32xf32>
  }
}
