module @jit_gpt2 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<256x64xbf16>, %arg1: tensor<64xbf16>, %arg2: tensor<4x16x64xbf16>, %arg3: tensor<64xbf16>, %arg4: tensor<64x3x4x16xbf16>, %arg5: tensor<3x4x16xbf16>, %arg6: tensor<64xbf16>, %arg7: tensor<64xbf16>, %arg8: tensor<64xbf16>, %arg9: tensor<64xbf16>, %arg10: tensor<64x256xbf16>, %arg11: tensor<256xbf16>, %arg12: tensor<2x32x64xbf16>) -> (tensor<2x32x64xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg12 : (tensor<2x32x64xbf16>) -> tensor<2x32x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<2x32x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<2x32x64xf32>
    %7 = chlo.square %6 : tensor<2x32x64xf32> -> tensor<2x32x64xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_2 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %11 = stablehlo.divide %9, %10 : tensor<2x32x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %13 = stablehlo.add %11, %12 : tensor<2x32x1xf32>
    %14 = stablehlo.rsqrt %13 : tensor<2x32x1xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %16 = stablehlo.multiply %6, %15 : tensor<2x32x64xf32>
    %17 = stablehlo.convert %16 : (tensor<2x32x64xf32>) -> tensor<2x32x64xbf16>
    %18 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %20 = stablehlo.multiply %17, %19 : tensor<2x32x64xbf16>
    %21 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %23 = stablehlo.add %20, %22 : tensor<2x32x64xbf16>
    %24 = stablehlo.dot_general %23, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x64xbf16>, tensor<64x3x4x16xbf16>) -> tensor<2x32x3x4x16xbf16>
    %25 = stablehlo.broadcast_in_dim %arg5, dims = [2, 3, 4] : (tensor<3x4x16xbf16>) -> tensor<1x1x3x4x16xbf16>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2, 3, 4] : (tensor<1x1x3x4x16xbf16>) -> tensor<2x32x3x4x16xbf16>
    %27 = stablehlo.add %24, %26 : tensor<2x32x3x4x16xbf16>
    %28 = stablehlo.transpose %27, dims = [2, 0, 1, 3, 4] : (tensor<2x32x3x4x16xbf16>) -> tensor<3x2x32x4x16xbf16>
    %29 = stablehlo.slice %28 [0:1, 0:2, 0:32, 0:4, 0:16] : (tensor<3x2x32x4x16xbf16>) -> tensor<1x2x32x4x16xbf16>
    %30 = stablehlo.reshape %29 : (tensor<1x2x32x4x16xbf16>) -> tensor<2x32x4x16xbf16>
    %31 = stablehlo.slice %28 [1:2, 0:2, 0:32, 0:4, 0:16] : (tensor<3x2x32x4x16xbf16>) -> tensor<1x2x32x4x16xbf16>
    %32 = stablehlo.reshape %31 : (tensor<1x2x32x4x16xbf16>) -> tensor<2x32x4x16xbf16>
    %33 = stablehlo.slice %28 [2:3, 0:2, 0:32, 0:4, 0:16] : (tensor<3x2x32x4x16xbf16>) -> tensor<1x2x32x4x16xbf16>
    %34 = stablehlo.reshape %33 : (tensor<1x2x32x4x16xbf16>) -> tensor<2x32x4x16xbf16>
    %35 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2, 4] : (tensor<2x32x4x16xbf16>) -> tensor<2x32x4x1x16xbf16>
    %36 = stablehlo.reshape %35 : (tensor<2x32x4x1x16xbf16>) -> tensor<2x32x4x16xbf16>
    %37 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2, 4] : (tensor<2x32x4x16xbf16>) -> tensor<2x32x4x1x16xbf16>
    %38 = stablehlo.reshape %37 : (tensor<2x32x4x1x16xbf16>) -> tensor<2x32x4x16xbf16>
    %39 = stablehlo.dot_general %30, %36, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x32x4x16xbf16>, tensor<2x32x4x16xbf16>) -> tensor<2x4x32x32xbf16>
    %40 = stablehlo.convert %39 : (tensor<2x4x32x32xbf16>) -> tensor<2x4x32x32xf32>
    %cst_4 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x4x32x32xf32>
    %42 = stablehlo.multiply %40, %41 : tensor<2x4x32x32xf32>
    %43 = stablehlo.iota dim = 0 : tensor<32xi32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %45 = stablehlo.broadcast_in_dim %43, dims = [1] : (tensor<32xi32>) -> tensor<1x32xi32>
    %46 = stablehlo.broadcast_in_dim %44, dims = [0, 1] : (tensor<32x1xi32>) -> tensor<32x32xi32>
    %47 = stablehlo.broadcast_in_dim %45, dims = [0, 1] : (tensor<1x32xi32>) -> tensor<32x32xi32>
    %48 = stablehlo.compare GE, %46, %47, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %49 = call @_where(%48, %42, %cst_5) : (tensor<32x32xi1>, tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32x32xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %50 = stablehlo.reduce(%49 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x4x32xf32>
    %52 = stablehlo.maximum %51, %50 : tensor<2x4x32xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<2x4x32x1xf32>) -> tensor<2x4x32x32xf32>
    %55 = stablehlo.subtract %49, %54 : tensor<2x4x32x32xf32>
    %56 = stablehlo.exponential %55 : tensor<2x4x32x32xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.reduce(%56 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2, 3] : (tensor<2x4x32x1xf32>) -> tensor<2x4x32x32xf32>
    %60 = stablehlo.divide %56, %59 : tensor<2x4x32x32xf32>
    %61 = stablehlo.convert %60 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xbf16>
    %62 = stablehlo.dot_general %38, %61, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x32x4x16xbf16>, tensor<2x4x32x32xbf16>) -> tensor<2x4x16x32xbf16>
    %63 = stablehlo.transpose %62, dims = [0, 3, 1, 2] : (tensor<2x4x16x32xbf16>) -> tensor<2x32x4x16xbf16>
    %64 = stablehlo.dot_general %63, %arg2, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x4x16xbf16>, tensor<4x16x64xbf16>) -> tensor<2x32x64xbf16>
    %65 = stablehlo.add %arg12, %64 : tensor<2x32x64xbf16>
    %66 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %68 = stablehlo.add %65, %67 : tensor<2x32x64xbf16>
    %69 = stablehlo.convert %68 : (tensor<2x32x64xbf16>) -> tensor<2x32x64xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %70 = stablehlo.reduce(%69 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_10 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %73 = stablehlo.divide %71, %72 : tensor<2x32x1xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %75 = stablehlo.subtract %69, %74 : tensor<2x32x64xf32>
    %76 = chlo.square %75 : tensor<2x32x64xf32> -> tensor<2x32x64xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %77 = stablehlo.reduce(%76 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_12 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %80 = stablehlo.divide %78, %79 : tensor<2x32x1xf32>
    %cst_13 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %82 = stablehlo.add %80, %81 : tensor<2x32x1xf32>
    %83 = stablehlo.rsqrt %82 : tensor<2x32x1xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %85 = stablehlo.multiply %75, %84 : tensor<2x32x64xf32>
    %86 = stablehlo.convert %85 : (tensor<2x32x64xf32>) -> tensor<2x32x64xbf16>
    %87 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %88 = stablehlo.broadcast_in_dim %87, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %89 = stablehlo.multiply %86, %88 : tensor<2x32x64xbf16>
    %90 = stablehlo.broadcast_in_dim %arg9, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %91 = stablehlo.broadcast_in_dim %90, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %92 = stablehlo.add %89, %91 : tensor<2x32x64xbf16>
    %93 = stablehlo.dot_general %92, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x64xbf16>, tensor<64x256xbf16>) -> tensor<2x32x256xbf16>
    %94 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2] : (tensor<1x1x256xbf16>) -> tensor<2x32x256xbf16>
    %96 = stablehlo.add %93, %95 : tensor<2x32x256xbf16>
    %97 = stablehlo.multiply %96, %96 : tensor<2x32x256xbf16>
    %98 = stablehlo.multiply %97, %96 : tensor<2x32x256xbf16>
    %cst_14 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %99 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %100 = stablehlo.multiply %99, %98 : tensor<2x32x256xbf16>
    %101 = stablehlo.add %96, %100 : tensor<2x32x256xbf16>
    %cst_15 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %102 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %103 = stablehlo.multiply %102, %101 : tensor<2x32x256xbf16>
    %104 = stablehlo.tanh %103 : tensor<2x32x256xbf16>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %105 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %106 = stablehlo.add %105, %104 : tensor<2x32x256xbf16>
    %cst_17 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %107 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %108 = stablehlo.multiply %107, %106 : tensor<2x32x256xbf16>
    %109 = stablehlo.multiply %96, %108 : tensor<2x32x256xbf16>
    %110 = stablehlo.dot_general %109, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x256xbf16>, tensor<256x64xbf16>) -> tensor<2x32x64xbf16>
    %111 = stablehlo.add %68, %110 : tensor<2x32x64xbf16>
    %112 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %113 = stablehlo.broadcast_in_dim %112, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %114 = stablehlo.add %111, %113 : tensor<2x32x64xbf16>
    return %114 : tensor<2x32x64xbf16>
  }
  func.func private @_where(%arg0: tensor<32x32xi1>, %arg1: tensor<2x4x32x32xf32>, %arg2: tensor<f32>) -> tensor<2x4x32x32xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<2x4x32x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x4x32x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    return %3 : tensor<2x4x32x32xf32>
  }
}
