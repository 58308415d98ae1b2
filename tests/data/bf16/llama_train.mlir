module @jit__step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<96x64xbf16> {tf.aliasing_output = 2 : i32}, %arg1: tensor<64x96xbf16> {tf.aliasing_output = 3 : i32}, %arg2: tensor<64x2x16xbf16> {tf.aliasing_output = 4 : i32}, %arg3: tensor<64xbf16> {tf.aliasing_output = 5 : i32}, %arg4: tensor<64xbf16> {tf.aliasing_output = 6 : i32}, %arg5: tensor<4x16x64xbf16> {tf.aliasing_output = 7 : i32}, %arg6: tensor<64x4x16xbf16> {tf.aliasing_output = 8 : i32}, %arg7: tensor<64x96xbf16> {tf.aliasing_output = 9 : i32}, %arg8: tensor<64x2x16xbf16> {tf.aliasing_output = 10 : i32}, %arg9: tensor<96x64xf32> {tf.aliasing_output = 11 : i32}, %arg10: tensor<64x96xf32> {tf.aliasing_output = 12 : i32}, %arg11: tensor<64x2x16xf32> {tf.aliasing_output = 13 : i32}, %arg12: tensor<64xf32> {tf.aliasing_output = 14 : i32}, %arg13: tensor<64xf32> {tf.aliasing_output = 15 : i32}, %arg14: tensor<4x16x64xf32> {tf.aliasing_output = 16 : i32}, %arg15: tensor<64x4x16xf32> {tf.aliasing_output = 17 : i32}, %arg16: tensor<64x96xf32> {tf.aliasing_output = 18 : i32}, %arg17: tensor<64x2x16xf32> {tf.aliasing_output = 19 : i32}, %arg18: tensor<96x64xf32> {tf.aliasing_output = 20 : i32}, %arg19: tensor<64x96xf32> {tf.aliasing_output = 21 : i32}, %arg20: tensor<64x2x16xf32> {tf.aliasing_output = 22 : i32}, %arg21: tensor<64xf32> {tf.aliasing_output = 23 : i32}, %arg22: tensor<64xf32> {tf.aliasing_output = 24 : i32}, %arg23: tensor<4x16x64xf32> {tf.aliasing_output = 25 : i32}, %arg24: tensor<64x4x16xf32> {tf.aliasing_output = 26 : i32}, %arg25: tensor<64x96xf32> {tf.aliasing_output = 27 : i32}, %arg26: tensor<64x2x16xf32> {tf.aliasing_output = 28 : i32}, %arg27: tensor<1x32x64xbf16>, %arg28: tensor<1x32x64xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<1x32x64xbf16> {jax.result_info = "result[1]"}, tensor<96x64xbf16> {jax.result_info = "result[2]['down']"}, tensor<64x96xbf16> {jax.result_info = "result[2]['gate']"}, tensor<64x2x16xbf16> {jax.result_info = "result[2]['k']"}, tensor<64xbf16> {jax.result_info = "result[2]['norm1']"}, tensor<64xbf16> {jax.result_info = "result[2]['norm2']"}, tensor<4x16x64xbf16> {jax.result_info = "result[2]['o']"}, tensor<64x4x16xbf16> {jax.result_info = "result[2]['q']"}, tensor<64x96xbf16> {jax.result_info = "result[2]['up']"}, tensor<64x2x16xbf16> {jax.result_info = "result[2]['v']"}, tensor<96x64xf32> {jax.result_info = "result[3]['down']"}, tensor<64x96xf32> {jax.result_info = "result[3]['gate']"}, tensor<64x2x16xf32> {jax.result_info = "result[3]['k']"}, tensor<64xf32> {jax.result_info = "result[3]['norm1']"}, tensor<64xf32> {jax.result_info = "result[3]['norm2']"}, tensor<4x16x64xf32> {jax.result_info = "result[3]['o']"}, tensor<64x4x16xf32> {jax.result_info = "result[3]['q']"}, tensor<64x96xf32> {jax.result_info = "result[3]['up']"}, tensor<64x2x16xf32> {jax.result_info = "result[3]['v']"}, tensor<96x64xf32> {jax.result_info = "result[4]['down']"}, tensor<64x96xf32> {jax.result_info = "result[4]['gate']"}, tensor<64x2x16xf32> {jax.result_info = "result[4]['k']"}, tensor<64xf32> {jax.result_info = "result[4]['norm1']"}, tensor<64xf32> {jax.result_info = "result[4]['norm2']"}, tensor<4x16x64xf32> {jax.result_info = "result[4]['o']"}, tensor<64x4x16xf32> {jax.result_info = "result[4]['q']"}, tensor<64x96xf32> {jax.result_info = "result[4]['up']"}, tensor<64x2x16xf32> {jax.result_info = "result[4]['v']"}) {
    %0 = stablehlo.convert %arg27 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
    %1 = chlo.square %0 : tensor<1x32x64xf32> -> tensor<1x32x64xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x32x64xf32>
    %3 = stablehlo.multiply %2, %0 : tensor<1x32x64xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%1 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<1x32x64xf32>, tensor<f32>) -> tensor<1x32xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %cst_1 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %7 = stablehlo.divide %5, %6 : tensor<1x32x1xf32>
    %cst_2 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %9 = stablehlo.add %7, %8 : tensor<1x32x1xf32>
    %10 = stablehlo.rsqrt %9 : tensor<1x32x1xf32>
    %11 = stablehlo.divide %10, %9 : tensor<1x32x1xf32>
    %cst_3 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %13 = stablehlo.multiply %12, %11 : tensor<1x32x1xf32>
    %14 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x64xf32>
    %15 = stablehlo.multiply %0, %14 : tensor<1x32x64xf32>
    %16 = stablehlo.convert %15 : (tensor<1x32x64xf32>) -> tensor<1x32x64xbf16>
    %17 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<1x32x64xbf16>
    %19 = stablehlo.multiply %16, %18 : tensor<1x32x64xbf16>
    %20 = stablehlo.dot_general %19, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x4x16xbf16>) -> tensor<1x32x4x16xbf16>
    %21 = stablehlo.dot_general %19, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x2x16xbf16>) -> tensor<1x32x2x16xbf16>
    %22 = stablehlo.dot_general %19, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x2x16xbf16>) -> tensor<1x32x2x16xbf16>
    %23 = stablehlo.iota dim = 0 : tensor<32xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %25 = stablehlo.iota dim = 0 : tensor<8xf32>
    %26 = stablehlo.negate %25 : tensor<8xf32>
    %cst_4 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %28 = stablehlo.divide %26, %27 : tensor<8xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %30 = stablehlo.power %29, %28 : tensor<8xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %32 = stablehlo.broadcast_in_dim %24, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x8xf32>
    %33 = stablehlo.broadcast_in_dim %31, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<32x8xf32>
    %34 = stablehlo.multiply %32, %33 : tensor<32x8xf32>
    %35 = stablehlo.sine %34 : tensor<32x8xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 2] : (tensor<32x8xf32>) -> tensor<32x1x8xf32>
    %37 = stablehlo.convert %36 : (tensor<32x1x8xf32>) -> tensor<32x1x8xbf16>
    %38 = stablehlo.cosine %34 : tensor<32x8xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 2] : (tensor<32x8xf32>) -> tensor<32x1x8xf32>
    %40 = stablehlo.convert %39 : (tensor<32x1x8xf32>) -> tensor<32x1x8xbf16>
    %41 = stablehlo.slice %20 [0:1, 0:32, 0:4, 0:8] : (tensor<1x32x4x16xbf16>) -> tensor<1x32x4x8xbf16>
    %42 = stablehlo.slice %20 [0:1, 0:32, 0:4, 8:16] : (tensor<1x32x4x16xbf16>) -> tensor<1x32x4x8xbf16>
    %43 = stablehlo.broadcast_in_dim %40, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %45 = stablehlo.multiply %41, %44 : tensor<1x32x4x8xbf16>
    %46 = stablehlo.broadcast_in_dim %37, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %48 = stablehlo.multiply %42, %47 : tensor<1x32x4x8xbf16>
    %49 = stablehlo.subtract %45, %48 : tensor<1x32x4x8xbf16>
    %50 = stablehlo.broadcast_in_dim %37, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %52 = stablehlo.multiply %41, %51 : tensor<1x32x4x8xbf16>
    %53 = stablehlo.broadcast_in_dim %40, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %55 = stablehlo.multiply %42, %54 : tensor<1x32x4x8xbf16>
    %56 = stablehlo.add %52, %55 : tensor<1x32x4x8xbf16>
    %57 = stablehlo.concatenate %49, %56, dim = 3 : (tensor<1x32x4x8xbf16>, tensor<1x32x4x8xbf16>) -> tensor<1x32x4x16xbf16>
    %58 = stablehlo.iota dim = 0 : tensor<32xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %60 = stablehlo.iota dim = 0 : tensor<8xf32>
    %61 = stablehlo.negate %60 : tensor<8xf32>
    %cst_6 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %62 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %63 = stablehlo.divide %61, %62 : tensor<8xf32>
    %cst_7 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %65 = stablehlo.power %64, %63 : tensor<8xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %67 = stablehlo.broadcast_in_dim %59, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x8xf32>
    %68 = stablehlo.broadcast_in_dim %66, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<32x8xf32>
    %69 = stablehlo.multiply %67, %68 : tensor<32x8xf32>
    %70 = stablehlo.sine %69 : tensor<32x8xf32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 2] : (tensor<32x8xf32>) -> tensor<32x1x8xf32>
    %72 = stablehlo.convert %71 : (tensor<32x1x8xf32>) -> tensor<32x1x8xbf16>
    %73 = stablehlo.cosine %69 : tensor<32x8xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0, 2] : (tensor<32x8xf32>) -> tensor<32x1x8xf32>
    %75 = stablehlo.convert %74 : (tensor<32x1x8xf32>) -> tensor<32x1x8xbf16>
    %76 = stablehlo.slice %21 [0:1, 0:32, 0:2, 0:8] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x8xbf16>
    %77 = stablehlo.slice %21 [0:1, 0:32, 0:2, 8:16] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x8xbf16>
    %78 = stablehlo.broadcast_in_dim %75, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %80 = stablehlo.multiply %76, %79 : tensor<1x32x2x8xbf16>
    %81 = stablehlo.broadcast_in_dim %72, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %83 = stablehlo.multiply %77, %82 : tensor<1x32x2x8xbf16>
    %84 = stablehlo.subtract %80, %83 : tensor<1x32x2x8xbf16>
    %85 = stablehlo.broadcast_in_dim %72, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %87 = stablehlo.multiply %76, %86 : tensor<1x32x2x8xbf16>
    %88 = stablehlo.broadcast_in_dim %75, dims = [1, 2, 3] : (tensor<32x1x8xbf16>) -> tensor<1x32x1x8xbf16>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %90 = stablehlo.multiply %77, %89 : tensor<1x32x2x8xbf16>
    %91 = stablehlo.add %87, %90 : tensor<1x32x2x8xbf16>
    %92 = stablehlo.concatenate %84, %91, dim = 3 : (tensor<1x32x2x8xbf16>, tensor<1x32x2x8xbf16>) -> tensor<1x32x2x16xbf16>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 2, 4] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x2x16xbf16>
    %94 = stablehlo.reshape %93 : (tensor<1x32x2x2x16xbf16>) -> tensor<1x32x4x16xbf16>
    %95 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 4] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x2x16xbf16>
    %96 = stablehlo.reshape %95 : (tensor<1x32x2x2x16xbf16>) -> tensor<1x32x4x16xbf16>
    %97 = stablehlo.dot_general %57, %94, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x32x4x16xbf16>, tensor<1x32x4x16xbf16>) -> tensor<1x4x32x32xbf16>
    %98 = stablehlo.convert %97 : (tensor<1x4x32x32xbf16>) -> tensor<1x4x32x32xf32>
    %cst_8 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %99 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x4x32x32xf32>
    %100 = stablehlo.multiply %98, %99 : tensor<1x4x32x32xf32>
    %101 = stablehlo.iota dim = 0 : tensor<32xi32>
    %102 = stablehlo.broadcast_in_dim %101, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %103 = stablehlo.broadcast_in_dim %101, dims = [1] : (tensor<32xi32>) -> tensor<1x32xi32>
    %104 = stablehlo.broadcast_in_dim %102, dims = [0, 1] : (tensor<32x1xi32>) -> tensor<32x32xi32>
    %105 = stablehlo.broadcast_in_dim %103, dims = [0, 1] : (tensor<1x32xi32>) -> tensor<32x32xi32>
    %106 = stablehlo.compare GE, %104, %105, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %107:2 = call @_where(%106, %100, %cst_9) : (tensor<32x32xi1>, tensor<1x4x32x32xf32>, tensor<f32>) -> (tensor<1x4x32x32xf32>, tensor<1x4x32x32xi1>)
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %108 = stablehlo.reduce(%107#0 init: %cst_10) applies stablehlo.maximum across dimensions = [3] : (tensor<1x4x32x32xf32>, tensor<f32>) -> tensor<1x4x32xf32>
    %cst_11 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %109 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1x4x32xf32>
    %110 = stablehlo.maximum %109, %108 : tensor<1x4x32xf32>
    %111 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2] : (tensor<1x4x32xf32>) -> tensor<1x4x32x1xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0, 1, 2, 3] : (tensor<1x4x32x1xf32>) -> tensor<1x4x32x32xf32>
    %113 = stablehlo.subtract %107#0, %112 : tensor<1x4x32x32xf32>
    %114 = stablehlo.exponential %113 : tensor<1x4x32x32xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %115 = stablehlo.reduce(%114 init: %cst_12) applies stablehlo.add across dimensions = [3] : (tensor<1x4x32x32xf32>, tensor<f32>) -> tensor<1x4x32xf32>
    %116 = stablehlo.broadcast_in_dim %115, dims = [0, 1, 2] : (tensor<1x4x32xf32>) -> tensor<1x4x32x1xf32>
    %117 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2, 3] : (tensor<1x4x32x1xf32>) -> tensor<1x4x32x32xf32>
    %118 = stablehlo.divide %114, %117 : tensor<1x4x32x32xf32>
    %119 = stablehlo.multiply %116, %116 : tensor<1x4x32x1xf32>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x4x32x1xf32>
    %121 = stablehlo.divide %120, %119 : tensor<1x4x32x1xf32>
    %122 = stablehlo.convert %118 : (tensor<1x4x32x32xf32>) -> tensor<1x4x32x32xbf16>
    %123 = stablehlo.dot_general %96, %122, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x32x4x16xbf16>, tensor<1x4x32x32xbf16>) -> tensor<1x4x16x32xbf16>
    %124 = stablehlo.transpose %123, dims = [0, 3, 1, 2] : (tensor<1x4x16x32xbf16>) -> tensor<1x32x4x16xbf16>
    %125 = stablehlo.dot_general %124, %arg5, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x4x16xbf16>, tensor<4x16x64xbf16>) -> tensor<1x32x64xbf16>
    %126 = stablehlo.add %arg27, %125 : tensor<1x32x64xbf16>
    %127 = stablehlo.convert %126 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
    %128 = chlo.square %127 : tensor<1x32x64xf32> -> tensor<1x32x64xf32>
    %cst_14 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %129 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1x32x64xf32>
    %130 = stablehlo.multiply %129, %127 : tensor<1x32x64xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %131 = stablehlo.reduce(%128 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<1x32x64xf32>, tensor<f32>) -> tensor<1x32xf32>
    %132 = stablehlo.broadcast_in_dim %131, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %cst_16 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %133 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %134 = stablehlo.divide %132, %133 : tensor<1x32x1xf32>
    %cst_17 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %135 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %136 = stablehlo.add %134, %135 : tensor<1x32x1xf32>
    %137 = stablehlo.rsqrt %136 : tensor<1x32x1xf32>
    %138 = stablehlo.divide %137, %136 : tensor<1x32x1xf32>
    %cst_18 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %139 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %140 = stablehlo.multiply %139, %138 : tensor<1x32x1xf32>
    %141 = stablehlo.broadcast_in_dim %137, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x64xf32>
    %142 = stablehlo.multiply %127, %141 : tensor<1x32x64xf32>
    %143 = stablehlo.convert %142 : (tensor<1x32x64xf32>) -> tensor<1x32x64xbf16>
    %144 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %145 = stablehlo.broadcast_in_dim %144, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<1x32x64xbf16>
    %146 = stablehlo.multiply %143, %145 : tensor<1x32x64xbf16>
    %147 = stablehlo.dot_general %146, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x96xbf16>) -> tensor<1x32x96xbf16>
    %148:3 = call @silu(%147) : (tensor<1x32x96xbf16>) -> (tensor<1x32x96xbf16>, tensor<1x32x96xbf16>, tensor<1x32x96xbf16>)
    %149 = stablehlo.dot_general %146, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x96xbf16>) -> tensor<1x32x96xbf16>
    %150 = stablehlo.multiply %148#0, %149 : tensor<1x32x96xbf16>
    %151 = stablehlo.dot_general %150, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x96xbf16>, tensor<96x64xbf16>) -> tensor<1x32x64xbf16>
    %152 = stablehlo.add %126, %151 : tensor<1x32x64xbf16>
    %153 = stablehlo.subtract %152, %arg28 : tensor<1x32x64xbf16>
    %154 = stablehlo.convert %153 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
    %155 = chlo.square %154 : tensor<1x32x64xf32> -> tensor<1x32x64xf32>
    %cst_19 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %156 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<1x32x64xf32>
    %157 = stablehlo.multiply %156, %154 : tensor<1x32x64xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %158 = stablehlo.reduce(%155 init: %cst_20) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x32x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_21 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %159 = stablehlo.divide %158, %cst_21 : tensor<f32>
    %cst_22 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_23 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %160 = stablehlo.divide %cst_22, %cst_23 : tensor<f32>
    %161 = stablehlo.broadcast_in_dim %160, dims = [] : (tensor<f32>) -> tensor<1x32x64xf32>
    %162 = stablehlo.multiply %161, %157 : tensor<1x32x64xf32>
    %163 = stablehlo.convert %162 : (tensor<1x32x64xf32>) -> tensor<1x32x64xbf16>
    %164 = stablehlo.dot_general %163, %150, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<1x32x96xbf16>) -> tensor<64x96xbf16>
    %165 = stablehlo.transpose %164, dims = [1, 0] : (tensor<64x96xbf16>) -> tensor<96x64xbf16>
    %166 = stablehlo.dot_general %163, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<96x64xbf16>) -> tensor<1x32x96xbf16>
    %167 = stablehlo.multiply %148#0, %166 : tensor<1x32x96xbf16>
    %168 = stablehlo.multiply %166, %149 : tensor<1x32x96xbf16>
    %169 = stablehlo.dot_general %167, %146, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x96xbf16>, tensor<1x32x64xbf16>) -> tensor<96x64xbf16>
    %170 = stablehlo.transpose %169, dims = [1, 0] : (tensor<96x64xbf16>) -> tensor<64x96xbf16>
    %171 = stablehlo.dot_general %167, %arg7, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x96xbf16>, tensor<64x96xbf16>) -> tensor<1x32x64xbf16>
    %172 = call @silu_0(%148#1, %148#2, %147, %168) : (tensor<1x32x96xbf16>, tensor<1x32x96xbf16>, tensor<1x32x96xbf16>, tensor<1x32x96xbf16>) -> tensor<1x32x96xbf16>
    %173 = stablehlo.dot_general %172, %146, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x96xbf16>, tensor<1x32x64xbf16>) -> tensor<96x64xbf16>
    %174 = stablehlo.transpose %173, dims = [1, 0] : (tensor<96x64xbf16>) -> tensor<64x96xbf16>
    %175 = stablehlo.dot_general %172, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x96xbf16>, tensor<64x96xbf16>) -> tensor<1x32x64xbf16>
    %176 = stablehlo.add %171, %175 : tensor<1x32x64xbf16>
    %177 = stablehlo.multiply %143, %176 : tensor<1x32x64xbf16>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %178 = stablehlo.reduce(%177 init: %cst_24) applies stablehlo.add across dimensions = [1] : (tensor<1x32x64xbf16>, tensor<bf16>) -> tensor<1x64xbf16>
    %179 = stablehlo.reshape %178 : (tensor<1x64xbf16>) -> tensor<1x1x64xbf16>
    %180 = stablehlo.broadcast_in_dim %144, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<1x32x64xbf16>
    %181 = stablehlo.multiply %176, %180 : tensor<1x32x64xbf16>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %182 = stablehlo.reduce(%179 init: %cst_25) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %183 = stablehlo.convert %181 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
    %184 = stablehlo.multiply %127, %183 : tensor<1x32x64xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %185 = stablehlo.reduce(%184 init: %cst_26) applies stablehlo.add across dimensions = [2] : (tensor<1x32x64xf32>, tensor<f32>) -> tensor<1x32xf32>
    %186 = stablehlo.reshape %185 : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %187 = stablehlo.broadcast_in_dim %137, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x64xf32>
    %188 = stablehlo.multiply %183, %187 : tensor<1x32x64xf32>
    %189 = stablehlo.multiply %186, %140 : tensor<1x32x1xf32>
    %cst_27 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %190 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %191 = stablehlo.divide %189, %190 : tensor<1x32x1xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %192 = stablehlo.reduce(%191 init: %cst_28) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x32x1xf32>, tensor<f32>) -> tensor<32xf32>
    %193 = stablehlo.broadcast_in_dim %192, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
    %194 = stablehlo.broadcast_in_dim %193, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x64xf32>
    %195 = stablehlo.multiply %194, %130 : tensor<1x32x64xf32>
    %196 = stablehlo.add %188, %195 : tensor<1x32x64xf32>
    %197 = stablehlo.convert %196 : (tensor<1x32x64xf32>) -> tensor<1x32x64xbf16>
    %198 = stablehlo.add %163, %197 : tensor<1x32x64xbf16>
    %199 = stablehlo.dot_general %198, %124, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<1x32x4x16xbf16>) -> tensor<64x4x16xbf16>
    %200 = stablehlo.transpose %199, dims = [1, 2, 0] : (tensor<64x4x16xbf16>) -> tensor<4x16x64xbf16>
    %201 = stablehlo.dot_general %198, %arg5, contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<4x16x64xbf16>) -> tensor<1x32x4x16xbf16>
    %202 = stablehlo.transpose %201, dims = [0, 2, 3, 1] : (tensor<1x32x4x16xbf16>) -> tensor<1x4x16x32xbf16>
    %203 = stablehlo.dot_general %202, %96, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x4x16x32xbf16>, tensor<1x32x4x16xbf16>) -> tensor<1x4x32x32xbf16>
    %204 = stablehlo.dot_general %202, %122, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<1x4x16x32xbf16>, tensor<1x4x32x32xbf16>) -> tensor<1x4x16x32xbf16>
    %205 = stablehlo.transpose %204, dims = [0, 3, 1, 2] : (tensor<1x4x16x32xbf16>) -> tensor<1x32x4x16xbf16>
    %206 = stablehlo.convert %203 : (tensor<1x4x32x32xbf16>) -> tensor<1x4x32x32xf32>
    %207 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2, 3] : (tensor<1x4x32x1xf32>) -> tensor<1x4x32x32xf32>
    %208 = stablehlo.multiply %206, %207 : tensor<1x4x32x32xf32>
    %209 = stablehlo.multiply %208, %114 : tensor<1x4x32x32xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %210 = stablehlo.reduce(%209 init: %cst_29) applies stablehlo.add across dimensions = [3] : (tensor<1x4x32x32xf32>, tensor<f32>) -> tensor<1x4x32xf32>
    %211 = stablehlo.reshape %210 : (tensor<1x4x32xf32>) -> tensor<1x4x32x1xf32>
    %212 = stablehlo.negate %211 : tensor<1x4x32x1xf32>
    %213 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2, 3] : (tensor<1x4x32x1xf32>) -> tensor<1x4x32x32xf32>
    %214 = stablehlo.divide %206, %213 : tensor<1x4x32x32xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %215 = stablehlo.reduce(%212 init: %cst_30) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x4x32x1xf32>, tensor<f32>) -> tensor<4x32xf32>
    %216 = stablehlo.broadcast_in_dim %215, dims = [1, 2] : (tensor<4x32xf32>) -> tensor<1x4x32xf32>
    %217 = stablehlo.broadcast_in_dim %216, dims = [0, 1, 2] : (tensor<1x4x32xf32>) -> tensor<1x4x32x32xf32>
    %218 = stablehlo.add %214, %217 : tensor<1x4x32x32xf32>
    %219 = stablehlo.multiply %218, %114 : tensor<1x4x32x32xf32>
    %220 = call @_where_1(%107#1, %219) : (tensor<1x4x32x32xi1>, tensor<1x4x32x32xf32>) -> tensor<1x4x32x32xf32>
    %cst_31 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %221 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<1x4x32x32xf32>
    %222 = stablehlo.multiply %220, %221 : tensor<1x4x32x32xf32>
    %223 = stablehlo.convert %222 : (tensor<1x4x32x32xf32>) -> tensor<1x4x32x32xbf16>
    %224 = stablehlo.dot_general %223, %57, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x4x32x32xbf16>, tensor<1x32x4x16xbf16>) -> tensor<1x4x32x16xbf16>
    %225 = stablehlo.transpose %224, dims = [0, 2, 1, 3] : (tensor<1x4x32x16xbf16>) -> tensor<1x32x4x16xbf16>
    %226 = stablehlo.dot_general %223, %94, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x4x32x32xbf16>, tensor<1x32x4x16xbf16>) -> tensor<1x4x32x16xbf16>
    %227 = stablehlo.transpose %226, dims = [0, 2, 1, 3] : (tensor<1x4x32x16xbf16>) -> tensor<1x32x4x16xbf16>
    %228 = stablehlo.reshape %205 : (tensor<1x32x4x16xbf16>) -> tensor<1x32x2x2x16xbf16>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %229 = stablehlo.reduce(%228 init: %cst_32) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x32x2x2x16xbf16>, tensor<bf16>) -> tensor<32x2x16xbf16>
    %230 = stablehlo.broadcast_in_dim %229, dims = [1, 2, 3] : (tensor<32x2x16xbf16>) -> tensor<1x32x2x16xbf16>
    %231 = stablehlo.reshape %225 : (tensor<1x32x4x16xbf16>) -> tensor<1x32x2x2x16xbf16>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %232 = stablehlo.reduce(%231 init: %cst_33) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x32x2x2x16xbf16>, tensor<bf16>) -> tensor<32x2x16xbf16>
    %233 = stablehlo.broadcast_in_dim %232, dims = [1, 2, 3] : (tensor<32x2x16xbf16>) -> tensor<1x32x2x16xbf16>
    %234 = stablehlo.slice %233 [0:1, 0:32, 0:2, 0:8] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x8xbf16>
    %235 = stablehlo.slice %233 [0:1, 0:32, 0:2, 8:16] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x8xbf16>
    %236 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %237 = stablehlo.multiply %235, %236 : tensor<1x32x2x8xbf16>
    %238 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %239 = stablehlo.multiply %235, %238 : tensor<1x32x2x8xbf16>
    %240 = stablehlo.negate %234 : tensor<1x32x2x8xbf16>
    %241 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %242 = stablehlo.multiply %240, %241 : tensor<1x32x2x8xbf16>
    %243 = stablehlo.add %237, %242 : tensor<1x32x2x8xbf16>
    %244 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %245 = stablehlo.multiply %234, %244 : tensor<1x32x2x8xbf16>
    %246 = stablehlo.add %239, %245 : tensor<1x32x2x8xbf16>
    %247 = stablehlo.concatenate %246, %243, dim = 3 : (tensor<1x32x2x8xbf16>, tensor<1x32x2x8xbf16>) -> tensor<1x32x2x16xbf16>
    %248 = stablehlo.slice %227 [0:1, 0:32, 0:4, 0:8] : (tensor<1x32x4x16xbf16>) -> tensor<1x32x4x8xbf16>
    %249 = stablehlo.slice %227 [0:1, 0:32, 0:4, 8:16] : (tensor<1x32x4x16xbf16>) -> tensor<1x32x4x8xbf16>
    %250 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %251 = stablehlo.multiply %249, %250 : tensor<1x32x4x8xbf16>
    %252 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %253 = stablehlo.multiply %249, %252 : tensor<1x32x4x8xbf16>
    %254 = stablehlo.negate %248 : tensor<1x32x4x8xbf16>
    %255 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %256 = stablehlo.multiply %254, %255 : tensor<1x32x4x8xbf16>
    %257 = stablehlo.add %251, %256 : tensor<1x32x4x8xbf16>
    %258 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %259 = stablehlo.multiply %248, %258 : tensor<1x32x4x8xbf16>
    %260 = stablehlo.add %253, %259 : tensor<1x32x4x8xbf16>
    %261 = stablehlo.concatenate %260, %257, dim = 3 : (tensor<1x32x4x8xbf16>, tensor<1x32x4x8xbf16>) -> tensor<1x32x4x16xbf16>
    %262 = stablehlo.dot_general %230, %19, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x2x16xbf16>, tensor<1x32x64xbf16>) -> tensor<2x16x64xbf16>
    %263 = stablehlo.transpose %262, dims = [2, 0, 1] : (tensor<2x16x64xbf16>) -> tensor<64x2x16xbf16>
    %264 = stablehlo.dot_general %230, %arg8, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<1x32x2x16xbf16>, tensor<64x2x16xbf16>) -> tensor<1x32x64xbf16>
    %265 = stablehlo.dot_general %247, %19, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x2x16xbf16>, tensor<1x32x64xbf16>) -> tensor<2x16x64xbf16>
    %266 = stablehlo.transpose %265, dims = [2, 0, 1] : (tensor<2x16x64xbf16>) -> tensor<64x2x16xbf16>
    %267 = stablehlo.dot_general %247, %arg2, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<1x32x2x16xbf16>, tensor<64x2x16xbf16>) -> tensor<1x32x64xbf16>
    %268 = stablehlo.add %264, %267 : tensor<1x32x64xbf16>
    %269 = stablehlo.dot_general %261, %19, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x4x16xbf16>, tensor<1x32x64xbf16>) -> tensor<4x16x64xbf16>
    %270 = stablehlo.transpose %269, dims = [2, 0, 1] : (tensor<4x16x64xbf16>) -> tensor<64x4x16xbf16>
    %271 = stablehlo.dot_general %261, %arg6, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<1x32x4x16xbf16>, tensor<64x4x16xbf16>) -> tensor<1x32x64xbf16>
    %272 = stablehlo.add %268, %271 : tensor<1x32x64xbf16>
    %273 = stablehlo.multiply %16, %272 : tensor<1x32x64xbf16>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %274 = stablehlo.reduce(%273 init: %cst_34) applies stablehlo.add across dimensions = [1] : (tensor<1x32x64xbf16>, tensor<bf16>) -> tensor<1x64xbf16>
    %275 = stablehlo.reshape %274 : (tensor<1x64xbf16>) -> tensor<1x1x64xbf16>
    %276 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<1x32x64xbf16>
    %277 = stablehlo.multiply %272, %276 : tensor<1x32x64xbf16>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %278 = stablehlo.reduce(%275 init: %cst_35) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %279 = stablehlo.convert %277 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
    %280 = stablehlo.multiply %0, %279 : tensor<1x32x64xf32>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %281 = stablehlo.reduce(%280 init: %cst_36) applies stablehlo.add across dimensions = [2] : (tensor<1x32x64xf32>, tensor<f32>) -> tensor<1x32xf32>
    %282 = stablehlo.reshape %281 : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %283 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x64xf32>
    %284 = stablehlo.multiply %279, %283 : tensor<1x32x64xf32>
    %285 = stablehlo.multiply %282, %13 : tensor<1x32x1xf32>
    %cst_37 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %286 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %287 = stablehlo.divide %285, %286 : tensor<1x32x1xf32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %288 = stablehlo.reduce(%287 init: %cst_38) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x32x1xf32>, tensor<f32>) -> tensor<32xf32>
    %289 = stablehlo.broadcast_in_dim %288, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
    %290 = stablehlo.broadcast_in_dim %289, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x64xf32>
    %291 = stablehlo.multiply %290, %3 : tensor<1x32x64xf32>
    %292 = stablehlo.add %284, %291 : tensor<1x32x64xf32>
    %293 = stablehlo.convert %292 : (tensor<1x32x64xf32>) -> tensor<1x32x64xbf16>
    %294 = stablehlo.add %198, %293 : tensor<1x32x64xbf16>
    %295 = stablehlo.convert %165 : (tensor<96x64xbf16>) -> tensor<96x64xf32>
    %296 = stablehlo.convert %174 : (tensor<64x96xbf16>) -> tensor<64x96xf32>
    %297 = stablehlo.convert %266 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %298 = stablehlo.convert %278 : (tensor<64xbf16>) -> tensor<64xf32>
    %299 = stablehlo.convert %182 : (tensor<64xbf16>) -> tensor<64xf32>
    %300 = stablehlo.convert %200 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %301 = stablehlo.convert %270 : (tensor<64x4x16xbf16>) -> tensor<64x4x16xf32>
    %302 = stablehlo.convert %170 : (tensor<64x96xbf16>) -> tensor<64x96xf32>
    %303 = stablehlo.convert %263 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %cst_39 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %304 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %305 = stablehlo.multiply %304, %arg9 : tensor<96x64xf32>
    %cst_40 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %306 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %307 = stablehlo.multiply %306, %295 : tensor<96x64xf32>
    %308 = stablehlo.add %305, %307 : tensor<96x64xf32>
    %cst_41 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %309 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %310 = stablehlo.multiply %309, %arg10 : tensor<64x96xf32>
    %cst_42 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %311 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %312 = stablehlo.multiply %311, %296 : tensor<64x96xf32>
    %313 = stablehlo.add %310, %312 : tensor<64x96xf32>
    %cst_43 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %314 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %315 = stablehlo.multiply %314, %arg11 : tensor<64x2x16xf32>
    %cst_44 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %316 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %317 = stablehlo.multiply %316, %297 : tensor<64x2x16xf32>
    %318 = stablehlo.add %315, %317 : tensor<64x2x16xf32>
    %cst_45 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %319 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %320 = stablehlo.multiply %319, %arg12 : tensor<64xf32>
    %cst_46 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %321 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %322 = stablehlo.multiply %321, %298 : tensor<64xf32>
    %323 = stablehlo.add %320, %322 : tensor<64xf32>
    %cst_47 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %324 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %325 = stablehlo.multiply %324, %arg13 : tensor<64xf32>
    %cst_48 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %326 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %327 = stablehlo.multiply %326, %299 : tensor<64xf32>
    %328 = stablehlo.add %325, %327 : tensor<64xf32>
    %cst_49 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %329 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %330 = stablehlo.multiply %329, %arg14 : tensor<4x16x64xf32>
    %cst_50 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %331 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %332 = stablehlo.multiply %331, %300 : tensor<4x16x64xf32>
    %333 = stablehlo.add %330, %332 : tensor<4x16x64xf32>
    %cst_51 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %334 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %335 = stablehlo.multiply %334, %arg15 : tensor<64x4x16xf32>
    %cst_52 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %336 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %337 = stablehlo.multiply %336, %301 : tensor<64x4x16xf32>
    %338 = stablehlo.add %335, %337 : tensor<64x4x16xf32>
    %cst_53 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %339 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %340 = stablehlo.multiply %339, %arg16 : tensor<64x96xf32>
    %cst_54 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %341 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %342 = stablehlo.multiply %341, %302 : tensor<64x96xf32>
    %343 = stablehlo.add %340, %342 : tensor<64x96xf32>
    %cst_55 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %344 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %345 = stablehlo.multiply %344, %arg17 : tensor<64x2x16xf32>
    %cst_56 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %346 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %347 = stablehlo.multiply %346, %303 : tensor<64x2x16xf32>
    %348 = stablehlo.add %345, %347 : tensor<64x2x16xf32>
    %cst_57 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %349 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %350 = stablehlo.multiply %349, %arg18 : tensor<96x64xf32>
    %cst_58 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %351 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %352 = stablehlo.multiply %351, %295 : tensor<96x64xf32>
    %353 = stablehlo.multiply %352, %295 : tensor<96x64xf32>
    %354 = stablehlo.add %350, %353 : tensor<96x64xf32>
    %cst_59 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %355 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %356 = stablehlo.multiply %355, %arg19 : tensor<64x96xf32>
    %cst_60 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %357 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %358 = stablehlo.multiply %357, %296 : tensor<64x96xf32>
    %359 = stablehlo.multiply %358, %296 : tensor<64x96xf32>
    %360 = stablehlo.add %356, %359 : tensor<64x96xf32>
    %cst_61 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %361 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %362 = stablehlo.multiply %361, %arg20 : tensor<64x2x16xf32>
    %cst_62 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %363 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %364 = stablehlo.multiply %363, %297 : tensor<64x2x16xf32>
    %365 = stablehlo.multiply %364, %297 : tensor<64x2x16xf32>
    %366 = stablehlo.add %362, %365 : tensor<64x2x16xf32>
    %cst_63 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %367 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %368 = stablehlo.multiply %367, %arg21 : tensor<64xf32>
    %cst_64 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %369 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %370 = stablehlo.multiply %369, %298 : tensor<64xf32>
    %371 = stablehlo.multiply %370, %298 : tensor<64xf32>
    %372 = stablehlo.add %368, %371 : tensor<64xf32>
    %cst_65 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %373 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %374 = stablehlo.multiply %373, %arg22 : tensor<64xf32>
    %cst_66 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %375 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %376 = stablehlo.multiply %375, %299 : tensor<64xf32>
    %377 = stablehlo.multiply %376, %299 : tensor<64xf32>
    %378 = stablehlo.add %374, %377 : tensor<64xf32>
    %cst_67 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %379 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %380 = stablehlo.multiply %379, %arg23 : tensor<4x16x64xf32>
    %cst_68 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %381 = stablehlo.broadcast_in_dim %cst_68, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %382 = stablehlo.multiply %381, %300 : tensor<4x16x64xf32>
    %383 = stablehlo.multiply %382, %300 : tensor<4x16x64xf32>
    %384 = stablehlo.add %380, %383 : tensor<4x16x64xf32>
    %cst_69 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %385 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %386 = stablehlo.multiply %385, %arg24 : tensor<64x4x16xf32>
    %cst_70 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %387 = stablehlo.broadcast_in_dim %cst_70, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %388 = stablehlo.multiply %387, %301 : tensor<64x4x16xf32>
    %389 = stablehlo.multiply %388, %301 : tensor<64x4x16xf32>
    %390 = stablehlo.add %386, %389 : tensor<64x4x16xf32>
    %cst_71 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %391 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %392 = stablehlo.multiply %391, %arg25 : tensor<64x96xf32>
    %cst_72 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %393 = stablehlo.broadcast_in_dim %cst_72, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %394 = stablehlo.multiply %393, %302 : tensor<64x96xf32>
    %395 = stablehlo.multiply %394, %302 : tensor<64x96xf32>
    %396 = stablehlo.add %392, %395 : tensor<64x96xf32>
    %cst_73 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %397 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %398 = stablehlo.multiply %397, %arg26 : tensor<64x2x16xf32>
    %cst_74 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %399 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %400 = stablehlo.multiply %399, %303 : tensor<64x2x16xf32>
    %401 = stablehlo.multiply %400, %303 : tensor<64x2x16xf32>
    %402 = stablehlo.add %398, %401 : tensor<64x2x16xf32>
    %403 = stablehlo.sqrt %354 : tensor<96x64xf32>
    %cst_75 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %404 = stablehlo.broadcast_in_dim %cst_75, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %405 = stablehlo.add %403, %404 : tensor<96x64xf32>
    %406 = stablehlo.divide %308, %405 : tensor<96x64xf32>
    %407 = stablehlo.convert %arg0 : (tensor<96x64xbf16>) -> tensor<96x64xf32>
    %cst_76 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %408 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %409 = stablehlo.multiply %408, %407 : tensor<96x64xf32>
    %410 = stablehlo.add %406, %409 : tensor<96x64xf32>
    %cst_77 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %411 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<96x64xf32>
    %412 = stablehlo.multiply %411, %410 : tensor<96x64xf32>
    %413 = stablehlo.convert %arg0 : (tensor<96x64xbf16>) -> tensor<96x64xf32>
    %414 = stablehlo.subtract %413, %412 : tensor<96x64xf32>
    %415 = stablehlo.convert %414 : (tensor<96x64xf32>) -> tensor<96x64xbf16>
    %416 = stablehlo.sqrt %360 : tensor<64x96xf32>
    %cst_78 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %417 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %418 = stablehlo.add %416, %417 : tensor<64x96xf32>
    %419 = stablehlo.divide %313, %418 : tensor<64x96xf32>
    %420 = stablehlo.convert %arg1 : (tensor<64x96xbf16>) -> tensor<64x96xf32>
    %cst_79 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %421 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %422 = stablehlo.multiply %421, %420 : tensor<64x96xf32>
    %423 = stablehlo.add %419, %422 : tensor<64x96xf32>
    %cst_80 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %424 = stablehlo.broadcast_in_dim %cst_80, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %425 = stablehlo.multiply %424, %423 : tensor<64x96xf32>
    %426 = stablehlo.convert %arg1 : (tensor<64x96xbf16>) -> tensor<64x96xf32>
    %427 = stablehlo.subtract %426, %425 : tensor<64x96xf32>
    %428 = stablehlo.convert %427 : (tensor<64x96xf32>) -> tensor<64x96xbf16>
    %429 = stablehlo.sqrt %366 : tensor<64x2x16xf32>
    %cst_81 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %430 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %431 = stablehlo.add %429, %430 : tensor<64x2x16xf32>
    %432 = stablehlo.divide %318, %431 : tensor<64x2x16xf32>
    %433 = stablehlo.convert %arg2 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %cst_82 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %434 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %435 = stablehlo.multiply %434, %433 : tensor<64x2x16xf32>
    %436 = stablehlo.add %432, %435 : tensor<64x2x16xf32>
    %cst_83 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %437 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %438 = stablehlo.multiply %437, %436 : tensor<64x2x16xf32>
    %439 = stablehlo.convert %arg2 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %440 = stablehlo.subtract %439, %438 : tensor<64x2x16xf32>
    %441 = stablehlo.convert %440 : (tensor<64x2x16xf32>) -> tensor<64x2x16xbf16>
    %442 = stablehlo.sqrt %372 : tensor<64xf32>
    %cst_84 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %443 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %444 = stablehlo.add %442, %443 : tensor<64xf32>
    %445 = stablehlo.divide %323, %444 : tensor<64xf32>
    %446 = stablehlo.convert %arg3 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_85 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %447 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %448 = stablehlo.multiply %447, %446 : tensor<64xf32>
    %449 = stablehlo.add %445, %448 : tensor<64xf32>
    %cst_86 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %450 = stablehlo.broadcast_in_dim %cst_86, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %451 = stablehlo.multiply %450, %449 : tensor<64xf32>
    %452 = stablehlo.convert %arg3 : (tensor<64xbf16>) -> tensor<64xf32>
    %453 = stablehlo.subtract %452, %451 : tensor<64xf32>
    %454 = stablehlo.convert %453 : (tensor<64xf32>) -> tensor<64xbf16>
    %455 = stablehlo.sqrt %378 : tensor<64xf32>
    %cst_87 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %456 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %457 = stablehlo.add %455, %456 : tensor<64xf32>
    %458 = stablehlo.divide %328, %457 : tensor<64xf32>
    %459 = stablehlo.convert %arg4 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_88 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %460 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %461 = stablehlo.multiply %460, %459 : tensor<64xf32>
    %462 = stablehlo.add %458, %461 : tensor<64xf32>
    %cst_89 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %463 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %464 = stablehlo.multiply %463, %462 : tensor<64xf32>
    %465 = stablehlo.convert %arg4 : (tensor<64xbf16>) -> tensor<64xf32>
    %466 = stablehlo.subtract %465, %464 : tensor<64xf32>
    %467 = stablehlo.convert %466 : (tensor<64xf32>) -> tensor<64xbf16>
    %468 = stablehlo.sqrt %384 : tensor<4x16x64xf32>
    %cst_90 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %469 = stablehlo.broadcast_in_dim %cst_90, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %470 = stablehlo.add %468, %469 : tensor<4x16x64xf32>
    %471 = stablehlo.divide %333, %470 : tensor<4x16x64xf32>
    %472 = stablehlo.convert %arg5 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %cst_91 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %473 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %474 = stablehlo.multiply %473, %472 : tensor<4x16x64xf32>
    %475 = stablehlo.add %471, %474 : tensor<4x16x64xf32>
    %cst_92 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %476 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %477 = stablehlo.multiply %476, %475 : tensor<4x16x64xf32>
    %478 = stablehlo.convert %arg5 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %479 = stablehlo.subtract %478, %477 : tensor<4x16x64xf32>
    %480 = stablehlo.convert %479 : (tensor<4x16x64xf32>) -> tensor<4x16x64xbf16>
    %481 = stablehlo.sqrt %390 : tensor<64x4x16xf32>
    %cst_93 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %482 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %483 = stablehlo.add %481, %482 : tensor<64x4x16xf32>
    %484 = stablehlo.divide %338, %483 : tensor<64x4x16xf32>
    %485 = stablehlo.convert %arg6 : (tensor<64x4x16xbf16>) -> tensor<64x4x16xf32>
    %cst_94 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %486 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %487 = stablehlo.multiply %486, %485 : tensor<64x4x16xf32>
    %488 = stablehlo.add %484, %487 : tensor<64x4x16xf32>
    %cst_95 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %489 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %490 = stablehlo.multiply %489, %488 : tensor<64x4x16xf32>
    %491 = stablehlo.convert %arg6 : (tensor<64x4x16xbf16>) -> tensor<64x4x16xf32>
    %492 = stablehlo.subtract %491, %490 : tensor<64x4x16xf32>
    %493 = stablehlo.convert %492 : (tensor<64x4x16xf32>) -> tensor<64x4x16xbf16>
    %494 = stablehlo.sqrt %396 : tensor<64x96xf32>
    %cst_96 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %495 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %496 = stablehlo.add %494, %495 : tensor<64x96xf32>
    %497 = stablehlo.divide %343, %496 : tensor<64x96xf32>
    %498 = stablehlo.convert %arg7 : (tensor<64x96xbf16>) -> tensor<64x96xf32>
    %cst_97 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %499 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %500 = stablehlo.multiply %499, %498 : tensor<64x96xf32>
    %501 = stablehlo.add %497, %500 : tensor<64x96xf32>
    %cst_98 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %502 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<64x96xf32>
    %503 = stablehlo.multiply %502, %501 : tensor<64x96xf32>
    %504 = stablehlo.convert %arg7 : (tensor<64x96xbf16>) -> tensor<64x96xf32>
    %505 = stablehlo.subtract %504, %503 : tensor<64x96xf32>
    %506 = stablehlo.convert %505 : (tensor<64x96xf32>) -> tensor<64x96xbf16>
    %507 = stablehlo.sqrt %402 : tensor<64x2x16xf32>
    %cst_99 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %508 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %509 = stablehlo.add %507, %508 : tensor<64x2x16xf32>
    %510 = stablehlo.divide %348, %509 : tensor<64x2x16xf32>
    %511 = stablehlo.convert %arg8 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %cst_100 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %512 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %513 = stablehlo.multiply %512, %511 : tensor<64x2x16xf32>
    %514 = stablehlo.add %510, %513 : tensor<64x2x16xf32>
    %cst_101 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %515 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %516 = stablehlo.multiply %515, %514 : tensor<64x2x16xf32>
    %517 = stablehlo.convert %arg8 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %518 = stablehlo.subtract %517, %516 : tensor<64x2x16xf32>
    %519 = stablehlo.convert %518 : (tensor<64x2x16xf32>) -> tensor<64x2x16xbf16>
    return %159, %294, %415, %428, %441, %454, %467, %480, %493, %506, %519, %308, %313, %318, %323, %328, %333, %338, %343, %348, %354, %360, %366, %372, %378, %384, %390, %396, %402 : tensor<f32>, tensor<1x32x64xbf16>, tensor<96x64xbf16>, tensor<64x96xbf16>, tensor<64x2x16xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<4x16x64xbf16>, tensor<64x4x16xbf16>, tensor<64x96xbf16>, tensor<64x2x16xbf16>, tensor<96x64xf32>, tensor<64x96xf32>, tensor<64x2x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64x4x16xf32>, tensor<64x96xf32>, tensor<64x2x16xf32>, tensor<96x64xf32>, tensor<64x96xf32>, tensor<64x2x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64x4x16xf32>, tensor<64x96xf32>, tensor<64x2x16xf32>
  }
  func.func private @_where(%arg0: tensor<32x32xi1>, %arg1: tensor<1x4x32x32xf32>, %arg2: tensor<f32>) -> (tensor<1x4x32x32xf32>, tensor<1x4x32x32xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<1x4x32x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x4x32x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x4x32x32xi1>, tensor<1x4x32x32xf32>
    return %3, %1 : tensor<1x4x32x32xf32>, tensor<1x4x32x32xi1>
  }
  func.func private @silu(%arg0: tensor<1x32x96xbf16>) -> (tensor<1x32x96xbf16>, tensor<1x32x96xbf16>, tensor<1x32x96xbf16>) {
    %0 = stablehlo.negate %arg0 : tensor<1x32x96xbf16>
    %1 = stablehlo.exponential %0 : tensor<1x32x96xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<1x32x96xbf16>
    %3 = stablehlo.add %2, %1 : tensor<1x32x96xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<1x32x96xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<1x32x96xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<1x32x96xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<1x32x96xbf16>
    %8 = stablehlo.multiply %5, %7 : tensor<1x32x96xbf16>
    %9 = stablehlo.multiply %arg0, %5 : tensor<1x32x96xbf16>
    return %9, %8, %5 : tensor<1x32x96xbf16>, tensor<1x32x96xbf16>, tensor<1x32x96xbf16>
  }
  func.func private @silu_0(%arg0: tensor<1x32x96xbf16>, %arg1: tensor<1x32x96xbf16>, %arg2: tensor<1x32x96xbf16>, %arg3: tensor<1x32x96xbf16>) -> tensor<1x32x96xbf16> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<1x32x96xbf16>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<1x32x96xbf16>
    %2 = stablehlo.multiply %0, %arg0 : tensor<1x32x96xbf16>
    %3 = stablehlo.add %1, %2 : tensor<1x32x96xbf16>
    return %3 : tensor<1x32x96xbf16>
  }
  func.func private @_where_1(%arg0: tensor<1x4x32x32xi1>, %arg1: tensor<1x4x32x32xf32>) -> tensor<1x4x32x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x4x32x32xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<1x4x32x32xi1>, tensor<1x4x32x32xf32>
    return %1 : tensor<1x4x32x32xf32>
  }
}
