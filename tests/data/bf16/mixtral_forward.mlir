module @jit_mixtral attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x96x64xbf16>, %arg1: tensor<8x64x96xbf16>, %arg2: tensor<64x2x16xbf16>, %arg3: tensor<64xbf16>, %arg4: tensor<64xbf16>, %arg5: tensor<4x16x64xbf16>, %arg6: tensor<64x4x16xbf16>, %arg7: tensor<64x8xbf16>, %arg8: tensor<8x64x96xbf16>, %arg9: tensor<64x2x16xbf16>, %arg10: tensor<1x32x64xbf16>) -> (tensor<1x32x64xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg10 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
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
    %17 = stablehlo.dot_general %14, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x2x16xbf16>) -> tensor<1x32x2x16xbf16>
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
    %118 = stablehlo.add %arg10, %117 : tensor<1x32x64xbf16>
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
    %134 = stablehlo.reshape %133 : (tensor<1x32x64xbf16>) -> tensor<32x64xbf16>
    %135 = stablehlo.dot_general %134, %arg7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x64xbf16>, tensor<64x8xbf16>) -> tensor<32x8xbf16>
    %136 = stablehlo.convert %135 : (tensor<32x8xbf16>) -> tensor<32x8xf32>
    %cst_14 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %137 = stablehlo.reduce(%136 init: %cst_14) applies stablehlo.maximum across dimensions = [1] : (tensor<32x8xf32>, tensor<f32>) -> tensor<32xf32>
    %cst_15 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %138 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %139 = stablehlo.maximum %138, %137 : tensor<32xf32>
    %140 = stablehlo.broadcast_in_dim %139, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %141 = stablehlo.broadcast_in_dim %140, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x8xf32>
    %142 = stablehlo.subtract %136, %141 : tensor<32x8xf32>
    %143 = stablehlo.exponential %142 : tensor<32x8xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %144 = stablehlo.reduce(%143 init: %cst_16) applies stablehlo.add across dimensions = [1] : (tensor<32x8xf32>, tensor<f32>) -> tensor<32xf32>
    %145 = stablehlo.broadcast_in_dim %144, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %146 = stablehlo.broadcast_in_dim %145, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x8xf32>
    %147 = stablehlo.divide %143, %146 : tensor<32x8xf32>
    %values, %indices = chlo.top_k(%147, k = 2) : tensor<32x8xf32> -> (tensor<32x2xf32>, tensor<32x2xi32>)
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %148 = stablehlo.reduce(%values init: %cst_17) applies stablehlo.add across dimensions = [1] : (tensor<32x2xf32>, tensor<f32>) -> tensor<32xf32>
    %149 = stablehlo.broadcast_in_dim %148, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %150 = stablehlo.broadcast_in_dim %149, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x2xf32>
    %151 = stablehlo.divide %values, %150 : tensor<32x2xf32>
    %152 = stablehlo.convert %151 : (tensor<32x2xf32>) -> tensor<32x2xbf16>
    %153 = stablehlo.reshape %indices : (tensor<32x2xi32>) -> tensor<64xi32>
    %154 = call @argsort(%153) : (tensor<64xi32>) -> tensor<64xi32>
    %155 = stablehlo.reshape %indices : (tensor<32x2xi32>) -> tensor<64xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %156 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %c_18 = stablehlo.constant dense<0> : tensor<i32>
    %157 = call @clip(%155, %c_18) : (tensor<64xi32>, tensor<i32>) -> tensor<64xi32>
    %c_19 = stablehlo.constant dense<0> : tensor<i32>
    %158 = stablehlo.broadcast_in_dim %c_19, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %159 = stablehlo.compare LT, %157, %158, SIGNED : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
    %c_20 = stablehlo.constant dense<8> : tensor<i32>
    %160 = stablehlo.broadcast_in_dim %c_20, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %161 = stablehlo.add %157, %160 : tensor<64xi32>
    %162 = stablehlo.select %159, %161, %157 : tensor<64xi1>, tensor<64xi32>
    %163 = stablehlo.broadcast_in_dim %162, dims = [0] : (tensor<64xi32>) -> tensor<64x1xi32>
    %c_21 = stablehlo.constant dense<1> : tensor<i32>
    %164 = stablehlo.broadcast_in_dim %c_21, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %165 = "stablehlo.scatter"(%156, %163, %164) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg11: tensor<i32>, %arg12: tensor<i32>):
      %243 = stablehlo.add %arg11, %arg12 : tensor<i32>
      stablehlo.return %243 : tensor<i32>
    }) : (tensor<8xi32>, tensor<64x1xi32>, tensor<64xi32>) -> tensor<8xi32>
    %c_22 = stablehlo.constant dense<2> : tensor<i32>
    %166 = call @floor_divide(%154, %c_22) : (tensor<64xi32>, tensor<i32>) -> tensor<64xi32>
    %c_23 = stablehlo.constant dense<0> : tensor<i32>
    %167 = stablehlo.broadcast_in_dim %c_23, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %168 = stablehlo.compare LT, %166, %167, SIGNED : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
    %c_24 = stablehlo.constant dense<32> : tensor<i32>
    %169 = stablehlo.broadcast_in_dim %c_24, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %170 = stablehlo.add %166, %169 : tensor<64xi32>
    %171 = stablehlo.select %168, %170, %166 : tensor<64xi1>, tensor<64xi32>
    %172 = stablehlo.broadcast_in_dim %171, dims = [0] : (tensor<64xi32>) -> tensor<64x1xi32>
    %173 = "stablehlo.gather"(%134, %172) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 64>}> : (tensor<32x64xbf16>, tensor<64x1xi32>) -> tensor<64x64xbf16>
    %174 = stablehlo.broadcast_in_dim %173, dims = [1, 2] : (tensor<64x64xbf16>) -> tensor<8x64x64xbf16>
    %175 = stablehlo.iota dim = 1 : tensor<8x64x64xi32>
    %176 = call @cumsum(%165) : (tensor<8xi32>) -> tensor<8xi32>
    %c_25 = stablehlo.constant dense<0> : tensor<i32>
    %177 = stablehlo.broadcast_in_dim %c_25, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %178 = stablehlo.slice %177 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %179 = stablehlo.slice %176 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %180 = stablehlo.concatenate %178, %179, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %181 = stablehlo.broadcast_in_dim %176, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %182 = stablehlo.broadcast_in_dim %180, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %183 = stablehlo.compare LE, %182, %175, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %184 = stablehlo.compare LT, %175, %181, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %185 = stablehlo.and %183, %184 : tensor<8x64x64xi1>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %186 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<bf16>) -> tensor<8x64x64xbf16>
    %187 = stablehlo.select %185, %174, %186 : tensor<8x64x64xi1>, tensor<8x64x64xbf16>
    %188 = stablehlo.dot_general %187, %arg1, contracting_dims = [2, 0] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x64x64xbf16>, tensor<8x64x96xbf16>) -> tensor<64x96xbf16>
    %189 = call @silu(%188) : (tensor<64x96xbf16>) -> tensor<64x96xbf16>
    %190 = stablehlo.broadcast_in_dim %173, dims = [1, 2] : (tensor<64x64xbf16>) -> tensor<8x64x64xbf16>
    %191 = stablehlo.iota dim = 1 : tensor<8x64x64xi32>
    %192 = call @cumsum(%165) : (tensor<8xi32>) -> tensor<8xi32>
    %c_27 = stablehlo.constant dense<0> : tensor<i32>
    %193 = stablehlo.broadcast_in_dim %c_27, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %194 = stablehlo.slice %193 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %195 = stablehlo.slice %192 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %196 = stablehlo.concatenate %194, %195, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %197 = stablehlo.broadcast_in_dim %192, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %198 = stablehlo.broadcast_in_dim %196, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %199 = stablehlo.compare LE, %198, %191, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %200 = stablehlo.compare LT, %191, %197, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %201 = stablehlo.and %199, %200 : tensor<8x64x64xi1>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %202 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<bf16>) -> tensor<8x64x64xbf16>
    %203 = stablehlo.select %201, %190, %202 : tensor<8x64x64xi1>, tensor<8x64x64xbf16>
    %204 = stablehlo.dot_general %203, %arg8, contracting_dims = [2, 0] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x64x64xbf16>, tensor<8x64x96xbf16>) -> tensor<64x96xbf16>
    %205 = stablehlo.multiply %189, %204 : tensor<64x96xbf16>
    %206 = stablehlo.broadcast_in_dim %205, dims = [1, 2] : (tensor<64x96xbf16>) -> tensor<8x64x96xbf16>
    %207 = stablehlo.iota dim = 1 : tensor<8x64x96xi32>
    %208 = call @cumsum(%165) : (tensor<8xi32>) -> tensor<8xi32>
    %c_29 = stablehlo.constant dense<0> : tensor<i32>
    %209 = stablehlo.broadcast_in_dim %c_29, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %210 = stablehlo.slice %209 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %211 = stablehlo.slice %208 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %212 = stablehlo.concatenate %210, %211, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %213 = stablehlo.broadcast_in_dim %208, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %214 = stablehlo.broadcast_in_dim %212, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %215 = stablehlo.compare LE, %214, %207, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %216 = stablehlo.compare LT, %207, %213, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %217 = stablehlo.and %215, %216 : tensor<8x64x96xi1>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %218 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<bf16>) -> tensor<8x64x96xbf16>
    %219 = stablehlo.select %217, %206, %218 : tensor<8x64x96xi1>, tensor<8x64x96xbf16>
    %220 = stablehlo.dot_general %219, %arg0, contracting_dims = [2, 0] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x64x96xbf16>, tensor<8x96x64xbf16>) -> tensor<64x64xbf16>
    %221 = stablehlo.reshape %152 : (tensor<32x2xbf16>) -> tensor<64xbf16>
    %c_31 = stablehlo.constant dense<0> : tensor<i32>
    %222 = stablehlo.broadcast_in_dim %c_31, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %223 = stablehlo.compare LT, %154, %222, SIGNED : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
    %c_32 = stablehlo.constant dense<64> : tensor<i32>
    %224 = stablehlo.broadcast_in_dim %c_32, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %225 = stablehlo.add %154, %224 : tensor<64xi32>
    %226 = stablehlo.select %223, %225, %154 : tensor<64xi1>, tensor<64xi32>
    %227 = stablehlo.broadcast_in_dim %226, dims = [0] : (tensor<64xi32>) -> tensor<64x1xi32>
    %228 = "stablehlo.gather"(%221, %227) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<64xbf16>, tensor<64x1xi32>) -> tensor<64xbf16>
    %229 = stablehlo.broadcast_in_dim %228, dims = [0] : (tensor<64xbf16>) -> tensor<64x1xbf16>
    %230 = stablehlo.broadcast_in_dim %229, dims = [0, 1] : (tensor<64x1xbf16>) -> tensor<64x64xbf16>
    %231 = stablehlo.multiply %220, %230 : tensor<64x64xbf16>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %232 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<bf16>) -> tensor<32x64xbf16>
    %c_34 = stablehlo.constant dense<2> : tensor<i32>
    %233 = call @floor_divide(%154, %c_34) : (tensor<64xi32>, tensor<i32>) -> tensor<64xi32>
    %c_35 = stablehlo.constant dense<0> : tensor<i32>
    %234 = stablehlo.broadcast_in_dim %c_35, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %235 = stablehlo.compare LT, %233, %234, SIGNED : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
    %c_36 = stablehlo.constant dense<32> : tensor<i32>
    %236 = stablehlo.broadcast_in_dim %c_36, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %237 = stablehlo.add %233, %236 : tensor<64xi32>
    %238 = stablehlo.select %235, %237, %233 : tensor<64xi1>, tensor<64xi32>
    %239 = stablehlo.broadcast_in_dim %238, dims = [0] : (tensor<64xi32>) -> tensor<64x1xi32>
    %240 = "stablehlo.scatter"(%232, %239, %231) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg11: tensor<bf16>, %arg12: tensor<bf16>):
      %243 = stablehlo.add %arg11, %arg12 : tensor<bf16>
      stablehlo.return %243 : tensor<bf16>
    }) : (tensor<32x64xbf16>, tensor<64x1xi32>, tensor<64x64xbf16>) -> tensor<32x64xbf16>
    %241 = stablehlo.reshape %240 : (tensor<32x64xbf16>) -> tensor<1x32x64xbf16>
    %242 = stablehlo.add %118, %241 : tensor<1x32x64xbf16>
    return %242 : tensor<1x32x64xbf16>
  }
  func.func private @_where(%arg0: tensor<32x32xi1>, %arg1: tensor<1x4x32x32xf32>, %arg2: tensor<f32>) -> tensor<1x4x32x32xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<1x4x32x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x4x32x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x4x32x32xi1>, tensor<1x4x32x32xf32>
    return %3 : tensor<1x4x32x32xf32>
  }
  func.func private @argsort(%arg0: tensor<64xi32>) -> tensor<64xi32> {
    %0 = stablehlo.iota dim = 0 : tensor<64xi32>
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<i32>, %arg2: tensor<i32>, %arg3: tensor<i32>, %arg4: tensor<i32>):
      %2 = stablehlo.compare LT, %arg1, %arg2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    }) : (tensor<64xi32>, tensor<64xi32>) -> (tensor<64xi32>, tensor<64xi32>)
    return %1#1 : tensor<64xi32>
  }
  func.func private @clip(%arg0: tensor<64xi32>, %arg1: tensor<i32>) -> tensor<64xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %2 = stablehlo.maximum %1, %arg0 : tensor<64xi32>
    return %2 : tensor<64xi32>
  }
  func.func private @floor_divide(%arg0: tensor<64xi32>, %arg1: tensor<i32>) -> tensor<64xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %2 = stablehlo.divide %arg0, %1 : tensor<64xi32>
    %3 = stablehlo.sign %arg0 : tensor<64xi32>
    %4 = stablehlo.sign %0 : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %6 = stablehlo.compare NE, %3, %5, SIGNED : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
    %7 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %8 = stablehlo.remainder %arg0, %7 : tensor<64xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %10 = stablehlo.compare NE, %8, %9, SIGNED : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
    %11 = stablehlo.and %6, %10 : tensor<64xi1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %12 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %13 = stablehlo.subtract %2, %12 : tensor<64xi32>
    %14 = call @_where_0(%11, %13, %2) : (tensor<64xi1>, tensor<64xi32>, tensor<64xi32>) -> tensor<64xi32>
    return %14 : tensor<64xi32>
  }
  func.func private @_where_0(%arg0: tensor<64xi1>, %arg1: tensor<64xi32>, %arg2: tensor<64xi32>) -> tensor<64xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<64xi1>, tensor<64xi32>
    return %0 : tensor<64xi32>
  }
  func.func private @cumsum(%arg0: tensor<8xi32>) -> tensor<8xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<i32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1>, padding = dense<[[7, 0]]> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 8>, window_strides = array<i64: 1>}> ({
    ^bb0(%arg1: tensor<i32>, %arg2: tensor<i32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<i32>
      stablehlo.return %2 : tensor<i32>
    }) : (tensor<8xi32>, tensor<i32>) -> tensor<8xi32>
    return %1 : tensor<8xi32>
  }
  func.func private @silu(%arg0: tensor<64x96xbf16>) -> tensor<64x96xbf16> {
    %0 = stablehlo.negate %arg0 : tensor<64x96xbf16>
    %1 = stablehlo.exponential %0 : tensor<64x96xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<64x96xbf16>
    %3 = stablehlo.add %2, %1 : tensor<64x96xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<64x96xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<64x96xbf16>
    %6 = stablehlo.multiply %arg0, %5 : tensor<64x96xbf16>
    return %6 : tensor<64x96xbf16>
  }
}
