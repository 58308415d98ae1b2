module @jit_vit attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<256x64xbf16>, %arg1: tensor<64xbf16>, %arg2: tensor<64x10xbf16>, %arg3: tensor<4x16x64xbf16>, %arg4: tensor<64xbf16>, %arg5: tensor<4x4x3x64xbf16>, %arg6: tensor<25x64xbf16>, %arg7: tensor<64x3x4x16xbf16>, %arg8: tensor<3x4x16xbf16>, %arg9: tensor<64xbf16>, %arg10: tensor<64xbf16>, %arg11: tensor<64xbf16>, %arg12: tensor<64xbf16>, %arg13: tensor<64x256xbf16>, %arg14: tensor<256xbf16>, %arg15: tensor<2x20x20x3xbf16>) -> (tensor<2x10xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg15, %arg5) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [4, 4], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x20x20x3xbf16>, tensor<4x4x3x64xbf16>) -> tensor<2x5x5x64xbf16>
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
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.reduce(%12 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x25xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<2x25xf32>) -> tensor<2x25x1xf32>
    %cst_2 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %16 = stablehlo.divide %14, %15 : tensor<2x25x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %18 = stablehlo.add %16, %17 : tensor<2x25x1xf32>
    %19 = stablehlo.rsqrt %18 : tensor<2x25x1xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<2x25x1xf32>) -> tensor<2x25x64xf32>
    %21 = stablehlo.multiply %11, %20 : tensor<2x25x64xf32>
    %22 = stablehlo.convert %21 : (tensor<2x25x64xf32>) -> tensor<2x25x64xbf16>
    %23 = stablehlo.broadcast_in_dim %arg9, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %25 = stablehlo.multiply %22, %24 : tensor<2x25x64xbf16>
    %26 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %28 = stablehlo.add %25, %27 : tensor<2x25x64xbf16>
    %29 = stablehlo.dot_general %28, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x25x64xbf16>, tensor<64x3x4x16xbf16>) -> tensor<2x25x3x4x16xbf16>
    %30 = stablehlo.broadcast_in_dim %arg8, dims = [2, 3, 4] : (tensor<3x4x16xbf16>) -> tensor<1x1x3x4x16xbf16>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2, 3, 4] : (tensor<1x1x3x4x16xbf16>) -> tensor<2x25x3x4x16xbf16>
    %32 = stablehlo.add %29, %31 : tensor<2x25x3x4x16xbf16>
    %33 = stablehlo.transpose %32, dims = [2, 0, 1, 3, 4] : (tensor<2x25x3x4x16xbf16>) -> tensor<3x2x25x4x16xbf16>
    %34 = stablehlo.slice %33 [0:1, 0:2, 0:25, 0:4, 0:16] : (tensor<3x2x25x4x16xbf16>) -> tensor<1x2x25x4x16xbf16>
    %35 = stablehlo.reshape %34 : (tensor<1x2x25x4x16xbf16>) -> tensor<2x25x4x16xbf16>
    %36 = stablehlo.slice %33 [1:2, 0:2, 0:25, 0:4, 0:16] : (tensor<3x2x25x4x16xbf16>) -> tensor<1x2x25x4x16xbf16>
    %37 = stablehlo.reshape %36 : (tensor<1x2x25x4x16xbf16>) -> tensor<2x25x4x16xbf16>
    %38 = stablehlo.slice %33 [2:3, 0:2, 0:25, 0:4, 0:16] : (tensor<3x2x25x4x16xbf16>) -> tensor<1x2x25x4x16xbf16>
    %39 = stablehlo.reshape %38 : (tensor<1x2x25x4x16xbf16>) -> tensor<2x25x4x16xbf16>
    %40 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 4] : (tensor<2x25x4x16xbf16>) -> tensor<2x25x4x1x16xbf16>
    %41 = stablehlo.reshape %40 : (tensor<2x25x4x1x16xbf16>) -> tensor<2x25x4x16xbf16>
    %42 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2, 4] : (tensor<2x25x4x16xbf16>) -> tensor<2x25x4x1x16xbf16>
    %43 = stablehlo.reshape %42 : (tensor<2x25x4x1x16xbf16>) -> tensor<2x25x4x16xbf16>
    %44 = stablehlo.dot_general %35, %41, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x25x4x16xbf16>, tensor<2x25x4x16xbf16>) -> tensor<2x4x25x25xbf16>
    %45 = stablehlo.convert %44 : (tensor<2x4x25x25xbf16>) -> tensor<2x4x25x25xf32>
    %cst_4 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x4x25x25xf32>
    %47 = stablehlo.multiply %45, %46 : tensor<2x4x25x25xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %48 = stablehlo.reduce(%47 init: %cst_5) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x25x25xf32>, tensor<f32>) -> tensor<2x4x25xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x4x25xf32>
    %50 = stablehlo.maximum %49, %48 : tensor<2x4x25xf32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2] : (tensor<2x4x25xf32>) -> tensor<2x4x25x1xf32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1, 2, 3] : (tensor<2x4x25x1xf32>) -> tensor<2x4x25x25xf32>
    %53 = stablehlo.subtract %47, %52 : tensor<2x4x25x25xf32>
    %54 = stablehlo.exponential %53 : tensor<2x4x25x25xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %55 = stablehlo.reduce(%54 init: %cst_7) applies stablehlo.add across dimensions = [3] : (tensor<2x4x25x25xf32>, tensor<f32>) -> tensor<2x4x25xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2] : (tensor<2x4x25xf32>) -> tensor<2x4x25x1xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2, 3] : (tensor<2x4x25x1xf32>) -> tensor<2x4x25x25xf32>
    %58 = stablehlo.divide %54, %57 : tensor<2x4x25x25xf32>
    %59 = stablehlo.convert %58 : (tensor<2x4x25x25xf32>) -> tensor<2x4x25x25xbf16>
    %60 = stablehlo.dot_general %43, %59, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x25x4x16xbf16>, tensor<2x4x25x25xbf16>) -> tensor<2x4x16x25xbf16>
    %61 = stablehlo.transpose %60, dims = [0, 3, 1, 2] : (tensor<2x4x16x25xbf16>) -> tensor<2x25x4x16xbf16>
    %62 = stablehlo.dot_general %61, %arg3, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x25x4x16xbf16>, tensor<4x16x64xbf16>) -> tensor<2x25x64xbf16>
    %63 = stablehlo.add %4, %62 : tensor<2x25x64xbf16>
    %64 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %66 = stablehlo.add %63, %65 : tensor<2x25x64xbf16>
    %67 = stablehlo.convert %66 : (tensor<2x25x64xbf16>) -> tensor<2x25x64xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %68 = stablehlo.reduce(%67 init: %cst_8) applies stablehlo.add across dimensions = [2] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x25xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1] : (tensor<2x25xf32>) -> tensor<2x25x1xf32>
    %cst_9 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %71 = stablehlo.divide %69, %70 : tensor<2x25x1xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2] : (tensor<2x25x1xf32>) -> tensor<2x25x64xf32>
    %73 = stablehlo.subtract %67, %72 : tensor<2x25x64xf32>
    %74 = chlo.square %73 : tensor<2x25x64xf32> -> tensor<2x25x64xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.reduce(%74 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x25xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1] : (tensor<2x25xf32>) -> tensor<2x25x1xf32>
    %cst_11 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %77 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %78 = stablehlo.divide %76, %77 : tensor<2x25x1xf32>
    %cst_12 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x25x1xf32>
    %80 = stablehlo.add %78, %79 : tensor<2x25x1xf32>
    %81 = stablehlo.rsqrt %80 : tensor<2x25x1xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2] : (tensor<2x25x1xf32>) -> tensor<2x25x64xf32>
    %83 = stablehlo.multiply %73, %82 : tensor<2x25x64xf32>
    %84 = stablehlo.convert %83 : (tensor<2x25x64xf32>) -> tensor<2x25x64xbf16>
    %85 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %87 = stablehlo.multiply %84, %86 : tensor<2x25x64xbf16>
    %88 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %90 = stablehlo.add %87, %89 : tensor<2x25x64xbf16>
    %91 = stablehlo.dot_general %90, %arg13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x25x64xbf16>, tensor<64x256xbf16>) -> tensor<2x25x256xbf16>
    %92 = stablehlo.broadcast_in_dim %arg14, dims = [2] : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 2] : (tensor<1x1x256xbf16>) -> tensor<2x25x256xbf16>
    %94 = stablehlo.add %91, %93 : tensor<2x25x256xbf16>
    %95 = stablehlo.multiply %94, %94 : tensor<2x25x256xbf16>
    %96 = stablehlo.multiply %95, %94 : tensor<2x25x256xbf16>
    %cst_13 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %97 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %98 = stablehlo.multiply %97, %96 : tensor<2x25x256xbf16>
    %99 = stablehlo.add %94, %98 : tensor<2x25x256xbf16>
    %cst_14 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %100 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %101 = stablehlo.multiply %100, %99 : tensor<2x25x256xbf16>
    %102 = stablehlo.tanh %101 : tensor<2x25x256xbf16>
    %cst_15 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %103 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %104 = stablehlo.add %103, %102 : tensor<2x25x256xbf16>
    %cst_16 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %105 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<bf16>) -> tensor<2x25x256xbf16>
    %106 = stablehlo.multiply %105, %104 : tensor<2x25x256xbf16>
    %107 = stablehlo.multiply %94, %106 : tensor<2x25x256xbf16>
    %108 = stablehlo.dot_general %107, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x25x256xbf16>, tensor<256x64xbf16>) -> tensor<2x25x64xbf16>
    %109 = stablehlo.add %66, %108 : tensor<2x25x64xbf16>
    %110 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %111 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x25x64xbf16>
    %112 = stablehlo.add %109, %111 : tensor<2x25x64xbf16>
    %113 = stablehlo.convert %112 : (tensor<2x25x64xbf16>) -> tensor<2x25x64xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %114 = stablehlo.reduce(%113 init: %cst_17) applies stablehlo.add across dimensions = [1] : (tensor<2x25x64xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_18 = stablehlo.constant dense<2.500000e+01> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %116 = stablehlo.divide %114, %115 : tensor<2x64xf32>
    %117 = stablehlo.convert %116 : (tensor<2x64xf32>) -> tensor<2x64xbf16>
    %118 = stablehlo.dot_general %117, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64xbf16>, tensor<64x10xbf16>) -> tensor<2x10xbf16>
    return %118 : tensor<2x10xbf16>
  }
}
