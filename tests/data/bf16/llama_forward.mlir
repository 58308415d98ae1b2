module @jit_llama attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<96x64xbf16>, %arg1: tensor<64x96xbf16>, %arg2: tensor<64x2x16xbf16>, %arg3: tensor<64xbf16>, %arg4: tensor<64xbf16>, %arg5: tensor<4x16x64xbf16>, %arg6: tensor<64x4x16xbf16>, %arg7: tensor<64x96xbf16>, %arg8: tensor<64x2x16xbf16>, %arg9: tensor<1x32x64xbf16>) -> (tensor<1x32x64xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg9 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
    %1 = chlo.square %0 : tensor<1x32x64xf32> -> tensor<1x32x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x32x64xf32>, tensor<f32>) -> tensor<1x32xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<1x32x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %7 = stablehlo.add %5, %6 : tensor<1x32x1xf32>
    %8 = stablehlo.rsqrt %7 : tensor<1x32x1xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x64xf32>
    %10 = stablehlo.multiply %0, %9 : tensor<1x32x64xf32>
    %11 = stablehlo.convert %10 : (tensor<1x32x64xf32>) -> tensor<1x32x64xbf16>
    %12 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<1x32x64xbf16>
    %14 = stablehlo.multiply %11, %13 : tensor<1x32x64xbf16>
    %15 = stablehlo.dot_general %14, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x4x16xbf16>) -> tensor<1x32x4x16xbf16>
    %16 = stablehlo.dot_general %14, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x2x16xbf16>) -> tensor<1x32x2x16xbf16>
    %17 = stablehlo.dot_general %14, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x2x16xbf16>) -> tensor<1x32x2x16xbf16>
    %18 = stablehlo.iota dim = 0 : tensor<32xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %20 = stablehlo.iota dim = 0 : tensor<8xf32>
    %21 = stablehlo.negate %20 : tensor<8xf32>
    %cst_2 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %23 = stablehlo.divide %21, %22 : tensor<8xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %25 = stablehlo.power %24, %23 : tensor<8xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %27 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x8xf32>
    %28 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<32x8xf32>
    %29 = stablehlo.multiply %27, %28 : tensor<32x8xf32>
    %30 = stablehlo.sine %29 : tensor<32x8xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 2] : (tensor<32x8xf32>) -> tensor<32x1x8xf32>
    %32 = stablehlo.convert %31 : (tensor<32x1x8xf32>) -> tensor<32x1x8xbf16>
    %33 = stablehlo.cosine %29 : tensor<32x8xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 2] : (tensor<32x8xf32>) -> tensor<32x1x8xf32>
    %35 = stablehlo.convert %34 : (tensor<32x1x8xf32>) -> tensor<32x1x8xbf16>
    %36 = stablehlo.slice %15 [0:1, 0:32, 0:4, 0:8] : (tensor<1x32x4x16xbf16>) -> tensor<1x32x4x8xbf16>
    %37 = stablehlo.slice %15 [0:1, 0:32, 0:4, 8:16] : (tensor<1x32x4x16xbf16>) -> tensor<1x32x4x8xbf16>
    %38 = stablehlo.broadcast_in_dim %35, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %40 = stablehlo.multiply %36, %39 : tensor<1x32x4x8xbf16>
    %41 = stablehlo.broadcast_in_dim %32, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %43 = stablehlo.multiply %37, %42 : tensor<1x32x4x8xbf16>
    %44 = stablehlo.subtract %40, %43 : tensor<1x32x4x8xbf16>
    %45 = stablehlo.broadcast_in_dim %32, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %47 = stablehlo.multiply %36, %46 : tensor<1x32x4x8xbf16>
    %48 = stablehlo.broadcast_in_dim %35, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %50 = stablehlo.multiply %37, %49 : tensor<1x32x4x8xbf16>
    %51 = stablehlo.add %47, %50 : tensor<1x32x4x8xbf16>
    %52 = stablehlo.concatenate %44, %51, dim = 3 : (tensor<1x32x4x8xbf16>, tensor<1x32x4x8xbf16>) -> tensor<1x32x4x16xbf16>
    %53 = stablehlo.iota dim = 0 : tensor<32xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %55 = stablehlo.iota dim = 0 : tensor<8xf32>
    %56 = stablehlo.negate %55 : tensor<8xf32>
    %cst_4 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %58 = stablehlo.divide %56, %57 : tensor<8xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %60 = stablehlo.power %59, %58 : tensor<8xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %62 = stablehlo.broadcast_in_dim %54, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x8xf32>
    %63 = stablehlo.broadcast_in_dim %61, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<32x8xf32>
    %64 = stablehlo.multiply %62, %63 : tensor<32x8xf32>
    %65 = stablehlo.sine %64 : tensor<32x8xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 2] : (tensor<32x8xf32>) -> tensor<32x1x8xf32>
    %67 = stablehlo.convert %66 : (tensor<32x1x8xf32>) -> tensor<32x1x8xbf16>
    %68 = stablehlo.cosine %64 : tensor<32x8xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 2] : (tensor<32x8xf32>) -> tensor<32x1x8xf32>
    %70 = stablehlo.convert %69 : (tensor<32x1x8xf32>) -> tensor<32x1x8xbf16>
    %71 = stablehlo.slice %16 [0:1, 0:32, 0:2, 0:8] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x8xbf16>
    %72 = stablehlo.slice %16 [0:1, 0:32, 0:2, 8:16] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x8xbf16>
    %73 = stablehlo.broadcast_in_dim %70, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %75 = stablehlo.multiply %71, %74 : tensor<1x32x2x8xbf16>
    %76 = stablehlo.broadcast_in_dim %67, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %78 = stablehlo.multiply %72, %77 : tensor<1x32x2x8xbf16>
    %79 = stablehlo.subtract %75, %78 : tensor<1x32x2x8xbf16>
    %80 = stablehlo.broadcast_in_dim %67, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %81 = stablehlo.broadcast_in_dim %80, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %82 = stablehlo.multiply %71, %81 : tensor<1x32x2x8xbf16>
    %83 = stablehlo.broadcast_in_dim %70, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %85 = stablehlo.multiply %72, %84 : tensor<1x32x2x8xbf16>
    %86 = stablehlo.add %82, %85 : tensor<1x32x2x8xbf16>
    %87 = stablehlo.concatenate %79, %86, dim = 3 : (tensor<1x32x2x8xbf16>, tensor<1x32x2x8xbf16>) -> tensor<1x32x2x16xbf16>
    %88 = stablehlo.broadcast_in_dim %87, dims = [0, 1, 2, 4] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x2x16xbf16>
    %89 = stablehlo.reshape %88 : (tensor<1x32x2x2x16xbf16>) -> tensor<1x32x4x16xbf16>
    %90 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2, 4] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x2x16xbf16>
    %91 = stablehlo.reshape %90 : (tensor<1x32x2x2x16xbf16>) -> tensor<1x32x4x16xbf16>
    %92 = stablehlo.dot_general %52, %89, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x32x4x16xbf16>, tensor<1x32x4x16xbf16>) -> tensor<1x4x32x32xbf16>
    %93 = stablehlo.convert %92 : (tensor<1x4x32x32xbf16>) -> tensor<1x4x32x32xf32>
    %cst_6 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x4x32x32xf32>
    %95 = stablehlo.multiply %93, %94 : tensor<1x4x32x32xf32>
    %96 = stablehlo.iota dim = 0 : tensor<32xi32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %98 = stablehlo.broadcast_in_dim %96, dims = [1] : (tensor<32xi32>) -> tensor<1x32xi32>
    %99 = stablehlo.broadcast_in_dim %97, dims = [0, 1] : (tensor<32x1xi32>) -> tensor<32x32xi32>
    %100 = stablehlo.broadcast_in_dim %98, dims = [0, 1] : (tensor<1x32xi32>) -> tensor<32x32xi32>
    %101 = stablehlo.compare GE, %99, %100, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %102 = call @_where(%101, %95, %cst_7) : (tensor<32x32xi1>, tensor<1x4x32x32xf32>, tensor<f32>) -> tensor<1x4x32x32xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %103 = stablehlo.reduce(%102 init: %cst_8) applies stablehlo.maximum across dimensions = [3] : (tensor<1x4x32x32xf32>, tensor<f32>) -> tensor<1x4x32xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %104 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1x4x32xf32>
    %105 = stablehlo.maximum %104, %103 : tensor<1x4x32xf32>
    %106 = stablehlo.broadcast_in_dim %105, dims = [0, 1, 2] : (tensor<1x4x32xf32>) -> tensor<1x4x32x1xf32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 2, 3] : (tensor<1x4x32x1xf32>) -> tensor<1x4x32x32xf32>
    %108 = stablehlo.subtract %102, %107 : tensor<1x4x32x32xf32>
    %109 = stablehlo.exponential %108 : tensor<1x4x32x32xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %110 = stablehlo.reduce(%109 init: %cst_10) applies stablehlo.add across dimensions = [3] : (tensor<1x4x32x32xf32>, tensor<f32>) -> tensor<1x4x32xf32>
    %111 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2] : (tensor<1x4x32xf32>) -> tensor<1x4x32x1xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0, 1, 2, 3] : (tensor<1x4x32x1xf32>) -> tensor<1x4x32x32xf32>
    %113 = stablehlo.divide %109, %112 : tensor<1x4x32x32xf32>
    %114 = stablehlo.convert %113 : (tensor<1x4x32x32xf32>) -> tensor<1x4x32x32xbf16>
    %115 = stablehlo.dot_general %91, %114, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x32x4x16xbf16>, tensor<1x4x32x32xbf16>) -> tensor<1x4x16x32xbf16>
    %116 = stablehlo.transpose %115, dims = [0, 3, 1, 2] : (tensor<1x4x16x32xbf16>) -> tensor<1x32x4x16xbf16>
    %117 = stablehlo.dot_general %116, %arg5, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x4x16xbf16>, tensor<4x16x64xbf16>) -> tensor<1x32x64xbf16>
    %118 = stablehlo.add %arg9, %117 : tensor<1x32x64xbf16>
    %119 = stablehlo.convert %118 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
    %120 = chlo.square %119 : tensor<1x32x64xf32> -> tensor<1x32x64xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %121 = stablehlo.reduce(%120 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<1x32x64xf32>, tensor<f32>) -> tensor<1x32xf32>
    %122 = stablehlo.broadcast_in_dim %121, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %cst_12 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %123 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %124 = stablehlo.divide %122, %123 : tensor<1x32x1xf32>
    %cst_13 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %125 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %126 = stablehlo.add %124, %125 : tensor<1x32x1xf32>
    %127 = stablehlo.rsqrt %126 : tensor<1x32x1xf32>
    %128 = stablehlo.broadcast_in_dim %127, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x64xf32>
    %129 = stablehlo.multiply %119, %128 : tensor<1x32x64xf32>
    %130 = stablehlo.convert %129 : (tensor<1x32x64xf32>) -> tensor<1x32x64xbf16>
    %131 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %132 = stablehlo.broadcast_in_dim %131, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<1x32x64xbf16>
    %133 = stablehlo.multiply %130, %132 : tensor<1x32x64xbf16>
    %134 = stablehlo.dot_general %133, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x96xbf16>) -> tensor<1x32x96xbf16>
    %135 = call @silu(%134) : (tensor<1x32x96xbf16>) -> tensor<1x32x96xbf16>
    %136 = stablehlo.dot_general %133, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x96xbf16>) -> tensor<1x32x96xbf16>
    %137 = stablehlo.multiply %135, %136 : tensor<1x32x96xbf16>
    %138 = stablehlo.dot_general %137, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x96xbf16>, tensor<96x64xbf16>) -> tensor<1x32x64xbf16>
    %139 = stablehlo.add %118, %138 : tensor<1x32x64xbf16>
    return %139 : tensor<1x32x64xbf16>
  }
  func.func private @_where(%arg0: tensor<32x32xi1>, %arg1: tensor<1x4x32x32xf32>, %arg2: tensor<f32>) -> tensor<1x4x32x32xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<1x4x32x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x4x32x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x4x32x32xi1>, tensor<1x4x32x32xf32>
    return %3 : tensor<1x4x32x32xf32>
  }
  func.func private @silu(%arg0: tensor<1x32x96xbf16>) -> tensor<1x32x96xbf16> {
    %0 = stablehlo.negate %arg0 : tensor<1x32x96xbf16>
    %1 = stablehlo.exponential %0 : tensor<1x32x96xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<1x32x96xbf16>
    %3 = stablehlo.add %2, %1 : tensor<1x32x96xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<1x32x96xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<1x32x96xbf16>
    %6 = stablehlo.multiply %arg0, %5 : tensor<1x32x96xbf16>
    return %6 : tensor<1x32x96xbf16>
  }
}
