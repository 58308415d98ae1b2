module @jit__step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64x4xbf16> {tf.aliasing_output = 2 : i32}, %arg1: tensor<32x2x64xbf16> {tf.aliasing_output = 3 : i32}, %arg2: tensor<32xbf16> {tf.aliasing_output = 4 : i32}, %arg3: tensor<64x32xbf16> {tf.aliasing_output = 5 : i32}, %arg4: tensor<64x12xbf16> {tf.aliasing_output = 6 : i32}, %arg5: tensor<64xbf16> {tf.aliasing_output = 7 : i32}, %arg6: tensor<4x64xbf16> {tf.aliasing_output = 8 : i32}, %arg7: tensor<64xbf16> {tf.aliasing_output = 9 : i32}, %arg8: tensor<4x64xbf16> {tf.aliasing_output = 10 : i32}, %arg9: tensor<64x4xf32> {tf.aliasing_output = 11 : i32}, %arg10: tensor<32x2x64xf32> {tf.aliasing_output = 12 : i32}, %arg11: tensor<32xf32> {tf.aliasing_output = 13 : i32}, %arg12: tensor<64x32xf32> {tf.aliasing_output = 14 : i32}, %arg13: tensor<64x12xf32> {tf.aliasing_output = 15 : i32}, %arg14: tensor<64xf32> {tf.aliasing_output = 16 : i32}, %arg15: tensor<4x64xf32> {tf.aliasing_output = 17 : i32}, %arg16: tensor<64xf32> {tf.aliasing_output = 18 : i32}, %arg17: tensor<4x64xf32> {tf.aliasing_output = 19 : i32}, %arg18: tensor<64x4xf32> {tf.aliasing_output = 20 : i32}, %arg19: tensor<32x2x64xf32> {tf.aliasing_output = 21 : i32}, %arg20: tensor<32xf32> {tf.aliasing_output = 22 : i32}, %arg21: tensor<64x32xf32> {tf.aliasing_output = 23 : i32}, %arg22: tensor<64x12xf32> {tf.aliasing_output = 24 : i32}, %arg23: tensor<64xf32> {tf.aliasing_output = 25 : i32}, %arg24: tensor<4x64xf32> {tf.aliasing_output = 26 : i32}, %arg25: tensor<64xf32> {tf.aliasing_output = 27 : i32}, %arg26: tensor<4x64xf32> {tf.aliasing_output = 28 : i32}, %arg27: tensor<2x16x32xbf16>, %arg28: tensor<2x16x32xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x16x32xbf16> {jax.result_info = "result[1]"}, tensor<64x4xbf16> {jax.result_info = "result[2]['decay']"}, tensor<32x2x64xbf16> {jax.result_info = "result[2]['in']"}, tensor<32xbf16> {jax.result_info = "result[2]['norm']"}, tensor<64x32xbf16> {jax.result_info = "result[2]['out']"}, tensor<64x12xbf16> {jax.result_info = "result[2]['select']"}, tensor<64xbf16> {jax.result_info = "result[2]['skip']"}, tensor<4x64xbf16> {jax.result_info = "result[2]['step']"}, tensor<64xbf16> {jax.result_info = "result[2]['step_bias']"}, tensor<4x64xbf16> {jax.result_info = "result[2]['taps']"}, tensor<64x4xf32> {jax.result_info = "result[3]['decay']"}, tensor<32x2x64xf32> {jax.result_info = "result[3]['in']"}, tensor<32xf32> {jax.result_info = "result[3]['norm']"}, tensor<64x32xf32> {jax.result_info = "result[3]['out']"}, tensor<64x12xf32> {jax.result_info = "result[3]['select']"}, tensor<64xf32> {jax.result_info = "result[3]['skip']"}, tensor<4x64xf32> {jax.result_info = "result[3]['step']"}, tensor<64xf32> {jax.result_info = "result[3]['step_bias']"}, tensor<4x64xf32> {jax.result_info = "result[3]['taps']"}, tensor<64x4xf32> {jax.result_info = "result[4]['decay']"}, tensor<32x2x64xf32> {jax.result_info = "result[4]['in']"}, tensor<32xf32> {jax.result_info = "result[4]['norm']"}, tensor<64x32xf32> {jax.result_info = "result[4]['out']"}, tensor<64x12xf32> {jax.result_info = "result[4]['select']"}, tensor<64xf32> {jax.result_info = "result[4]['skip']"}, tensor<4x64xf32> {jax.result_info = "result[4]['step']"}, tensor<64xf32> {jax.result_info = "result[4]['step_bias']"}, tensor<4x64xf32> {jax.result_info = "result[4]['taps']"}) {
    %0 = stablehlo.convert %arg27 : (tensor<2x16x32xbf16>) -> tensor<2x16x32xf32>
    %1 = chlo.square %0 : tensor<2x16x32xf32> -> tensor<2x16x32xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x32xf32>
    %3 = stablehlo.multiply %2, %0 : tensor<2x16x32xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%1 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_1 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %7 = stablehlo.divide %5, %6 : tensor<2x16x1xf32>
    %cst_2 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %9 = stablehlo.add %7, %8 : tensor<2x16x1xf32>
    %10 = stablehlo.rsqrt %9 : tensor<2x16x1xf32>
    %11 = stablehlo.divide %10, %9 : tensor<2x16x1xf32>
    %cst_3 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %13 = stablehlo.multiply %12, %11 : tensor<2x16x1xf32>
    %14 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %15 = stablehlo.multiply %0, %14 : tensor<2x16x32xf32>
    %16 = stablehlo.convert %15 : (tensor<2x16x32xf32>) -> tensor<2x16x32xbf16>
    %17 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x16x32xbf16>
    %19 = stablehlo.multiply %16, %18 : tensor<2x16x32xbf16>
    %20 = stablehlo.dot_general %19, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xbf16>, tensor<32x2x64xbf16>) -> tensor<2x16x2x64xbf16>
    %21 = stablehlo.transpose %20, dims = [2, 0, 1, 3] : (tensor<2x16x2x64xbf16>) -> tensor<2x2x16x64xbf16>
    %22 = stablehlo.slice %21 [0:1, 0:2, 0:16, 0:64] : (tensor<2x2x16x64xbf16>) -> tensor<1x2x16x64xbf16>
    %23 = stablehlo.reshape %22 : (tensor<1x2x16x64xbf16>) -> tensor<2x16x64xbf16>
    %24 = stablehlo.slice %21 [1:2, 0:2, 0:16, 0:64] : (tensor<2x2x16x64xbf16>) -> tensor<1x2x16x64xbf16>
    %25 = stablehlo.reshape %24 : (tensor<1x2x16x64xbf16>) -> tensor<2x16x64xbf16>
    %26 = stablehlo.broadcast_in_dim %arg8, dims = [0, 2] : (tensor<4x64xbf16>) -> tensor<4x1x64xbf16>
    %27 = stablehlo.convolution(%23, %26) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[3, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 64 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x64xbf16>, tensor<4x1x64xbf16>) -> tensor<2x16x64xbf16>
    %28:3 = call @silu(%27) : (tensor<2x16x64xbf16>) -> (tensor<2x16x64xbf16>, tensor<2x16x64xbf16>, tensor<2x16x64xbf16>)
    %29 = stablehlo.dot_general %28#0, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xbf16>, tensor<64x12xbf16>) -> tensor<2x16x12xbf16>
    %30 = stablehlo.slice %29 [0:2, 0:16, 0:4] : (tensor<2x16x12xbf16>) -> tensor<2x16x4xbf16>
    %31 = stablehlo.dot_general %30, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4xbf16>, tensor<4x64xbf16>) -> tensor<2x16x64xbf16>
    %32 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x16x64xbf16>
    %34 = stablehlo.add %31, %33 : tensor<2x16x64xbf16>
    %35 = stablehlo.convert %34 : (tensor<2x16x64xbf16>) -> tensor<2x16x64xf32>
    %36:2 = call @softplus(%35) : (tensor<2x16x64xf32>) -> (tensor<2x16x64xf32>, tensor<2x16x64xf32>)
    %37 = stablehlo.slice %29 [0:2, 0:16, 4:12] : (tensor<2x16x12xbf16>) -> tensor<2x16x8xbf16>
    %38 = stablehlo.convert %37 : (tensor<2x16x8xbf16>) -> tensor<2x16x8xf32>
    %39 = stablehlo.slice %38 [0:2, 0:16, 0:4] : (tensor<2x16x8xf32>) -> tensor<2x16x4xf32>
    %40 = stablehlo.slice %38 [0:2, 0:16, 4:8] : (tensor<2x16x8xf32>) -> tensor<2x16x4xf32>
    %41 = stablehlo.broadcast_in_dim %36#0, dims = [0, 1, 2] : (tensor<2x16x64xf32>) -> tensor<2x16x64x1xf32>
    %42 = stablehlo.negate %41 : tensor<2x16x64x1xf32>
    %43 = stablehlo.convert %arg0 : (tensor<64x4xbf16>) -> tensor<64x4xf32>
    %44 = stablehlo.exponential %43 : tensor<64x4xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [2, 3] : (tensor<64x4xf32>) -> tensor<1x1x64x4xf32>
    %46 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3] : (tensor<2x16x64x1xf32>) -> tensor<2x16x64x4xf32>
    %47 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<1x1x64x4xf32>) -> tensor<2x16x64x4xf32>
    %48 = stablehlo.multiply %46, %47 : tensor<2x16x64x4xf32>
    %49 = stablehlo.exponential %48 : tensor<2x16x64x4xf32>
    %50 = stablehlo.convert %28#0 : (tensor<2x16x64xbf16>) -> tensor<2x16x64xf32>
    %51 = stablehlo.multiply %36#0, %50 : tensor<2x16x64xf32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1, 2] : (tensor<2x16x64xf32>) -> tensor<2x16x64x1xf32>
    %53 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 3] : (tensor<2x16x4xf32>) -> tensor<2x16x1x4xf32>
    %54 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2, 3] : (tensor<2x16x64x1xf32>) -> tensor<2x16x64x4xf32>
    %55 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<2x16x1x4xf32>) -> tensor<2x16x64x4xf32>
    %56 = stablehlo.multiply %54, %55 : tensor<2x16x64x4xf32>
    %57 = stablehlo.slice %49 [0:2, 0:15:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x8x64x4xf32>
    %58 = stablehlo.slice %56 [0:2, 0:15:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x8x64x4xf32>
    %59 = stablehlo.slice %49 [0:2, 1:16:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x8x64x4xf32>
    %60 = stablehlo.slice %56 [0:2, 1:16:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x8x64x4xf32>
    %61 = stablehlo.multiply %57, %59 : tensor<2x8x64x4xf32>
    %62 = stablehlo.multiply %59, %58 : tensor<2x8x64x4xf32>
    %63 = stablehlo.add %62, %60 : tensor<2x8x64x4xf32>
    %64 = stablehlo.slice %61 [0:2, 0:7:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x4x64x4xf32>
    %65 = stablehlo.slice %63 [0:2, 0:7:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x4x64x4xf32>
    %66 = stablehlo.slice %61 [0:2, 1:8:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x4x64x4xf32>
    %67 = stablehlo.slice %63 [0:2, 1:8:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x4x64x4xf32>
    %68 = stablehlo.multiply %64, %66 : tensor<2x4x64x4xf32>
    %69 = stablehlo.multiply %66, %65 : tensor<2x4x64x4xf32>
    %70 = stablehlo.add %69, %67 : tensor<2x4x64x4xf32>
    %71 = stablehlo.slice %68 [0:2, 0:3:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x2x64x4xf32>
    %72 = stablehlo.slice %70 [0:2, 0:3:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x2x64x4xf32>
    %73 = stablehlo.slice %68 [0:2, 1:4:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x2x64x4xf32>
    %74 = stablehlo.slice %70 [0:2, 1:4:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x2x64x4xf32>
    %75 = stablehlo.multiply %71, %73 : tensor<2x2x64x4xf32>
    %76 = stablehlo.multiply %73, %72 : tensor<2x2x64x4xf32>
    %77 = stablehlo.add %76, %74 : tensor<2x2x64x4xf32>
    %78 = stablehlo.slice %77 [0:2, 0:1:2, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %79 = stablehlo.slice %75 [0:2, 1:2:2, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %80 = stablehlo.slice %77 [0:2, 1:2:2, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %81 = stablehlo.multiply %79, %78 : tensor<2x1x64x4xf32>
    %82 = stablehlo.add %81, %80 : tensor<2x1x64x4xf32>
    %83 = stablehlo.slice %82 [0:2, 0:0, 0:64, 0:4] : (tensor<2x1x64x4xf32>) -> tensor<2x0x64x4xf32>
    %84 = stablehlo.slice %75 [0:2, 2:2:2, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x0x64x4xf32>
    %85 = stablehlo.slice %77 [0:2, 2:2:2, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x0x64x4xf32>
    %86 = stablehlo.multiply %84, %83 : tensor<2x0x64x4xf32>
    %87 = stablehlo.add %86, %85 : tensor<2x0x64x4xf32>
    %88 = stablehlo.slice %77 [0:2, 0:1, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %89 = stablehlo.concatenate %88, %87, dim = 1 : (tensor<2x1x64x4xf32>, tensor<2x0x64x4xf32>) -> tensor<2x1x64x4xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %90 = stablehlo.pad %89, %cst_4, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x2x64x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %91 = stablehlo.pad %82, %cst_5, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x2x64x4xf32>
    %92 = stablehlo.add %90, %91 : tensor<2x2x64x4xf32>
    %93 = stablehlo.slice %92 [0:2, 0:1, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %94 = stablehlo.slice %68 [0:2, 2:4:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x1x64x4xf32>
    %95 = stablehlo.slice %70 [0:2, 2:4:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x1x64x4xf32>
    %96 = stablehlo.multiply %94, %93 : tensor<2x1x64x4xf32>
    %97 = stablehlo.add %96, %95 : tensor<2x1x64x4xf32>
    %98 = stablehlo.slice %70 [0:2, 0:1, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x1x64x4xf32>
    %99 = stablehlo.concatenate %98, %97, dim = 1 : (tensor<2x1x64x4xf32>, tensor<2x1x64x4xf32>) -> tensor<2x2x64x4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %100 = stablehlo.pad %99, %cst_6, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x2x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %101 = stablehlo.pad %92, %cst_7, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x2x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %102 = stablehlo.add %100, %101 : tensor<2x4x64x4xf32>
    %103 = stablehlo.slice %102 [0:2, 0:3, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x3x64x4xf32>
    %104 = stablehlo.slice %61 [0:2, 2:8:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x3x64x4xf32>
    %105 = stablehlo.slice %63 [0:2, 2:8:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x3x64x4xf32>
    %106 = stablehlo.multiply %104, %103 : tensor<2x3x64x4xf32>
    %107 = stablehlo.add %106, %105 : tensor<2x3x64x4xf32>
    %108 = stablehlo.slice %63 [0:2, 0:1, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x1x64x4xf32>
    %109 = stablehlo.concatenate %108, %107, dim = 1 : (tensor<2x1x64x4xf32>, tensor<2x3x64x4xf32>) -> tensor<2x4x64x4xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %110 = stablehlo.pad %109, %cst_8, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x4x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %111 = stablehlo.pad %102, %cst_9, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x4x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %112 = stablehlo.add %110, %111 : tensor<2x8x64x4xf32>
    %113 = stablehlo.slice %112 [0:2, 0:7, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x7x64x4xf32>
    %114 = stablehlo.slice %49 [0:2, 2:16:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x7x64x4xf32>
    %115 = stablehlo.slice %56 [0:2, 2:16:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x7x64x4xf32>
    %116 = stablehlo.multiply %114, %113 : tensor<2x7x64x4xf32>
    %117 = stablehlo.add %116, %115 : tensor<2x7x64x4xf32>
    %118 = stablehlo.slice %56 [0:2, 0:1, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x1x64x4xf32>
    %119 = stablehlo.concatenate %118, %117, dim = 1 : (tensor<2x1x64x4xf32>, tensor<2x7x64x4xf32>) -> tensor<2x8x64x4xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %120 = stablehlo.pad %119, %cst_10, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x8x64x4xf32>, tensor<f32>) -> tensor<2x16x64x4xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %121 = stablehlo.pad %112, %cst_11, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x8x64x4xf32>, tensor<f32>) -> tensor<2x16x64x4xf32>
    %122 = stablehlo.add %120, %121 : tensor<2x16x64x4xf32>
    %123 = stablehlo.dot_general %122, %40, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64x4xf32>, tensor<2x16x4xf32>) -> tensor<2x16x64xf32>
    %124 = stablehlo.convert %123 : (tensor<2x16x64xf32>) -> tensor<2x16x64xbf16>
    %125 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %126 = stablehlo.broadcast_in_dim %125, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x16x64xbf16>
    %127 = stablehlo.multiply %28#0, %126 : tensor<2x16x64xbf16>
    %128 = stablehlo.add %124, %127 : tensor<2x16x64xbf16>
    %129:3 = call @silu(%25) : (tensor<2x16x64xbf16>) -> (tensor<2x16x64xbf16>, tensor<2x16x64xbf16>, tensor<2x16x64xbf16>)
    %130 = stablehlo.multiply %128, %129#0 : tensor<2x16x64xbf16>
    %131 = stablehlo.dot_general %130, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xbf16>, tensor<64x32xbf16>) -> tensor<2x16x32xbf16>
    %132 = stablehlo.add %arg27, %131 : tensor<2x16x32xbf16>
    %133 = stablehlo.subtract %132, %arg28 : tensor<2x16x32xbf16>
    %134 = stablehlo.convert %133 : (tensor<2x16x32xbf16>) -> tensor<2x16x32xf32>
    %135 = chlo.square %134 : tensor<2x16x32xf32> -> tensor<2x16x32xf32>
    %cst_12 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %136 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x16x32xf32>
    %137 = stablehlo.multiply %136, %134 : tensor<2x16x32xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %138 = stablehlo.reduce(%135 init: %cst_13) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<f32>
    %cst_14 = stablehlo.constant dense<1.024000e+03> : tensor<f32>
    %139 = stablehlo.divide %138, %cst_14 : tensor<f32>
    %cst_15 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_16 = stablehlo.constant dense<1.024000e+03> : tensor<f32>
    %140 = stablehlo.divide %cst_15, %cst_16 : tensor<f32>
    %141 = stablehlo.broadcast_in_dim %140, dims = [] : (tensor<f32>) -> tensor<2x16x32xf32>
    %142 = stablehlo.multiply %141, %137 : tensor<2x16x32xf32>
    %143 = stablehlo.convert %142 : (tensor<2x16x32xf32>) -> tensor<2x16x32xbf16>
    %144 = stablehlo.dot_general %143, %130, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xbf16>, tensor<2x16x64xbf16>) -> tensor<32x64xbf16>
    %145 = stablehlo.transpose %144, dims = [1, 0] : (tensor<32x64xbf16>) -> tensor<64x32xbf16>
    %146 = stablehlo.dot_general %143, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xbf16>, tensor<64x32xbf16>) -> tensor<2x16x64xbf16>
    %147 = stablehlo.multiply %128, %146 : tensor<2x16x64xbf16>
    %148 = stablehlo.multiply %146, %129#0 : tensor<2x16x64xbf16>
    %149 = call @silu_0(%129#1, %129#2, %25, %147) : (tensor<2x16x64xbf16>, tensor<2x16x64xbf16>, tensor<2x16x64xbf16>, tensor<2x16x64xbf16>) -> tensor<2x16x64xbf16>
    %150 = stablehlo.multiply %28#0, %148 : tensor<2x16x64xbf16>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %151 = stablehlo.reduce(%150 init: %cst_17) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %152 = stablehlo.reshape %151 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %153 = stablehlo.broadcast_in_dim %125, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x16x64xbf16>
    %154 = stablehlo.multiply %148, %153 : tensor<2x16x64xbf16>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %155 = stablehlo.reduce(%152 init: %cst_18) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %156 = stablehlo.convert %148 : (tensor<2x16x64xbf16>) -> tensor<2x16x64xf32>
    %157 = stablehlo.dot_general %156, %122, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<2x16x64x4xf32>) -> tensor<2x16x4xf32>
    %158 = stablehlo.dot_general %156, %40, batching_dims = [0, 1] x [0, 1], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<2x16x4xf32>) -> tensor<2x16x64x4xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %159 = stablehlo.pad %158, %cst_19, low = [0, -1, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x16x64x4xf32>, tensor<f32>) -> tensor<2x15x64x4xf32>
    %160 = stablehlo.slice %159 [0:2, 0:15:2, 0:64, 0:4] : (tensor<2x15x64x4xf32>) -> tensor<2x8x64x4xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %161 = stablehlo.pad %158, %cst_20, low = [0, 0, 0, 0], high = [0, -1, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x16x64x4xf32>, tensor<f32>) -> tensor<2x15x64x4xf32>
    %162 = stablehlo.slice %161 [0:2, 0:15:2, 0:64, 0:4] : (tensor<2x15x64x4xf32>) -> tensor<2x8x64x4xf32>
    %163 = stablehlo.slice %162 [0:2, 0:1, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x1x64x4xf32>
    %164 = stablehlo.slice %162 [0:2, 1:8, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x7x64x4xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %165 = stablehlo.pad %163, %cst_21, low = [0, 0, 0, 0], high = [0, 15, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x16x64x4xf32>
    %166 = stablehlo.multiply %114, %164 : tensor<2x7x64x4xf32>
    %167 = stablehlo.multiply %164, %113 : tensor<2x7x64x4xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %168 = stablehlo.pad %164, %cst_22, low = [0, 2, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x7x64x4xf32>, tensor<f32>) -> tensor<2x16x64x4xf32>
    %169 = stablehlo.add %165, %168 : tensor<2x16x64x4xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %170 = stablehlo.pad %167, %cst_23, low = [0, 2, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x7x64x4xf32>, tensor<f32>) -> tensor<2x16x64x4xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %171 = stablehlo.pad %166, %cst_24, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x7x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %172 = stablehlo.add %160, %171 : tensor<2x8x64x4xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %173 = stablehlo.pad %172, %cst_25, low = [0, -1, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x8x64x4xf32>, tensor<f32>) -> tensor<2x7x64x4xf32>
    %174 = stablehlo.slice %173 [0:2, 0:7:2, 0:64, 0:4] : (tensor<2x7x64x4xf32>) -> tensor<2x4x64x4xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %175 = stablehlo.pad %172, %cst_26, low = [0, 0, 0, 0], high = [0, -1, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x8x64x4xf32>, tensor<f32>) -> tensor<2x7x64x4xf32>
    %176 = stablehlo.slice %175 [0:2, 0:7:2, 0:64, 0:4] : (tensor<2x7x64x4xf32>) -> tensor<2x4x64x4xf32>
    %177 = stablehlo.slice %176 [0:2, 0:1, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x1x64x4xf32>
    %178 = stablehlo.slice %176 [0:2, 1:4, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x3x64x4xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %179 = stablehlo.pad %177, %cst_27, low = [0, 0, 0, 0], high = [0, 7, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %180 = stablehlo.multiply %104, %178 : tensor<2x3x64x4xf32>
    %181 = stablehlo.multiply %178, %103 : tensor<2x3x64x4xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %182 = stablehlo.pad %178, %cst_28, low = [0, 2, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x3x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %183 = stablehlo.add %179, %182 : tensor<2x8x64x4xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %184 = stablehlo.pad %181, %cst_29, low = [0, 2, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x3x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %185 = stablehlo.pad %180, %cst_30, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x3x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %186 = stablehlo.add %174, %185 : tensor<2x4x64x4xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %187 = stablehlo.pad %186, %cst_31, low = [0, -1, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x4x64x4xf32>, tensor<f32>) -> tensor<2x3x64x4xf32>
    %188 = stablehlo.slice %187 [0:2, 0:3:2, 0:64, 0:4] : (tensor<2x3x64x4xf32>) -> tensor<2x2x64x4xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %189 = stablehlo.pad %186, %cst_32, low = [0, 0, 0, 0], high = [0, -1, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x4x64x4xf32>, tensor<f32>) -> tensor<2x3x64x4xf32>
    %190 = stablehlo.slice %189 [0:2, 0:3:2, 0:64, 0:4] : (tensor<2x3x64x4xf32>) -> tensor<2x2x64x4xf32>
    %191 = stablehlo.slice %190 [0:2, 0:1, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %192 = stablehlo.slice %190 [0:2, 1:2, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %193 = stablehlo.pad %191, %cst_33, low = [0, 0, 0, 0], high = [0, 3, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %194 = stablehlo.multiply %94, %192 : tensor<2x1x64x4xf32>
    %195 = stablehlo.multiply %192, %93 : tensor<2x1x64x4xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %196 = stablehlo.pad %192, %cst_34, low = [0, 2, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %197 = stablehlo.add %193, %196 : tensor<2x4x64x4xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %198 = stablehlo.pad %195, %cst_35, low = [0, 2, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %199 = stablehlo.pad %194, %cst_36, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x2x64x4xf32>
    %200 = stablehlo.add %188, %199 : tensor<2x2x64x4xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %201 = stablehlo.pad %200, %cst_37, low = [0, -1, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x2x64x4xf32>, tensor<f32>) -> tensor<2x1x64x4xf32>
    %202 = stablehlo.slice %201 [0:2, 0:1:2, 0:64, 0:4] : (tensor<2x1x64x4xf32>) -> tensor<2x1x64x4xf32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %203 = stablehlo.pad %200, %cst_38, low = [0, 0, 0, 0], high = [0, -1, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x2x64x4xf32>, tensor<f32>) -> tensor<2x1x64x4xf32>
    %204 = stablehlo.slice %203 [0:2, 0:1:2, 0:64, 0:4] : (tensor<2x1x64x4xf32>) -> tensor<2x1x64x4xf32>
    %205 = stablehlo.slice %204 [0:2, 0:1, 0:64, 0:4] : (tensor<2x1x64x4xf32>) -> tensor<2x1x64x4xf32>
    %206 = stablehlo.slice %204 [0:2, 1:1, 0:64, 0:4] : (tensor<2x1x64x4xf32>) -> tensor<2x0x64x4xf32>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %207 = stablehlo.pad %205, %cst_39, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x2x64x4xf32>
    %208 = stablehlo.multiply %84, %206 : tensor<2x0x64x4xf32>
    %209 = stablehlo.multiply %206, %83 : tensor<2x0x64x4xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %210 = stablehlo.pad %206, %cst_40, low = [0, 2, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x0x64x4xf32>, tensor<f32>) -> tensor<2x2x64x4xf32>
    %211 = stablehlo.add %207, %210 : tensor<2x2x64x4xf32>
    %cst_41 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %212 = stablehlo.pad %209, %cst_41, low = [0, 2, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x0x64x4xf32>, tensor<f32>) -> tensor<2x2x64x4xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %213 = stablehlo.pad %208, %cst_42, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x0x64x4xf32>, tensor<f32>) -> tensor<2x1x64x4xf32>
    %214 = stablehlo.add %202, %213 : tensor<2x1x64x4xf32>
    %215 = stablehlo.multiply %79, %214 : tensor<2x1x64x4xf32>
    %216 = stablehlo.multiply %214, %78 : tensor<2x1x64x4xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %217 = stablehlo.pad %214, %cst_43, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x2x64x4xf32>
    %218 = stablehlo.add %211, %217 : tensor<2x2x64x4xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %219 = stablehlo.pad %216, %cst_44, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x2x64x4xf32>
    %220 = stablehlo.add %212, %219 : tensor<2x2x64x4xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %221 = stablehlo.pad %215, %cst_45, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x2x64x4xf32>
    %222 = stablehlo.add %218, %221 : tensor<2x2x64x4xf32>
    %223 = stablehlo.multiply %73, %222 : tensor<2x2x64x4xf32>
    %224 = stablehlo.multiply %222, %72 : tensor<2x2x64x4xf32>
    %225 = stablehlo.multiply %71, %220 : tensor<2x2x64x4xf32>
    %226 = stablehlo.add %224, %225 : tensor<2x2x64x4xf32>
    %227 = stablehlo.multiply %220, %73 : tensor<2x2x64x4xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %228 = stablehlo.pad %222, %cst_46, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x2x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %229 = stablehlo.add %197, %228 : tensor<2x4x64x4xf32>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %230 = stablehlo.pad %226, %cst_47, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x2x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %231 = stablehlo.add %198, %230 : tensor<2x4x64x4xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %232 = stablehlo.pad %223, %cst_48, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x2x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %233 = stablehlo.add %229, %232 : tensor<2x4x64x4xf32>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %234 = stablehlo.pad %227, %cst_49, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x2x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %235 = stablehlo.add %231, %234 : tensor<2x4x64x4xf32>
    %236 = stablehlo.multiply %66, %233 : tensor<2x4x64x4xf32>
    %237 = stablehlo.multiply %233, %65 : tensor<2x4x64x4xf32>
    %238 = stablehlo.multiply %64, %235 : tensor<2x4x64x4xf32>
    %239 = stablehlo.add %237, %238 : tensor<2x4x64x4xf32>
    %240 = stablehlo.multiply %235, %66 : tensor<2x4x64x4xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %241 = stablehlo.pad %233, %cst_50, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x4x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %242 = stablehlo.add %183, %241 : tensor<2x8x64x4xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %243 = stablehlo.pad %239, %cst_51, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x4x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %244 = stablehlo.add %184, %243 : tensor<2x8x64x4xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %245 = stablehlo.pad %236, %cst_52, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x4x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %246 = stablehlo.add %242, %245 : tensor<2x8x64x4xf32>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %247 = stablehlo.pad %240, %cst_53, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x4x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %248 = stablehlo.add %244, %247 : tensor<2x8x64x4xf32>
    %249 = stablehlo.multiply %59, %246 : tensor<2x8x64x4xf32>
    %250 = stablehlo.multiply %246, %58 : tensor<2x8x64x4xf32>
    %251 = stablehlo.multiply %57, %248 : tensor<2x8x64x4xf32>
    %252 = stablehlo.add %250, %251 : tensor<2x8x64x4xf32>
    %253 = stablehlo.multiply %248, %59 : tensor<2x8x64x4xf32>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %254 = stablehlo.pad %246, %cst_54, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x8x64x4xf32>, tensor<f32>) -> tensor<2x16x64x4xf32>
    %255 = stablehlo.add %169, %254 : tensor<2x16x64x4xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %256 = stablehlo.pad %252, %cst_55, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x8x64x4xf32>, tensor<f32>) -> tensor<2x16x64x4xf32>
    %257 = stablehlo.add %170, %256 : tensor<2x16x64x4xf32>
    %cst_56 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %258 = stablehlo.pad %249, %cst_56, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x8x64x4xf32>, tensor<f32>) -> tensor<2x16x64x4xf32>
    %259 = stablehlo.add %255, %258 : tensor<2x16x64x4xf32>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %260 = stablehlo.pad %253, %cst_57, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x8x64x4xf32>, tensor<f32>) -> tensor<2x16x64x4xf32>
    %261 = stablehlo.add %257, %260 : tensor<2x16x64x4xf32>
    %262 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2, 3] : (tensor<2x16x64x1xf32>) -> tensor<2x16x64x4xf32>
    %263 = stablehlo.multiply %262, %259 : tensor<2x16x64x4xf32>
    %cst_58 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %264 = stablehlo.reduce(%263 init: %cst_58) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64x4xf32>, tensor<f32>) -> tensor<2x16x4xf32>
    %265 = stablehlo.reshape %264 : (tensor<2x16x4xf32>) -> tensor<2x16x1x4xf32>
    %266 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<2x16x1x4xf32>) -> tensor<2x16x64x4xf32>
    %267 = stablehlo.multiply %259, %266 : tensor<2x16x64x4xf32>
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %268 = stablehlo.reduce(%267 init: %cst_59) applies stablehlo.add across dimensions = [3] : (tensor<2x16x64x4xf32>, tensor<f32>) -> tensor<2x16x64xf32>
    %269 = stablehlo.reshape %268 : (tensor<2x16x64xf32>) -> tensor<2x16x64x1xf32>
    %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %270 = stablehlo.reduce(%265 init: %cst_60) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1x4xf32>, tensor<f32>) -> tensor<2x16x4xf32>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %271 = stablehlo.reduce(%269 init: %cst_61) applies stablehlo.add across dimensions = [3] : (tensor<2x16x64x1xf32>, tensor<f32>) -> tensor<2x16x64xf32>
    %272 = stablehlo.multiply %36#0, %271 : tensor<2x16x64xf32>
    %273 = stablehlo.multiply %271, %50 : tensor<2x16x64xf32>
    %274 = stablehlo.convert %272 : (tensor<2x16x64xf32>) -> tensor<2x16x64xbf16>
    %275 = stablehlo.add %154, %274 : tensor<2x16x64xbf16>
    %276 = stablehlo.multiply %261, %49 : tensor<2x16x64x4xf32>
    %277 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3] : (tensor<2x16x64x1xf32>) -> tensor<2x16x64x4xf32>
    %278 = stablehlo.multiply %277, %276 : tensor<2x16x64x4xf32>
    %cst_62 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %279 = stablehlo.reduce(%278 init: %cst_62) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x64x4xf32>, tensor<f32>) -> tensor<64x4xf32>
    %280 = stablehlo.reshape %279 : (tensor<64x4xf32>) -> tensor<1x1x64x4xf32>
    %281 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<1x1x64x4xf32>) -> tensor<2x16x64x4xf32>
    %282 = stablehlo.multiply %276, %281 : tensor<2x16x64x4xf32>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %283 = stablehlo.reduce(%282 init: %cst_63) applies stablehlo.add across dimensions = [3] : (tensor<2x16x64x4xf32>, tensor<f32>) -> tensor<2x16x64xf32>
    %284 = stablehlo.reshape %283 : (tensor<2x16x64xf32>) -> tensor<2x16x64x1xf32>
    %cst_64 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %285 = stablehlo.reduce(%280 init: %cst_64) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64x4xf32>, tensor<f32>) -> tensor<64x4xf32>
    %286 = stablehlo.multiply %285, %44 : tensor<64x4xf32>
    %287 = stablehlo.convert %286 : (tensor<64x4xf32>) -> tensor<64x4xbf16>
    %288 = stablehlo.negate %284 : tensor<2x16x64x1xf32>
    %cst_65 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %289 = stablehlo.reduce(%288 init: %cst_65) applies stablehlo.add across dimensions = [3] : (tensor<2x16x64x1xf32>, tensor<f32>) -> tensor<2x16x64xf32>
    %290 = stablehlo.add %273, %289 : tensor<2x16x64xf32>
    %291 = stablehlo.concatenate %270, %157, dim = 2 : (tensor<2x16x4xf32>, tensor<2x16x4xf32>) -> tensor<2x16x8xf32>
    %292 = stablehlo.convert %291 : (tensor<2x16x8xf32>) -> tensor<2x16x8xbf16>
    %cst_66 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %293 = stablehlo.pad %292, %cst_66, low = [0, 0, 4], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<2x16x8xbf16>, tensor<bf16>) -> tensor<2x16x12xbf16>
    %294 = call @softplus_1(%36#1, %290) : (tensor<2x16x64xf32>, tensor<2x16x64xf32>) -> tensor<2x16x64xf32>
    %295 = stablehlo.convert %294 : (tensor<2x16x64xf32>) -> tensor<2x16x64xbf16>
    %cst_67 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %296 = stablehlo.reduce(%295 init: %cst_67) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %297 = stablehlo.reshape %296 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %cst_68 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %298 = stablehlo.reduce(%297 init: %cst_68) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %299 = stablehlo.dot_general %295, %30, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xbf16>, tensor<2x16x4xbf16>) -> tensor<64x4xbf16>
    %300 = stablehlo.transpose %299, dims = [1, 0] : (tensor<64x4xbf16>) -> tensor<4x64xbf16>
    %301 = stablehlo.dot_general %295, %arg6, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xbf16>, tensor<4x64xbf16>) -> tensor<2x16x4xbf16>
    %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %302 = stablehlo.pad %301, %cst_69, low = [0, 0, 0], high = [0, 0, 8], interior = [0, 0, 0] : (tensor<2x16x4xbf16>, tensor<bf16>) -> tensor<2x16x12xbf16>
    %303 = stablehlo.add %293, %302 : tensor<2x16x12xbf16>
    %304 = stablehlo.dot_general %303, %28#0, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x12xbf16>, tensor<2x16x64xbf16>) -> tensor<12x64xbf16>
    %305 = stablehlo.transpose %304, dims = [1, 0] : (tensor<12x64xbf16>) -> tensor<64x12xbf16>
    %306 = stablehlo.dot_general %303, %arg4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x12xbf16>, tensor<64x12xbf16>) -> tensor<2x16x64xbf16>
    %307 = stablehlo.add %275, %306 : tensor<2x16x64xbf16>
    %308 = call @silu_0(%28#1, %28#2, %27, %307) : (tensor<2x16x64xbf16>, tensor<2x16x64xbf16>, tensor<2x16x64xbf16>, tensor<2x16x64xbf16>) -> tensor<2x16x64xbf16>
    %309 = stablehlo.convolution(%23, %308) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {stride = [1], pad = [[3, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 64 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x64xbf16>, tensor<2x16x64xbf16>) -> tensor<4x1x64xbf16>
    %310 = stablehlo.reshape %26 : (tensor<4x1x64xbf16>) -> tensor<4x1x64x1xbf16>
    %311 = stablehlo.transpose %310, dims = [0, 2, 1, 3] : (tensor<4x1x64x1xbf16>) -> tensor<4x64x1x1xbf16>
    %312 = stablehlo.reshape %311 : (tensor<4x64x1x1xbf16>) -> tensor<4x64x1xbf16>
    %313 = stablehlo.reverse %312, dims = [0] : tensor<4x64x1xbf16>
    %314 = stablehlo.convolution(%308, %313) dim_numbers = [b, 0, f]x[0, o, i]->[b, 0, f], window = {stride = [1], pad = [[0, 3]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 64 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x64xbf16>, tensor<4x64x1xbf16>) -> tensor<2x16x64xbf16>
    %cst_70 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %315 = stablehlo.reduce(%309 init: %cst_70) applies stablehlo.add across dimensions = [1] : (tensor<4x1x64xbf16>, tensor<bf16>) -> tensor<4x64xbf16>
    %316 = stablehlo.broadcast_in_dim %149, dims = [1, 2, 3] : (tensor<2x16x64xbf16>) -> tensor<1x2x16x64xbf16>
    %cst_71 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %317 = stablehlo.pad %316, %cst_71, low = [1, 0, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<1x2x16x64xbf16>, tensor<bf16>) -> tensor<2x2x16x64xbf16>
    %318 = stablehlo.broadcast_in_dim %314, dims = [1, 2, 3] : (tensor<2x16x64xbf16>) -> tensor<1x2x16x64xbf16>
    %cst_72 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %319 = stablehlo.pad %318, %cst_72, low = [0, 0, 0, 0], high = [1, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<1x2x16x64xbf16>, tensor<bf16>) -> tensor<2x2x16x64xbf16>
    %320 = stablehlo.add %317, %319 : tensor<2x2x16x64xbf16>
    %321 = stablehlo.transpose %320, dims = [1, 2, 0, 3] : (tensor<2x2x16x64xbf16>) -> tensor<2x16x2x64xbf16>
    %322 = stablehlo.dot_general %321, %19, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x2x64xbf16>, tensor<2x16x32xbf16>) -> tensor<2x64x32xbf16>
    %323 = stablehlo.transpose %322, dims = [2, 0, 1] : (tensor<2x64x32xbf16>) -> tensor<32x2x64xbf16>
    %324 = stablehlo.dot_general %321, %arg1, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<2x16x2x64xbf16>, tensor<32x2x64xbf16>) -> tensor<2x16x32xbf16>
    %325 = stablehlo.multiply %16, %324 : tensor<2x16x32xbf16>
    %cst_73 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %326 = stablehlo.reduce(%325 init: %cst_73) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x32xbf16>, tensor<bf16>) -> tensor<32xbf16>
    %327 = stablehlo.reshape %326 : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %328 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x16x32xbf16>
    %329 = stablehlo.multiply %324, %328 : tensor<2x16x32xbf16>
    %cst_74 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %330 = stablehlo.reduce(%327 init: %cst_74) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x32xbf16>, tensor<bf16>) -> tensor<32xbf16>
    %331 = stablehlo.convert %329 : (tensor<2x16x32xbf16>) -> tensor<2x16x32xf32>
    %332 = stablehlo.multiply %0, %331 : tensor<2x16x32xf32>
    %cst_75 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %333 = stablehlo.reduce(%332 init: %cst_75) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %334 = stablehlo.reshape %333 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %335 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %336 = stablehlo.multiply %331, %335 : tensor<2x16x32xf32>
    %337 = stablehlo.multiply %334, %13 : tensor<2x16x1xf32>
    %cst_76 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %338 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %339 = stablehlo.divide %337, %338 : tensor<2x16x1xf32>
    %cst_77 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %340 = stablehlo.reduce(%339 init: %cst_77) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %341 = stablehlo.broadcast_in_dim %340, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x32xf32>
    %342 = stablehlo.multiply %341, %3 : tensor<2x16x32xf32>
    %343 = stablehlo.add %336, %342 : tensor<2x16x32xf32>
    %344 = stablehlo.convert %343 : (tensor<2x16x32xf32>) -> tensor<2x16x32xbf16>
    %345 = stablehlo.add %143, %344 : tensor<2x16x32xbf16>
    %346 = stablehlo.convert %287 : (tensor<64x4xbf16>) -> tensor<64x4xf32>
    %347 = stablehlo.convert %323 : (tensor<32x2x64xbf16>) -> tensor<32x2x64xf32>
    %348 = stablehlo.convert %330 : (tensor<32xbf16>) -> tensor<32xf32>
    %349 = stablehlo.convert %145 : (tensor<64x32xbf16>) -> tensor<64x32xf32>
    %350 = stablehlo.convert %305 : (tensor<64x12xbf16>) -> tensor<64x12xf32>
    %351 = stablehlo.convert %155 : (tensor<64xbf16>) -> tensor<64xf32>
    %352 = stablehlo.convert %300 : (tensor<4x64xbf16>) -> tensor<4x64xf32>
    %353 = stablehlo.convert %298 : (tensor<64xbf16>) -> tensor<64xf32>
    %354 = stablehlo.convert %315 : (tensor<4x64xbf16>) -> tensor<4x64xf32>
    %cst_78 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %355 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<64x4xf32>
    %356 = stablehlo.multiply %355, %arg9 : tensor<64x4xf32>
    %cst_79 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %357 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<64x4xf32>
    %358 = stablehlo.multiply %357, %346 : tensor<64x4xf32>
    %359 = stablehlo.add %356, %358 : tensor<64x4xf32>
    %cst_80 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %360 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<32x2x64xf32>
    %361 = stablehlo.multiply %360, %arg10 : tensor<32x2x64xf32>
    %cst_81 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %362 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<32x2x64xf32>
    %363 = stablehlo.multiply %362, %347 : tensor<32x2x64xf32>
    %364 = stablehlo.add %361, %363 : tensor<32x2x64xf32>
    %cst_82 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %365 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %366 = stablehlo.multiply %365, %arg11 : tensor<32xf32>
    %cst_83 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %367 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %368 = stablehlo.multiply %367, %348 : tensor<32xf32>
    %369 = stablehlo.add %366, %368 : tensor<32xf32>
    %cst_84 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %370 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %371 = stablehlo.multiply %370, %arg12 : tensor<64x32xf32>
    %cst_85 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %372 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %373 = stablehlo.multiply %372, %349 : tensor<64x32xf32>
    %374 = stablehlo.add %371, %373 : tensor<64x32xf32>
    %cst_86 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %375 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<64x12xf32>
    %376 = stablehlo.multiply %375, %arg13 : tensor<64x12xf32>
    %cst_87 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %377 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<64x12xf32>
    %378 = stablehlo.multiply %377, %350 : tensor<64x12xf32>
    %379 = stablehlo.add %376, %378 : tensor<64x12xf32>
    %cst_88 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %380 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %381 = stablehlo.multiply %380, %arg14 : tensor<64xf32>
    %cst_89 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %382 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %383 = stablehlo.multiply %382, %351 : tensor<64xf32>
    %384 = stablehlo.add %381, %383 : tensor<64xf32>
    %cst_90 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %385 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %386 = stablehlo.multiply %385, %arg15 : tensor<4x64xf32>
    %cst_91 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %387 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %388 = stablehlo.multiply %387, %352 : tensor<4x64xf32>
    %389 = stablehlo.add %386, %388 : tensor<4x64xf32>
    %cst_92 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %390 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %391 = stablehlo.multiply %390, %arg16 : tensor<64xf32>
    %cst_93 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %392 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %393 = stablehlo.multiply %392, %353 : tensor<64xf32>
    %394 = stablehlo.add %391, %393 : tensor<64xf32>
    %cst_94 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %395 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %396 = stablehlo.multiply %395, %arg17 : tensor<4x64xf32>
    %cst_95 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %397 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %398 = stablehlo.multiply %397, %354 : tensor<4x64xf32>
    %399 = stablehlo.add %396, %398 : tensor<4x64xf32>
    %cst_96 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %400 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<64x4xf32>
    %401 = stablehlo.multiply %400, %arg18 : tensor<64x4xf32>
    %cst_97 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %402 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<64x4xf32>
    %403 = stablehlo.multiply %402, %346 : tensor<64x4xf32>
    %404 = stablehlo.multiply %403, %346 : tensor<64x4xf32>
    %405 = stablehlo.add %401, %404 : tensor<64x4xf32>
    %cst_98 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %406 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<32x2x64xf32>
    %407 = stablehlo.multiply %406, %arg19 : tensor<32x2x64xf32>
    %cst_99 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %408 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<32x2x64xf32>
    %409 = stablehlo.multiply %408, %347 : tensor<32x2x64xf32>
    %410 = stablehlo.multiply %409, %347 : tensor<32x2x64xf32>
    %411 = stablehlo.add %407, %410 : tensor<32x2x64xf32>
    %cst_100 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %412 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %413 = stablehlo.multiply %412, %arg20 : tensor<32xf32>
    %cst_101 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %414 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %415 = stablehlo.multiply %414, %348 : tensor<32xf32>
    %416 = stablehlo.multiply %415, %348 : tensor<32xf32>
    %417 = stablehlo.add %413, %416 : tensor<32xf32>
    %cst_102 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %418 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %419 = stablehlo.multiply %418, %arg21 : tensor<64x32xf32>
    %cst_103 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %420 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %421 = stablehlo.multiply %420, %349 : tensor<64x32xf32>
    %422 = stablehlo.multiply %421, %349 : tensor<64x32xf32>
    %423 = stablehlo.add %419, %422 : tensor<64x32xf32>
    %cst_104 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %424 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<64x12xf32>
    %425 = stablehlo.multiply %424, %arg22 : tensor<64x12xf32>
    %cst_105 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %426 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<64x12xf32>
    %427 = stablehlo.multiply %426, %350 : tensor<64x12xf32>
    %428 = stablehlo.multiply %427, %350 : tensor<64x12xf32>
    %429 = stablehlo.add %425, %428 : tensor<64x12xf32>
    %cst_106 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %430 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %431 = stablehlo.multiply %430, %arg23 : tensor<64xf32>
    %cst_107 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %432 = stablehlo.broadcast_in_dim %cst_107, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %433 = stablehlo.multiply %432, %351 : tensor<64xf32>
    %434 = stablehlo.multiply %433, %351 : tensor<64xf32>
    %435 = stablehlo.add %431, %434 : tensor<64xf32>
    %cst_108 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %436 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %437 = stablehlo.multiply %436, %arg24 : tensor<4x64xf32>
    %cst_109 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %438 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %439 = stablehlo.multiply %438, %352 : tensor<4x64xf32>
    %440 = stablehlo.multiply %439, %352 : tensor<4x64xf32>
    %441 = stablehlo.add %437, %440 : tensor<4x64xf32>
    %cst_110 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %442 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %443 = stablehlo.multiply %442, %arg25 : tensor<64xf32>
    %cst_111 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %444 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %445 = stablehlo.multiply %444, %353 : tensor<64xf32>
    %446 = stablehlo.multiply %445, %353 : tensor<64xf32>
    %447 = stablehlo.add %443, %446 : tensor<64xf32>
    %cst_112 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %448 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %449 = stablehlo.multiply %448, %arg26 : tensor<4x64xf32>
    %cst_113 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %450 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %451 = stablehlo.multiply %450, %354 : tensor<4x64xf32>
    %452 = stablehlo.multiply %451, %354 : tensor<4x64xf32>
    %453 = stablehlo.add %449, %452 : tensor<4x64xf32>
    %454 = stablehlo.sqrt %405 : tensor<64x4xf32>
    %cst_114 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %455 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<64x4xf32>
    %456 = stablehlo.add %454, %455 : tensor<64x4xf32>
    %457 = stablehlo.divide %359, %456 : tensor<64x4xf32>
    %458 = stablehlo.convert %arg0 : (tensor<64x4xbf16>) -> tensor<64x4xf32>
    %cst_115 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %459 = stablehlo.broadcast_in_dim %cst_115, dims = [] : (tensor<f32>) -> tensor<64x4xf32>
    %460 = stablehlo.multiply %459, %458 : tensor<64x4xf32>
    %461 = stablehlo.add %457, %460 : tensor<64x4xf32>
    %cst_116 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %462 = stablehlo.broadcast_in_dim %cst_116, dims = [] : (tensor<f32>) -> tensor<64x4xf32>
    %463 = stablehlo.multiply %462, %461 : tensor<64x4xf32>
    %464 = stablehlo.convert %arg0 : (tensor<64x4xbf16>) -> tensor<64x4xf32>
    %465 = stablehlo.subtract %464, %463 : tensor<64x4xf32>
    %466 = stablehlo.convert %465 : (tensor<64x4xf32>) -> tensor<64x4xbf16>
    %467 = stablehlo.sqrt %411 : tensor<32x2x64xf32>
    %cst_117 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %468 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<32x2x64xf32>
    %469 = stablehlo.add %467, %468 : tensor<32x2x64xf32>
    %470 = stablehlo.divide %364, %469 : tensor<32x2x64xf32>
    %471 = stablehlo.convert %arg1 : (tensor<32x2x64xbf16>) -> tensor<32x2x64xf32>
    %cst_118 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %472 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<32x2x64xf32>
    %473 = stablehlo.multiply %472, %471 : tensor<32x2x64xf32>
    %474 = stablehlo.add %470, %473 : tensor<32x2x64xf32>
    %cst_119 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %475 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<32x2x64xf32>
    %476 = stablehlo.multiply %475, %474 : tensor<32x2x64xf32>
    %477 = stablehlo.convert %arg1 : (tensor<32x2x64xbf16>) -> tensor<32x2x64xf32>
    %478 = stablehlo.subtract %477, %476 : tensor<32x2x64xf32>
    %479 = stablehlo.convert %478 : (tensor<32x2x64xf32>) -> tensor<32x2x64xbf16>
    %480 = stablehlo.sqrt %417 : tensor<32xf32>
    %cst_120 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %481 = stablehlo.broadcast_in_dim %cst_120, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %482 = stablehlo.add %480, %481 : tensor<32xf32>
    %483 = stablehlo.divide %369, %482 : tensor<32xf32>
    %484 = stablehlo.convert %arg2 : (tensor<32xbf16>) -> tensor<32xf32>
    %cst_121 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %485 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %486 = stablehlo.multiply %485, %484 : tensor<32xf32>
    %487 = stablehlo.add %483, %486 : tensor<32xf32>
    %cst_122 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %488 = stablehlo.broadcast_in_dim %cst_122, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %489 = stablehlo.multiply %488, %487 : tensor<32xf32>
    %490 = stablehlo.convert %arg2 : (tensor<32xbf16>) -> tensor<32xf32>
    %491 = stablehlo.subtract %490, %489 : tensor<32xf32>
    %492 = stablehlo.convert %491 : (tensor<32xf32>) -> tensor<32xbf16>
    %493 = stablehlo.sqrt %423 : tensor<64x32xf32>
    %cst_123 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %494 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %495 = stablehlo.add %493, %494 : tensor<64x32xf32>
    %496 = stablehlo.divide %374, %495 : tensor<64x32xf32>
    %497 = stablehlo.convert %arg3 : (tensor<64x32xbf16>) -> tensor<64x32xf32>
    %cst_124 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %498 = stablehlo.broadcast_in_dim %cst_124, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %499 = stablehlo.multiply %498, %497 : tensor<64x32xf32>
    %500 = stablehlo.add %496, %499 : tensor<64x32xf32>
    %cst_125 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %501 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %502 = stablehlo.multiply %501, %500 : tensor<64x32xf32>
    %503 = stablehlo.convert %arg3 : (tensor<64x32xbf16>) -> tensor<64x32xf32>
    %504 = stablehlo.subtract %503, %502 : tensor<64x32xf32>
    %505 = stablehlo.convert %504 : (tensor<64x32xf32>) -> tensor<64x32xbf16>
    %506 = stablehlo.sqrt %429 : tensor<64x12xf32>
    %cst_126 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %507 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<64x12xf32>
    %508 = stablehlo.add %506, %507 : tensor<64x12xf32>
    %509 = stablehlo.divide %379, %508 : tensor<64x12xf32>
    %510 = stablehlo.convert %arg4 : (tensor<64x12xbf16>) -> tensor<64x12xf32>
    %cst_127 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %511 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<64x12xf32>
    %512 = stablehlo.multiply %511, %510 : tensor<64x12xf32>
    %513 = stablehlo.add %509, %512 : tensor<64x12xf32>
    %cst_128 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %514 = stablehlo.broadcast_in_dim %cst_128, dims = [] : (tensor<f32>) -> tensor<64x12xf32>
    %515 = stablehlo.multiply %514, %513 : tensor<64x12xf32>
    %516 = stablehlo.convert %arg4 : (tensor<64x12xbf16>) -> tensor<64x12xf32>
    %517 = stablehlo.subtract %516, %515 : tensor<64x12xf32>
    %518 = stablehlo.convert %517 : (tensor<64x12xf32>) -> tensor<64x12xbf16>
    %519 = stablehlo.sqrt %435 : tensor<64xf32>
    %cst_129 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %520 = stablehlo.broadcast_in_dim %cst_129, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %521 = stablehlo.add %519, %520 : tensor<64xf32>
    %522 = stablehlo.divide %384, %521 : tensor<64xf32>
    %523 = stablehlo.convert %arg5 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_130 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %524 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %525 = stablehlo.multiply %524, %523 : tensor<64xf32>
    %526 = stablehlo.add %522, %525 : tensor<64xf32>
    %cst_131 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %527 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %528 = stablehlo.multiply %527, %526 : tensor<64xf32>
    %529 = stablehlo.convert %arg5 : (tensor<64xbf16>) -> tensor<64xf32>
    %530 = stablehlo.subtract %529, %528 : tensor<64xf32>
    %531 = stablehlo.convert %530 : (tensor<64xf32>) -> tensor<64xbf16>
    %532 = stablehlo.sqrt %441 : tensor<4x64xf32>
    %cst_132 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %533 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %534 = stablehlo.add %532, %533 : tensor<4x64xf32>
    %535 = stablehlo.divide %389, %534 : tensor<4x64xf32>
    %536 = stablehlo.convert %arg6 : (tensor<4x64xbf16>) -> tensor<4x64xf32>
    %cst_133 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %537 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %538 = stablehlo.multiply %537, %536 : tensor<4x64xf32>
    %539 = stablehlo.add %535, %538 : tensor<4x64xf32>
    %cst_134 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %540 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %541 = stablehlo.multiply %540, %539 : tensor<4x64xf32>
    %542 = stablehlo.convert %arg6 : (tensor<4x64xbf16>) -> tensor<4x64xf32>
    %543 = stablehlo.subtract %542, %541 : tensor<4x64xf32>
    %544 = stablehlo.convert %543 : (tensor<4x64xf32>) -> tensor<4x64xbf16>
    %545 = stablehlo.sqrt %447 : tensor<64xf32>
    %cst_135 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %546 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %547 = stablehlo.add %545, %546 : tensor<64xf32>
    %548 = stablehlo.divide %394, %547 : tensor<64xf32>
    %549 = stablehlo.convert %arg7 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_136 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %550 = stablehlo.broadcast_in_dim %cst_136, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %551 = stablehlo.multiply %550, %549 : tensor<64xf32>
    %552 = stablehlo.add %548, %551 : tensor<64xf32>
    %cst_137 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %553 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %554 = stablehlo.multiply %553, %552 : tensor<64xf32>
    %555 = stablehlo.convert %arg7 : (tensor<64xbf16>) -> tensor<64xf32>
    %556 = stablehlo.subtract %555, %554 : tensor<64xf32>
    %557 = stablehlo.convert %556 : (tensor<64xf32>) -> tensor<64xbf16>
    %558 = stablehlo.sqrt %453 : tensor<4x64xf32>
    %cst_138 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %559 = stablehlo.broadcast_in_dim %cst_138, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %560 = stablehlo.add %558, %559 : tensor<4x64xf32>
    %561 = stablehlo.divide %399, %560 : tensor<4x64xf32>
    %562 = stablehlo.convert %arg8 : (tensor<4x64xbf16>) -> tensor<4x64xf32>
    %cst_139 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %563 = stablehlo.broadcast_in_dim %cst_139, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %564 = stablehlo.multiply %563, %562 : tensor<4x64xf32>
    %565 = stablehlo.add %561, %564 : tensor<4x64xf32>
    %cst_140 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %566 = stablehlo.broadcast_in_dim %cst_140, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %567 = stablehlo.multiply %566, %565 : tensor<4x64xf32>
    %568 = stablehlo.convert %arg8 : (tensor<4x64xbf16>) -> tensor<4x64xf32>
    %569 = stablehlo.subtract %568, %567 : tensor<4x64xf32>
    %570 = stablehlo.convert %569 : (tensor<4x64xf32>) -> tensor<4x64xbf16>
    return %139, %345, %466, %479, %492, %505, %518, %531, %544, %557, %570, %359, %364, %369, %374, %379, %384, %389, %394, %399, %405, %411, %417, %423, %429, %435, %441, %447, %453 : tensor<f32>, tensor<2x16x32xbf16>, tensor<64x4xbf16>, tensor<32x2x64xbf16>, tensor<32xbf16>, tensor<64x32xbf16>, tensor<64x12xbf16>, tensor<64xbf16>, tensor<4x64xbf16>, tensor<64xbf16>, tensor<4x64xbf16>, tensor<64x4xf32>, tensor<32x2x64xf32>, tensor<32xf32>, tensor<64x32xf32>, tensor<64x12xf32>, tensor<64xf32>, tensor<4x64xf32>, tensor<64xf32>, tensor<4x64xf32>, tensor<64x4xf32>, tensor<32x2x64xf32>, tensor<32xf32>, tensor<64x32xf32>, tensor<64x12xf32>, tensor<64xf32>, tensor<4x64xf32>, tensor<64xf32>, tensor<4x64xf32>
  }
  func.func private @silu(%arg0: tensor<2x16x64xbf16>) -> (tensor<2x16x64xbf16>, tensor<2x16x64xbf16>, tensor<2x16x64xbf16>) {
    %0 = stablehlo.negate %arg0 : tensor<2x16x64xbf16>
    %1 = stablehlo.exponential %0 : tensor<2x16x64xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<2x16x64xbf16>
    %3 = stablehlo.add %2, %1 : tensor<2x16x64xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<2x16x64xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<2x16x64xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<2x16x64xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<2x16x64xbf16>
    %8 = stablehlo.multiply %5, %7 : tensor<2x16x64xbf16>
    %9 = stablehlo.multiply %arg0, %5 : tensor<2x16x64xbf16>
    return %9, %8, %5 : tensor<2x16x64xbf16>, tensor<2x16x64xbf16>, tensor<2x16x64xbf16>
  }
  func.func private @softplus(%arg0: tensor<2x16x64xf32>) -> (tensor<2x16x64xf32>, tensor<2x16x64xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x64xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x16x64xf32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x64xf32>
    %3 = stablehlo.subtract %arg0, %2 : tensor<2x16x64xf32>
    %4 = stablehlo.compare NE, %3, %3, FLOAT : (tensor<2x16x64xf32>, tensor<2x16x64xf32>) -> tensor<2x16x64xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x64xf32>
    %6 = stablehlo.add %arg0, %5 : tensor<2x16x64xf32>
    %7 = stablehlo.abs %3 : tensor<2x16x64xf32>
    %8 = stablehlo.negate %7 : tensor<2x16x64xf32>
    %9 = stablehlo.exponential %8 : tensor<2x16x64xf32>
    %10 = stablehlo.log_plus_one %9 : tensor<2x16x64xf32>
    %11 = stablehlo.add %1, %10 : tensor<2x16x64xf32>
    %12 = stablehlo.select %4, %6, %11 : tensor<2x16x64xi1>, tensor<2x16x64xf32>
    %cst_0 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16x64xf32>
    %14 = stablehlo.compare EQ, %arg0, %13, FLOAT : (tensor<2x16x64xf32>, tensor<2x16x64xf32>) -> tensor<2x16x64xi1>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x64xf32>
    %16 = stablehlo.select %14, %15, %arg0 : tensor<2x16x64xi1>, tensor<2x16x64xf32>
    %cst_2 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16x64xf32>
    %18 = stablehlo.compare EQ, %12, %17, FLOAT : (tensor<2x16x64xf32>, tensor<2x16x64xf32>) -> tensor<2x16x64xi1>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16x64xf32>
    %20 = stablehlo.select %18, %19, %12 : tensor<2x16x64xi1>, tensor<2x16x64xf32>
    %21 = stablehlo.subtract %16, %20 : tensor<2x16x64xf32>
    %22 = stablehlo.exponential %21 : tensor<2x16x64xf32>
    return %12, %22 : tensor<2x16x64xf32>, tensor<2x16x64xf32>
  }
  func.func private @silu_0(%arg0: tensor<2x16x64xbf16>, %arg1: tensor<2x16x64xbf16>, %arg2: tensor<2x16x64xbf16>, %arg3: tensor<2x16x64xbf16>) -> tensor<2x16x64xbf16> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<2x16x64xbf16>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<2x16x64xbf16>
    %2 = stablehlo.multiply %0, %arg0 : tensor<2x16x64xbf16>
    %3 = stablehlo.add %1, %2 : tensor<2x16x64xbf16>
    return %3 : tensor<2x16x64xbf16>
  }
  func.func private @softplus_1(%arg0: tensor<2x16x64xf32>, %arg1: tensor<2x16x64xf32>) -> tensor<2x16x64xf32> {
    %0 = stablehlo.multiply %arg1, %arg0 : tensor<2x16x64xf32>
    return %0 : tensor<2x16x64xf32>
  }
}
