module @jit_mamba attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64x4xbf16>, %arg1: tensor<32x2x64xbf16>, %arg2: tensor<32xbf16>, %arg3: tensor<64x32xbf16>, %arg4: tensor<64x12xbf16>, %arg5: tensor<64xbf16>, %arg6: tensor<4x64xbf16>, %arg7: tensor<64xbf16>, %arg8: tensor<4x64xbf16>, %arg9: tensor<2x16x32xbf16>) -> (tensor<2x16x32xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg9 : (tensor<2x16x32xbf16>) -> tensor<2x16x32xf32>
    %1 = chlo.square %0 : tensor<2x16x32xf32> -> tensor<2x16x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<2x16x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %7 = stablehlo.add %5, %6 : tensor<2x16x1xf32>
    %8 = stablehlo.rsqrt %7 : tensor<2x16x1xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %10 = stablehlo.multiply %0, %9 : tensor<2x16x32xf32>
    %11 = stablehlo.convert %10 : (tensor<2x16x32xf32>) -> tensor<2x16x32xbf16>
    %12 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x16x32xbf16>
    %14 = stablehlo.multiply %11, %13 : tensor<2x16x32xbf16>
    %15 = stablehlo.dot_general %14, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xbf16>, tensor<32x2x64xbf16>) -> tensor<2x16x2x64xbf16>
    %16 = stablehlo.transpose %15, dims = [2, 0, 1, 3] : (tensor<2x16x2x64xbf16>) -> tensor<2x2x16x64xbf16>
    %17 = stablehlo.slice %16 [0:1, 0:2, 0:16, 0:64] : (tensor<2x2x16x64xbf16>) -> tensor<1x2x16x64xbf16>
    %18 = stablehlo.reshape %17 : (tensor<1x2x16x64xbf16>) -> tensor<2x16x64xbf16>
    %19 = stablehlo.slice %16 [1:2, 0:2, 0:16, 0:64] : (tensor<2x2x16x64xbf16>) -> tensor<1x2x16x64xbf16>
    %20 = stablehlo.reshape %19 : (tensor<1x2x16x64xbf16>) -> tensor<2x16x64xbf16>
    %21 = stablehlo.broadcast_in_dim %arg8, dims = [0, 2] : (tensor<4x64xbf16>) -> tensor<4x1x64xbf16>
    %22 = stablehlo.convolution(%18, %21) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[3, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 64 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x64xbf16>, tensor<4x1x64xbf16>) -> tensor<2x16x64xbf16>
    %23 = call @silu(%22) : (tensor<2x16x64xbf16>) -> tensor<2x16x64xbf16>
    %24 = stablehlo.dot_general %23, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xbf16>, tensor<64x12xbf16>) -> tensor<2x16x12xbf16>
    %25 = stablehlo.slice %24 [0:2, 0:16, 0:4] : (tensor<2x16x12xbf16>) -> tensor<2x16x4xbf16>
    %26 = stablehlo.dot_general %25, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4xbf16>, tensor<4x64xbf16>) -> tensor<2x16x64xbf16>
    %27 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x16x64xbf16>
    %29 = stablehlo.add %26, %28 : tensor<2x16x64xbf16>
    %30 = stablehlo.convert %29 : (tensor<2x16x64xbf16>) -> tensor<2x16x64xf32>
    %31 = call @softplus(%30) : (tensor<2x16x64xf32>) -> tensor<2x16x64xf32>
    %32 = stablehlo.slice %24 [0:2, 0:16, 4:12] : (tensor<2x16x12xbf16>) -> tensor<2x16x8xbf16>
    %33 = stablehlo.convert %32 : (tensor<2x16x8xbf16>) -> tensor<2x16x8xf32>
    %34 = stablehlo.slice %33 [0:2, 0:16, 0:4] : (tensor<2x16x8xf32>) -> tensor<2x16x4xf32>
    %35 = stablehlo.slice %33 [0:2, 0:16, 4:8] : (tensor<2x16x8xf32>) -> tensor<2x16x4xf32>
    %36 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<2x16x64xf32>) -> tensor<2x16x64x1xf32>
    %37 = stablehlo.negate %36 : tensor<2x16x64x1xf32>
    %38 = stablehlo.convert %arg0 : (tensor<64x4xbf16>) -> tensor<64x4xf32>
    %39 = stablehlo.exponential %38 : tensor<64x4xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [2, 3] : (tensor<64x4xf32>) -> tensor<1x1x64x4xf32>
    %41 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 3] : (tensor<2x16x64x1xf32>) -> tensor<2x16x64x4xf32>
    %42 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3] : (tensor<1x1x64x4xf32>) -> tensor<2x16x64x4xf32>
    %43 = stablehlo.multiply %41, %42 : tensor<2x16x64x4xf32>
    %44 = stablehlo.exponential %43 : tensor<2x16x64x4xf32>
    %45 = stablehlo.convert %23 : (tensor<2x16x64xbf16>) -> tensor<2x16x64xf32>
    %46 = stablehlo.multiply %31, %45 : tensor<2x16x64xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2] : (tensor<2x16x64xf32>) -> tensor<2x16x64x1xf32>
    %48 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 3] : (tensor<2x16x4xf32>) -> tensor<2x16x1x4xf32>
    %49 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2, 3] : (tensor<2x16x64x1xf32>) -> tensor<2x16x64x4xf32>
    %50 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2, 3] : (tensor<2x16x1x4xf32>) -> tensor<2x16x64x4xf32>
    %51 = stablehlo.multiply %49, %50 : tensor<2x16x64x4xf32>
    %52 = stablehlo.slice %44 [0:2, 0:15:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x8x64x4xf32>
    %53 = stablehlo.slice %51 [0:2, 0:15:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x8x64x4xf32>
    %54 = stablehlo.slice %44 [0:2, 1:16:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x8x64x4xf32>
    %55 = stablehlo.slice %51 [0:2, 1:16:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x8x64x4xf32>
    %56 = stablehlo.multiply %52, %54 : tensor<2x8x64x4xf32>
    %57 = stablehlo.multiply %54, %53 : tensor<2x8x64x4xf32>
    %58 = stablehlo.add %57, %55 : tensor<2x8x64x4xf32>
    %59 = stablehlo.slice %56 [0:2, 0:7:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x4x64x4xf32>
    %60 = stablehlo.slice %58 [0:2, 0:7:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x4x64x4xf32>
    %61 = stablehlo.slice %56 [0:2, 1:8:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x4x64x4xf32>
    %62 = stablehlo.slice %58 [0:2, 1:8:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x4x64x4xf32>
    %63 = stablehlo.multiply %59, %61 : tensor<2x4x64x4xf32>
    %64 = stablehlo.multiply %61, %60 : tensor<2x4x64x4xf32>
    %65 = stablehlo.add %64, %62 : tensor<2x4x64x4xf32>
    %66 = stablehlo.slice %63 [0:2, 0:3:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x2x64x4xf32>
    %67 = stablehlo.slice %65 [0:2, 0:3:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x2x64x4xf32>
    %68 = stablehlo.slice %63 [0:2, 1:4:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x2x64x4xf32>
    %69 = stablehlo.slice %65 [0:2, 1:4:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x2x64x4xf32>
    %70 = stablehlo.multiply %66, %68 : tensor<2x2x64x4xf32>
    %71 = stablehlo.multiply %68, %67 : tensor<2x2x64x4xf32>
    %72 = stablehlo.add %71, %69 : tensor<2x2x64x4xf32>
    %73 = stablehlo.slice %72 [0:2, 0:1:2, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %74 = stablehlo.slice %70 [0:2, 1:2:2, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %75 = stablehlo.slice %72 [0:2, 1:2:2, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %76 = stablehlo.multiply %74, %73 : tensor<2x1x64x4xf32>
    %77 = stablehlo.add %76, %75 : tensor<2x1x64x4xf32>
    %78 = stablehlo.slice %77 [0:2, 0:0, 0:64, 0:4] : (tensor<2x1x64x4xf32>) -> tensor<2x0x64x4xf32>
    %79 = stablehlo.slice %70 [0:2, 2:2:2, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x0x64x4xf32>
    %80 = stablehlo.slice %72 [0:2, 2:2:2, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x0x64x4xf32>
    %81 = stablehlo.multiply %79, %78 : tensor<2x0x64x4xf32>
    %82 = stablehlo.add %81, %80 : tensor<2x0x64x4xf32>
    %83 = stablehlo.slice %72 [0:2, 0:1, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %84 = stablehlo.concatenate %83, %82, dim = 1 : (tensor<2x1x64x4xf32>, tensor<2x0x64x4xf32>) -> tensor<2x1x64x4xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %85 = stablehlo.pad %84, %cst_2, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x2x64x4xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %86 = stablehlo.pad %77, %cst_3, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x1x64x4xf32>, tensor<f32>) -> tensor<2x2x64x4xf32>
    %87 = stablehlo.add %85, %86 : tensor<2x2x64x4xf32>
    %88 = stablehlo.slice %87 [0:2, 0:1, 0:64, 0:4] : (tensor<2x2x64x4xf32>) -> tensor<2x1x64x4xf32>
    %89 = stablehlo.slice %63 [0:2, 2:4:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x1x64x4xf32>
    %90 = stablehlo.slice %65 [0:2, 2:4:2, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x1x64x4xf32>
    %91 = stablehlo.multiply %89, %88 : tensor<2x1x64x4xf32>
    %92 = stablehlo.add %91, %90 : tensor<2x1x64x4xf32>
    %93 = stablehlo.slice %65 [0:2, 0:1, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x1x64x4xf32>
    %94 = stablehlo.concatenate %93, %92, dim = 1 : (tensor<2x1x64x4xf32>, tensor<2x1x64x4xf32>) -> tensor<2x2x64x4xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %95 = stablehlo.pad %94, %cst_4, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x2x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %96 = stablehlo.pad %87, %cst_5, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x2x64x4xf32>, tensor<f32>) -> tensor<2x4x64x4xf32>
    %97 = stablehlo.add %95, %96 : tensor<2x4x64x4xf32>
    %98 = stablehlo.slice %97 [0:2, 0:3, 0:64, 0:4] : (tensor<2x4x64x4xf32>) -> tensor<2x3x64x4xf32>
    %99 = stablehlo.slice %56 [0:2, 2:8:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x3x64x4xf32>
    %100 = stablehlo.slice %58 [0:2, 2:8:2, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x3x64x4xf32>
    %101 = stablehlo.multiply %99, %98 : tensor<2x3x64x4xf32>
    %102 = stablehlo.add %101, %100 : tensor<2x3x64x4xf32>
    %103 = stablehlo.slice %58 [0:2, 0:1, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x1x64x4xf32>
    %104 = stablehlo.concatenate %103, %102, dim = 1 : (tensor<2x1x64x4xf32>, tensor<2x3x64x4xf32>) -> tensor<2x4x64x4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %105 = stablehlo.pad %104, %cst_6, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x4x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %106 = stablehlo.pad %97, %cst_7, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x4x64x4xf32>, tensor<f32>) -> tensor<2x8x64x4xf32>
    %107 = stablehlo.add %105, %106 : tensor<2x8x64x4xf32>
    %108 = stablehlo.slice %107 [0:2, 0:7, 0:64, 0:4] : (tensor<2x8x64x4xf32>) -> tensor<2x7x64x4xf32>
    %109 = stablehlo.slice %44 [0:2, 2:16:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x7x64x4xf32>
    %110 = stablehlo.slice %51 [0:2, 2:16:2, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x7x64x4xf32>
    %111 = stablehlo.multiply %109, %108 : tensor<2x7x64x4xf32>
    %112 = stablehlo.add %111, %110 : tensor<2x7x64x4xf32>
    %113 = stablehlo.slice %51 [0:2, 0:1, 0:64, 0:4] : (tensor<2x16x64x4xf32>) -> tensor<2x1x64x4xf32>
    %114 = stablehlo.concatenate %113, %112, dim = 1 : (tensor<2x1x64x4xf32>, tensor<2x7x64x4xf32>) -> tensor<2x8x64x4xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %115 = stablehlo.pad %114, %cst_8, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x8x64x4xf32>, tensor<f32>) -> tensor<2x16x64x4xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %116 = stablehlo.pad %107, %cst_9, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 1, 0, 0] : (tensor<2x8x64x4xf32>, tensor<f32>) -> tensor<2x16x64x4xf32>
    %117 = stablehlo.add %115, %116 : tensor<2x16x64x4xf32>
    %118 = stablehlo.dot_general %117, %35, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64x4xf32>, tensor<2x16x4xf32>) -> tensor<2x16x64xf32>
    %119 = stablehlo.convert %118 : (tensor<2x16x64xf32>) -> tensor<2x16x64xbf16>
    %120 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %121 = stablehlo.broadcast_in_dim %120, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x16x64xbf16>
    %122 = stablehlo.multiply %23, %121 : tensor<2x16x64xbf16>
    %123 = stablehlo.add %119, %122 : tensor<2x16x64xbf16>
    %124 = call @silu(%20) : (tensor<2x16x64xbf16>) -> tensor<2x16x64xbf16>
    %125 = stablehlo.multiply %123, %124 : tensor<2x16x64xbf16>
    %126 = stablehlo.dot_general %125, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xbf16>, tensor<64x32xbf16>) -> tensor<2x16x32xbf16>
    %127 = stablehlo.add %arg9, %126 : tensor<2x16x32xbf16>
    return %127 : tensor<2x16x32xbf16>
  }
  func.func private @silu(%arg0: tensor<2x16x64xbf16>) -> tensor<2x16x64xbf16> {
    %0 = stablehlo.negate %arg0 : tensor<2x16x64xbf16>
    %1 = stablehlo.exponential %0 : tensor<2x16x64xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<2x16x64xbf16>
    %3 = stablehlo.add %2, %1 : tensor<2x16x64xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<2x16x64xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<2x16x64xbf16>
    %6 = stablehlo.multiply %arg0, %5 : tensor<2x16x64xbf16>
    return %6 : tensor<2x16x64xbf16>
  }
  func.func private @softplus(%arg0: tensor<2x16x64xf32>) -> tensor<2x16x64xf32> {
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
    return %12 : tensor<2x16x64xf32>
  }
}
