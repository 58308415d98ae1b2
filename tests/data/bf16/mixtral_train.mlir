module @jit__step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x96x64xbf16> {tf.aliasing_output = 2 : i32}, %arg1: tensor<8x64x96xbf16> {tf.aliasing_output = 3 : i32}, %arg2: tensor<64x2x16xbf16> {tf.aliasing_output = 4 : i32}, %arg3: tensor<64xbf16> {tf.aliasing_output = 5 : i32}, %arg4: tensor<64xbf16> {tf.aliasing_output = 6 : i32}, %arg5: tensor<4x16x64xbf16> {tf.aliasing_output = 7 : i32}, %arg6: tensor<64x4x16xbf16> {tf.aliasing_output = 8 : i32}, %arg7: tensor<64x8xbf16> {tf.aliasing_output = 9 : i32}, %arg8: tensor<8x64x96xbf16> {tf.aliasing_output = 10 : i32}, %arg9: tensor<64x2x16xbf16> {tf.aliasing_output = 11 : i32}, %arg10: tensor<8x96x64xf32> {tf.aliasing_output = 12 : i32}, %arg11: tensor<8x64x96xf32> {tf.aliasing_output = 13 : i32}, %arg12: tensor<64x2x16xf32> {tf.aliasing_output = 14 : i32}, %arg13: tensor<64xf32> {tf.aliasing_output = 15 : i32}, %arg14: tensor<64xf32> {tf.aliasing_output = 16 : i32}, %arg15: tensor<4x16x64xf32> {tf.aliasing_output = 17 : i32}, %arg16: tensor<64x4x16xf32> {tf.aliasing_output = 18 : i32}, %arg17: tensor<64x8xf32> {tf.aliasing_output = 19 : i32}, %arg18: tensor<8x64x96xf32> {tf.aliasing_output = 20 : i32}, %arg19: tensor<64x2x16xf32> {tf.aliasing_output = 21 : i32}, %arg20: tensor<8x96x64xf32> {tf.aliasing_output = 22 : i32}, %arg21: tensor<8x64x96xf32> {tf.aliasing_output = 23 : i32}, %arg22: tensor<64x2x16xf32> {tf.aliasing_output = 24 : i32}, %arg23: tensor<64xf32> {tf.aliasing_output = 25 : i32}, %arg24: tensor<64xf32> {tf.aliasing_output = 26 : i32}, %arg25: tensor<4x16x64xf32> {tf.aliasing_output = 27 : i32}, %arg26: tensor<64x4x16xf32> {tf.aliasing_output = 28 : i32}, %arg27: tensor<64x8xf32> {tf.aliasing_output = 29 : i32}, %arg28: tensor<8x64x96xf32> {tf.aliasing_output = 30 : i32}, %arg29: tensor<64x2x16xf32> {tf.aliasing_output = 31 : i32}, %arg30: tensor<1x32x64xbf16>, %arg31: tensor<1x32x64xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<1x32x64xbf16> {jax.result_info = "result[1]"}, tensor<8x96x64xbf16> {jax.result_info = "result[2]['down']"}, tensor<8x64x96xbf16> {jax.result_info = "result[2]['gate']"}, tensor<64x2x16xbf16> {jax.result_info = "result[2]['k']"}, tensor<64xbf16> {jax.result_info = "result[2]['norm1']"}, tensor<64xbf16> {jax.result_info = "result[2]['norm2']"}, tensor<4x16x64xbf16> {jax.result_info = "result[2]['o']"}, tensor<64x4x16xbf16> {jax.result_info = "result[2]['q']"}, tensor<64x8xbf16> {jax.result_info = "result[2]['router']"}, tensor<8x64x96xbf16> {jax.result_info = "result[2]['up']"}, tensor<64x2x16xbf16> {jax.result_info = "result[2]['v']"}, tensor<8x96x64xf32> {jax.result_info = "result[3]['down']"}, tensor<8x64x96xf32> {jax.result_info = "result[3]['gate']"}, tensor<64x2x16xf32> {jax.result_info = "result[3]['k']"}, tensor<64xf32> {jax.result_info = "result[3]['norm1']"}, tensor<64xf32> {jax.result_info = "result[3]['norm2']"}, tensor<4x16x64xf32> {jax.result_info = "result[3]['o']"}, tensor<64x4x16xf32> {jax.result_info = "result[3]['q']"}, tensor<64x8xf32> {jax.result_info = "result[3]['router']"}, tensor<8x64x96xf32> {jax.result_info = "result[3]['up']"}, tensor<64x2x16xf32> {jax.result_info = "result[3]['v']"}, tensor<8x96x64xf32> {jax.result_info = "result[4]['down']"}, tensor<8x64x96xf32> {jax.result_info = "result[4]['gate']"}, tensor<64x2x16xf32> {jax.result_info = "result[4]['k']"}, tensor<64xf32> {jax.result_info = "result[4]['norm1']"}, tensor<64xf32> {jax.result_info = "result[4]['norm2']"}, tensor<4x16x64xf32> {jax.result_info = "result[4]['o']"}, tensor<64x4x16xf32> {jax.result_info = "result[4]['q']"}, tensor<64x8xf32> {jax.result_info = "result[4]['router']"}, tensor<8x64x96xf32> {jax.result_info = "result[4]['up']"}, tensor<64x2x16xf32> {jax.result_info = "result[4]['v']"}) {
    %0 = stablehlo.convert %arg30 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
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
    %22 = stablehlo.dot_general %19, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<64x2x16xbf16>) -> tensor<1x32x2x16xbf16>
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
    %126 = stablehlo.add %arg30, %125 : tensor<1x32x64xbf16>
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
    %147 = stablehlo.reshape %146 : (tensor<1x32x64xbf16>) -> tensor<32x64xbf16>
    %148 = stablehlo.dot_general %147, %arg7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x64xbf16>, tensor<64x8xbf16>) -> tensor<32x8xbf16>
    %149 = stablehlo.convert %148 : (tensor<32x8xbf16>) -> tensor<32x8xf32>
    %cst_19 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %150 = stablehlo.reduce(%149 init: %cst_19) applies stablehlo.maximum across dimensions = [1] : (tensor<32x8xf32>, tensor<f32>) -> tensor<32xf32>
    %cst_20 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %151 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %152 = stablehlo.maximum %151, %150 : tensor<32xf32>
    %153 = stablehlo.broadcast_in_dim %152, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %154 = stablehlo.broadcast_in_dim %153, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x8xf32>
    %155 = stablehlo.subtract %149, %154 : tensor<32x8xf32>
    %156 = stablehlo.exponential %155 : tensor<32x8xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %157 = stablehlo.reduce(%156 init: %cst_21) applies stablehlo.add across dimensions = [1] : (tensor<32x8xf32>, tensor<f32>) -> tensor<32xf32>
    %158 = stablehlo.broadcast_in_dim %157, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %159 = stablehlo.broadcast_in_dim %158, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x8xf32>
    %160 = stablehlo.divide %156, %159 : tensor<32x8xf32>
    %161 = stablehlo.multiply %158, %158 : tensor<32x1xf32>
    %cst_22 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %162 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %163 = stablehlo.divide %162, %161 : tensor<32x1xf32>
    %values, %indices = chlo.top_k(%160, k = 2) : tensor<32x8xf32> -> (tensor<32x2xf32>, tensor<32x2xi32>)
    %164 = stablehlo.reshape %indices : (tensor<32x2xi32>) -> tensor<32x2x1xi32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %165 = stablehlo.reduce(%values init: %cst_23) applies stablehlo.add across dimensions = [1] : (tensor<32x2xf32>, tensor<f32>) -> tensor<32xf32>
    %166 = stablehlo.broadcast_in_dim %165, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %167 = stablehlo.broadcast_in_dim %166, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x2xf32>
    %168 = stablehlo.divide %values, %167 : tensor<32x2xf32>
    %169 = stablehlo.multiply %166, %166 : tensor<32x1xf32>
    %cst_24 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %170 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<32x1xf32>
    %171 = stablehlo.divide %170, %169 : tensor<32x1xf32>
    %172 = stablehlo.convert %168 : (tensor<32x2xf32>) -> tensor<32x2xbf16>
    %173 = stablehlo.reshape %indices : (tensor<32x2xi32>) -> tensor<64xi32>
    %174 = call @argsort(%173) : (tensor<64xi32>) -> tensor<64xi32>
    %175 = stablehlo.reshape %indices : (tensor<32x2xi32>) -> tensor<64xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %176 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %c_25 = stablehlo.constant dense<0> : tensor<i32>
    %177 = call @clip(%175, %c_25) : (tensor<64xi32>, tensor<i32>) -> tensor<64xi32>
    %c_26 = stablehlo.constant dense<0> : tensor<i32>
    %178 = stablehlo.broadcast_in_dim %c_26, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %179 = stablehlo.compare LT, %177, %178, SIGNED : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
    %c_27 = stablehlo.constant dense<8> : tensor<i32>
    %180 = stablehlo.broadcast_in_dim %c_27, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %181 = stablehlo.add %177, %180 : tensor<64xi32>
    %182 = stablehlo.select %179, %181, %177 : tensor<64xi1>, tensor<64xi32>
    %183 = stablehlo.broadcast_in_dim %182, dims = [0] : (tensor<64xi32>) -> tensor<64x1xi32>
    %c_28 = stablehlo.constant dense<1> : tensor<i32>
    %184 = stablehlo.broadcast_in_dim %c_28, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %185 = "stablehlo.scatter"(%176, %183, %184) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg32: tensor<i32>, %arg33: tensor<i32>):
      %833 = stablehlo.add %arg32, %arg33 : tensor<i32>
      stablehlo.return %833 : tensor<i32>
    }) : (tensor<8xi32>, tensor<64x1xi32>, tensor<64xi32>) -> tensor<8xi32>
    %c_29 = stablehlo.constant dense<2> : tensor<i32>
    %186 = call @floor_divide(%174, %c_29) : (tensor<64xi32>, tensor<i32>) -> tensor<64xi32>
    %c_30 = stablehlo.constant dense<0> : tensor<i32>
    %187 = stablehlo.broadcast_in_dim %c_30, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %188 = stablehlo.compare LT, %186, %187, SIGNED : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
    %c_31 = stablehlo.constant dense<32> : tensor<i32>
    %189 = stablehlo.broadcast_in_dim %c_31, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %190 = stablehlo.add %186, %189 : tensor<64xi32>
    %191 = stablehlo.select %188, %190, %186 : tensor<64xi1>, tensor<64xi32>
    %192 = stablehlo.broadcast_in_dim %191, dims = [0] : (tensor<64xi32>) -> tensor<64x1xi32>
    %193 = "stablehlo.gather"(%147, %192) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 64>}> : (tensor<32x64xbf16>, tensor<64x1xi32>) -> tensor<64x64xbf16>
    %194 = stablehlo.broadcast_in_dim %193, dims = [1, 2] : (tensor<64x64xbf16>) -> tensor<8x64x64xbf16>
    %195 = stablehlo.iota dim = 1 : tensor<8x64x64xi32>
    %196 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_32 = stablehlo.constant dense<0> : tensor<i32>
    %197 = stablehlo.broadcast_in_dim %c_32, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %198 = stablehlo.slice %197 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %199 = stablehlo.slice %196 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %200 = stablehlo.concatenate %198, %199, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %201 = stablehlo.broadcast_in_dim %196, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %202 = stablehlo.broadcast_in_dim %200, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %203 = stablehlo.compare LE, %202, %195, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %204 = stablehlo.compare LT, %195, %201, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %205 = stablehlo.and %203, %204 : tensor<8x64x64xi1>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %206 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<bf16>) -> tensor<8x64x64xbf16>
    %207 = stablehlo.select %205, %194, %206 : tensor<8x64x64xi1>, tensor<8x64x64xbf16>
    %208 = stablehlo.dot_general %207, %arg1, contracting_dims = [2, 0] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x64x64xbf16>, tensor<8x64x96xbf16>) -> tensor<64x96xbf16>
    %209:3 = call @silu(%208) : (tensor<64x96xbf16>) -> (tensor<64x96xbf16>, tensor<64x96xbf16>, tensor<64x96xbf16>)
    %210 = stablehlo.broadcast_in_dim %193, dims = [1, 2] : (tensor<64x64xbf16>) -> tensor<8x64x64xbf16>
    %211 = stablehlo.iota dim = 1 : tensor<8x64x64xi32>
    %212 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_34 = stablehlo.constant dense<0> : tensor<i32>
    %213 = stablehlo.broadcast_in_dim %c_34, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %214 = stablehlo.slice %213 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %215 = stablehlo.slice %212 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %216 = stablehlo.concatenate %214, %215, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %217 = stablehlo.broadcast_in_dim %212, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %218 = stablehlo.broadcast_in_dim %216, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %219 = stablehlo.compare LE, %218, %211, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %220 = stablehlo.compare LT, %211, %217, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %221 = stablehlo.and %219, %220 : tensor<8x64x64xi1>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %222 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<bf16>) -> tensor<8x64x64xbf16>
    %223 = stablehlo.select %221, %210, %222 : tensor<8x64x64xi1>, tensor<8x64x64xbf16>
    %224 = stablehlo.dot_general %223, %arg8, contracting_dims = [2, 0] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x64x64xbf16>, tensor<8x64x96xbf16>) -> tensor<64x96xbf16>
    %225 = stablehlo.multiply %209#0, %224 : tensor<64x96xbf16>
    %226 = stablehlo.broadcast_in_dim %225, dims = [1, 2] : (tensor<64x96xbf16>) -> tensor<8x64x96xbf16>
    %227 = stablehlo.iota dim = 1 : tensor<8x64x96xi32>
    %228 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_36 = stablehlo.constant dense<0> : tensor<i32>
    %229 = stablehlo.broadcast_in_dim %c_36, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %230 = stablehlo.slice %229 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %231 = stablehlo.slice %228 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %232 = stablehlo.concatenate %230, %231, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %233 = stablehlo.broadcast_in_dim %228, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %234 = stablehlo.broadcast_in_dim %232, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %235 = stablehlo.compare LE, %234, %227, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %236 = stablehlo.compare LT, %227, %233, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %237 = stablehlo.and %235, %236 : tensor<8x64x96xi1>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %238 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<bf16>) -> tensor<8x64x96xbf16>
    %239 = stablehlo.select %237, %226, %238 : tensor<8x64x96xi1>, tensor<8x64x96xbf16>
    %240 = stablehlo.dot_general %239, %arg0, contracting_dims = [2, 0] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x64x96xbf16>, tensor<8x96x64xbf16>) -> tensor<64x64xbf16>
    %241 = stablehlo.reshape %172 : (tensor<32x2xbf16>) -> tensor<64xbf16>
    %c_38 = stablehlo.constant dense<0> : tensor<i32>
    %242 = stablehlo.broadcast_in_dim %c_38, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %243 = stablehlo.compare LT, %174, %242, SIGNED : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
    %c_39 = stablehlo.constant dense<64> : tensor<i32>
    %244 = stablehlo.broadcast_in_dim %c_39, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %245 = stablehlo.add %174, %244 : tensor<64xi32>
    %246 = stablehlo.select %243, %245, %174 : tensor<64xi1>, tensor<64xi32>
    %247 = stablehlo.broadcast_in_dim %246, dims = [0] : (tensor<64xi32>) -> tensor<64x1xi32>
    %248 = "stablehlo.gather"(%241, %247) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<64xbf16>, tensor<64x1xi32>) -> tensor<64xbf16>
    %249 = stablehlo.broadcast_in_dim %248, dims = [0] : (tensor<64xbf16>) -> tensor<64x1xbf16>
    %250 = stablehlo.broadcast_in_dim %249, dims = [0, 1] : (tensor<64x1xbf16>) -> tensor<64x64xbf16>
    %251 = stablehlo.multiply %240, %250 : tensor<64x64xbf16>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %252 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<bf16>) -> tensor<32x64xbf16>
    %c_41 = stablehlo.constant dense<2> : tensor<i32>
    %253 = call @floor_divide(%174, %c_41) : (tensor<64xi32>, tensor<i32>) -> tensor<64xi32>
    %c_42 = stablehlo.constant dense<0> : tensor<i32>
    %254 = stablehlo.broadcast_in_dim %c_42, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %255 = stablehlo.compare LT, %253, %254, SIGNED : (tensor<64xi32>, tensor<64xi32>) -> tensor<64xi1>
    %c_43 = stablehlo.constant dense<32> : tensor<i32>
    %256 = stablehlo.broadcast_in_dim %c_43, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %257 = stablehlo.add %253, %256 : tensor<64xi32>
    %258 = stablehlo.select %255, %257, %253 : tensor<64xi1>, tensor<64xi32>
    %259 = stablehlo.broadcast_in_dim %258, dims = [0] : (tensor<64xi32>) -> tensor<64x1xi32>
    %260 = "stablehlo.scatter"(%252, %259, %251) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg32: tensor<bf16>, %arg33: tensor<bf16>):
      %833 = stablehlo.add %arg32, %arg33 : tensor<bf16>
      stablehlo.return %833 : tensor<bf16>
    }) : (tensor<32x64xbf16>, tensor<64x1xi32>, tensor<64x64xbf16>) -> tensor<32x64xbf16>
    %261 = stablehlo.reshape %260 : (tensor<32x64xbf16>) -> tensor<1x32x64xbf16>
    %262 = stablehlo.add %126, %261 : tensor<1x32x64xbf16>
    %263 = stablehlo.subtract %262, %arg31 : tensor<1x32x64xbf16>
    %264 = stablehlo.convert %263 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
    %265 = chlo.square %264 : tensor<1x32x64xf32> -> tensor<1x32x64xf32>
    %cst_44 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %266 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<1x32x64xf32>
    %267 = stablehlo.multiply %266, %264 : tensor<1x32x64xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %268 = stablehlo.reduce(%265 init: %cst_45) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x32x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_46 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %269 = stablehlo.divide %268, %cst_46 : tensor<f32>
    %cst_47 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_48 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %270 = stablehlo.divide %cst_47, %cst_48 : tensor<f32>
    %271 = stablehlo.broadcast_in_dim %270, dims = [] : (tensor<f32>) -> tensor<1x32x64xf32>
    %272 = stablehlo.multiply %271, %267 : tensor<1x32x64xf32>
    %273 = stablehlo.convert %272 : (tensor<1x32x64xf32>) -> tensor<1x32x64xbf16>
    %274 = stablehlo.reshape %273 : (tensor<1x32x64xbf16>) -> tensor<32x64xbf16>
    %c_49 = stablehlo.constant dense<31> : tensor<1xi32>
    %c_50 = stablehlo.constant dense<0> : tensor<i32>
    %275 = stablehlo.broadcast_in_dim %c_50, dims = [] : (tensor<i32>) -> tensor<64x1xi32>
    %276 = stablehlo.compare GE, %259, %275, SIGNED : (tensor<64x1xi32>, tensor<64x1xi32>) -> tensor<64x1xi1>
    %277 = stablehlo.broadcast_in_dim %c_49, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
    %278 = stablehlo.broadcast_in_dim %277, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<64x1xi32>
    %279 = stablehlo.compare LE, %259, %278, SIGNED : (tensor<64x1xi32>, tensor<64x1xi32>) -> tensor<64x1xi1>
    %280 = stablehlo.and %276, %279 : tensor<64x1xi1>
    %c_51 = stablehlo.constant dense<true> : tensor<i1>
    %281 = stablehlo.reduce(%280 init: %c_51) applies stablehlo.and across dimensions = [1] : (tensor<64x1xi1>, tensor<i1>) -> tensor<64xi1>
    %282 = "stablehlo.gather"(%274, %259) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 64>}> : (tensor<32x64xbf16>, tensor<64x1xi32>) -> tensor<64x64xbf16>
    %283 = stablehlo.broadcast_in_dim %281, dims = [0] : (tensor<64xi1>) -> tensor<64x64xi1>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %284 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<bf16>) -> tensor<64x64xbf16>
    %285 = stablehlo.select %283, %282, %284 : tensor<64x64xi1>, tensor<64x64xbf16>
    %286 = stablehlo.multiply %240, %285 : tensor<64x64xbf16>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %287 = stablehlo.reduce(%286 init: %cst_53) applies stablehlo.add across dimensions = [1] : (tensor<64x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %288 = stablehlo.reshape %287 : (tensor<64xbf16>) -> tensor<64x1xbf16>
    %289 = stablehlo.broadcast_in_dim %249, dims = [0, 1] : (tensor<64x1xbf16>) -> tensor<64x64xbf16>
    %290 = stablehlo.multiply %285, %289 : tensor<64x64xbf16>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %291 = stablehlo.reduce(%288 init: %cst_54) applies stablehlo.add across dimensions = [1] : (tensor<64x1xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %292 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<bf16>) -> tensor<64xbf16>
    %293 = "stablehlo.scatter"(%292, %247, %291) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg32: tensor<bf16>, %arg33: tensor<bf16>):
      %833 = stablehlo.add %arg32, %arg33 : tensor<bf16>
      stablehlo.return %833 : tensor<bf16>
    }) : (tensor<64xbf16>, tensor<64x1xi32>, tensor<64xbf16>) -> tensor<64xbf16>
    %294 = stablehlo.reshape %293 : (tensor<64xbf16>) -> tensor<32x2xbf16>
    %295 = stablehlo.broadcast_in_dim %225, dims = [1, 2] : (tensor<64x96xbf16>) -> tensor<8x64x96xbf16>
    %296 = stablehlo.iota dim = 1 : tensor<8x64x96xi32>
    %297 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_56 = stablehlo.constant dense<0> : tensor<i32>
    %298 = stablehlo.broadcast_in_dim %c_56, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %299 = stablehlo.slice %298 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %300 = stablehlo.slice %297 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %301 = stablehlo.concatenate %299, %300, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %302 = stablehlo.broadcast_in_dim %297, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %303 = stablehlo.broadcast_in_dim %301, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %304 = stablehlo.compare LE, %303, %296, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %305 = stablehlo.compare LT, %296, %302, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %306 = stablehlo.and %304, %305 : tensor<8x64x96xi1>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %307 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<bf16>) -> tensor<8x64x96xbf16>
    %308 = stablehlo.select %306, %295, %307 : tensor<8x64x96xi1>, tensor<8x64x96xbf16>
    %309 = stablehlo.broadcast_in_dim %290, dims = [1, 2] : (tensor<64x64xbf16>) -> tensor<8x64x64xbf16>
    %310 = stablehlo.iota dim = 1 : tensor<8x64x64xi32>
    %311 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_58 = stablehlo.constant dense<0> : tensor<i32>
    %312 = stablehlo.broadcast_in_dim %c_58, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %313 = stablehlo.slice %312 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %314 = stablehlo.slice %311 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %315 = stablehlo.concatenate %313, %314, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %316 = stablehlo.broadcast_in_dim %311, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %317 = stablehlo.broadcast_in_dim %315, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %318 = stablehlo.compare LE, %317, %310, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %319 = stablehlo.compare LT, %310, %316, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %320 = stablehlo.and %318, %319 : tensor<8x64x64xi1>
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %321 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<bf16>) -> tensor<8x64x64xbf16>
    %322 = stablehlo.select %320, %309, %321 : tensor<8x64x64xi1>, tensor<8x64x64xbf16>
    %323 = stablehlo.dot_general %308, %322, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x64x96xbf16>, tensor<8x64x64xbf16>) -> tensor<8x96x64xbf16>
    %324 = stablehlo.broadcast_in_dim %290, dims = [1, 2] : (tensor<64x64xbf16>) -> tensor<8x64x64xbf16>
    %325 = stablehlo.iota dim = 1 : tensor<8x64x64xi32>
    %326 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_60 = stablehlo.constant dense<0> : tensor<i32>
    %327 = stablehlo.broadcast_in_dim %c_60, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %328 = stablehlo.slice %327 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %329 = stablehlo.slice %326 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %330 = stablehlo.concatenate %328, %329, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %331 = stablehlo.broadcast_in_dim %326, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %332 = stablehlo.broadcast_in_dim %330, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %333 = stablehlo.compare LE, %332, %325, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %334 = stablehlo.compare LT, %325, %331, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %335 = stablehlo.and %333, %334 : tensor<8x64x64xi1>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %336 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<bf16>) -> tensor<8x64x64xbf16>
    %337 = stablehlo.select %335, %324, %336 : tensor<8x64x64xi1>, tensor<8x64x64xbf16>
    %338 = stablehlo.dot_general %337, %arg0, contracting_dims = [2, 0] x [2, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x64x64xbf16>, tensor<8x96x64xbf16>) -> tensor<64x96xbf16>
    %339 = stablehlo.multiply %209#0, %338 : tensor<64x96xbf16>
    %340 = stablehlo.multiply %338, %224 : tensor<64x96xbf16>
    %341 = stablehlo.broadcast_in_dim %193, dims = [1, 2] : (tensor<64x64xbf16>) -> tensor<8x64x64xbf16>
    %342 = stablehlo.iota dim = 1 : tensor<8x64x64xi32>
    %343 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_62 = stablehlo.constant dense<0> : tensor<i32>
    %344 = stablehlo.broadcast_in_dim %c_62, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %345 = stablehlo.slice %344 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %346 = stablehlo.slice %343 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %347 = stablehlo.concatenate %345, %346, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %348 = stablehlo.broadcast_in_dim %343, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %349 = stablehlo.broadcast_in_dim %347, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %350 = stablehlo.compare LE, %349, %342, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %351 = stablehlo.compare LT, %342, %348, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %352 = stablehlo.and %350, %351 : tensor<8x64x64xi1>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %353 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<bf16>) -> tensor<8x64x64xbf16>
    %354 = stablehlo.select %352, %341, %353 : tensor<8x64x64xi1>, tensor<8x64x64xbf16>
    %355 = stablehlo.broadcast_in_dim %339, dims = [1, 2] : (tensor<64x96xbf16>) -> tensor<8x64x96xbf16>
    %356 = stablehlo.iota dim = 1 : tensor<8x64x96xi32>
    %357 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_64 = stablehlo.constant dense<0> : tensor<i32>
    %358 = stablehlo.broadcast_in_dim %c_64, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %359 = stablehlo.slice %358 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %360 = stablehlo.slice %357 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %361 = stablehlo.concatenate %359, %360, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %362 = stablehlo.broadcast_in_dim %357, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %363 = stablehlo.broadcast_in_dim %361, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %364 = stablehlo.compare LE, %363, %356, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %365 = stablehlo.compare LT, %356, %362, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %366 = stablehlo.and %364, %365 : tensor<8x64x96xi1>
    %cst_65 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %367 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<bf16>) -> tensor<8x64x96xbf16>
    %368 = stablehlo.select %366, %355, %367 : tensor<8x64x96xi1>, tensor<8x64x96xbf16>
    %369 = stablehlo.dot_general %354, %368, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x64x64xbf16>, tensor<8x64x96xbf16>) -> tensor<8x64x96xbf16>
    %370 = stablehlo.broadcast_in_dim %339, dims = [1, 2] : (tensor<64x96xbf16>) -> tensor<8x64x96xbf16>
    %371 = stablehlo.iota dim = 1 : tensor<8x64x96xi32>
    %372 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_66 = stablehlo.constant dense<0> : tensor<i32>
    %373 = stablehlo.broadcast_in_dim %c_66, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %374 = stablehlo.slice %373 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %375 = stablehlo.slice %372 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %376 = stablehlo.concatenate %374, %375, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %377 = stablehlo.broadcast_in_dim %372, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %378 = stablehlo.broadcast_in_dim %376, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %379 = stablehlo.compare LE, %378, %371, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %380 = stablehlo.compare LT, %371, %377, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %381 = stablehlo.and %379, %380 : tensor<8x64x96xi1>
    %cst_67 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %382 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<bf16>) -> tensor<8x64x96xbf16>
    %383 = stablehlo.select %381, %370, %382 : tensor<8x64x96xi1>, tensor<8x64x96xbf16>
    %384 = stablehlo.dot_general %383, %arg8, contracting_dims = [2, 0] x [2, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x64x96xbf16>, tensor<8x64x96xbf16>) -> tensor<64x64xbf16>
    %385 = call @silu_1(%209#1, %209#2, %208, %340) : (tensor<64x96xbf16>, tensor<64x96xbf16>, tensor<64x96xbf16>, tensor<64x96xbf16>) -> tensor<64x96xbf16>
    %386 = stablehlo.broadcast_in_dim %193, dims = [1, 2] : (tensor<64x64xbf16>) -> tensor<8x64x64xbf16>
    %387 = stablehlo.iota dim = 1 : tensor<8x64x64xi32>
    %388 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_68 = stablehlo.constant dense<0> : tensor<i32>
    %389 = stablehlo.broadcast_in_dim %c_68, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %390 = stablehlo.slice %389 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %391 = stablehlo.slice %388 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %392 = stablehlo.concatenate %390, %391, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %393 = stablehlo.broadcast_in_dim %388, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %394 = stablehlo.broadcast_in_dim %392, dims = [0] : (tensor<8xi32>) -> tensor<8x64x64xi32>
    %395 = stablehlo.compare LE, %394, %387, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %396 = stablehlo.compare LT, %387, %393, SIGNED : (tensor<8x64x64xi32>, tensor<8x64x64xi32>) -> tensor<8x64x64xi1>
    %397 = stablehlo.and %395, %396 : tensor<8x64x64xi1>
    %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %398 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<bf16>) -> tensor<8x64x64xbf16>
    %399 = stablehlo.select %397, %386, %398 : tensor<8x64x64xi1>, tensor<8x64x64xbf16>
    %400 = stablehlo.broadcast_in_dim %385, dims = [1, 2] : (tensor<64x96xbf16>) -> tensor<8x64x96xbf16>
    %401 = stablehlo.iota dim = 1 : tensor<8x64x96xi32>
    %402 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_70 = stablehlo.constant dense<0> : tensor<i32>
    %403 = stablehlo.broadcast_in_dim %c_70, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %404 = stablehlo.slice %403 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %405 = stablehlo.slice %402 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %406 = stablehlo.concatenate %404, %405, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %407 = stablehlo.broadcast_in_dim %402, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %408 = stablehlo.broadcast_in_dim %406, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %409 = stablehlo.compare LE, %408, %401, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %410 = stablehlo.compare LT, %401, %407, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %411 = stablehlo.and %409, %410 : tensor<8x64x96xi1>
    %cst_71 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %412 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<bf16>) -> tensor<8x64x96xbf16>
    %413 = stablehlo.select %411, %400, %412 : tensor<8x64x96xi1>, tensor<8x64x96xbf16>
    %414 = stablehlo.dot_general %399, %413, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x64x64xbf16>, tensor<8x64x96xbf16>) -> tensor<8x64x96xbf16>
    %415 = stablehlo.broadcast_in_dim %385, dims = [1, 2] : (tensor<64x96xbf16>) -> tensor<8x64x96xbf16>
    %416 = stablehlo.iota dim = 1 : tensor<8x64x96xi32>
    %417 = call @cumsum(%185) : (tensor<8xi32>) -> tensor<8xi32>
    %c_72 = stablehlo.constant dense<0> : tensor<i32>
    %418 = stablehlo.broadcast_in_dim %c_72, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %419 = stablehlo.slice %418 [0:1] : (tensor<8xi32>) -> tensor<1xi32>
    %420 = stablehlo.slice %417 [0:7] : (tensor<8xi32>) -> tensor<7xi32>
    %421 = stablehlo.concatenate %419, %420, dim = 0 : (tensor<1xi32>, tensor<7xi32>) -> tensor<8xi32>
    %422 = stablehlo.broadcast_in_dim %417, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %423 = stablehlo.broadcast_in_dim %421, dims = [0] : (tensor<8xi32>) -> tensor<8x64x96xi32>
    %424 = stablehlo.compare LE, %423, %416, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %425 = stablehlo.compare LT, %416, %422, SIGNED : (tensor<8x64x96xi32>, tensor<8x64x96xi32>) -> tensor<8x64x96xi1>
    %426 = stablehlo.and %424, %425 : tensor<8x64x96xi1>
    %cst_73 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %427 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<bf16>) -> tensor<8x64x96xbf16>
    %428 = stablehlo.select %426, %415, %427 : tensor<8x64x96xi1>, tensor<8x64x96xbf16>
    %429 = stablehlo.dot_general %428, %arg1, contracting_dims = [2, 0] x [2, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x64x96xbf16>, tensor<8x64x96xbf16>) -> tensor<64x64xbf16>
    %430 = stablehlo.add %384, %429 : tensor<64x64xbf16>
    %cst_74 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %431 = stablehlo.broadcast_in_dim %cst_74, dims = [] : (tensor<bf16>) -> tensor<32x64xbf16>
    %432 = "stablehlo.scatter"(%431, %192, %430) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg32: tensor<bf16>, %arg33: tensor<bf16>):
      %833 = stablehlo.add %arg32, %arg33 : tensor<bf16>
      stablehlo.return %833 : tensor<bf16>
    }) : (tensor<32x64xbf16>, tensor<64x1xi32>, tensor<64x64xbf16>) -> tensor<32x64xbf16>
    %433 = stablehlo.convert %294 : (tensor<32x2xbf16>) -> tensor<32x2xf32>
    %434 = stablehlo.broadcast_in_dim %171, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x2xf32>
    %435 = stablehlo.multiply %433, %434 : tensor<32x2xf32>
    %436 = stablehlo.multiply %435, %values : tensor<32x2xf32>
    %cst_75 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %437 = stablehlo.reduce(%436 init: %cst_75) applies stablehlo.add across dimensions = [1] : (tensor<32x2xf32>, tensor<f32>) -> tensor<32xf32>
    %438 = stablehlo.reshape %437 : (tensor<32xf32>) -> tensor<32x1xf32>
    %439 = stablehlo.negate %438 : tensor<32x1xf32>
    %440 = stablehlo.broadcast_in_dim %166, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x2xf32>
    %441 = stablehlo.divide %433, %440 : tensor<32x2xf32>
    %cst_76 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %442 = stablehlo.reduce(%439 init: %cst_76) applies stablehlo.add across dimensions = [1] : (tensor<32x1xf32>, tensor<f32>) -> tensor<32xf32>
    %443 = stablehlo.broadcast_in_dim %442, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %444 = stablehlo.add %441, %443 : tensor<32x2xf32>
    %cst_77 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %445 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %446 = "stablehlo.scatter"(%445, %164, %444) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg32: tensor<f32>, %arg33: tensor<f32>):
      %833 = stablehlo.add %arg32, %arg33 : tensor<f32>
      stablehlo.return %833 : tensor<f32>
    }) : (tensor<32x8xf32>, tensor<32x2x1xi32>, tensor<32x2xf32>) -> tensor<32x8xf32>
    %447 = stablehlo.broadcast_in_dim %163, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x8xf32>
    %448 = stablehlo.multiply %446, %447 : tensor<32x8xf32>
    %449 = stablehlo.multiply %448, %156 : tensor<32x8xf32>
    %cst_78 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %450 = stablehlo.reduce(%449 init: %cst_78) applies stablehlo.add across dimensions = [1] : (tensor<32x8xf32>, tensor<f32>) -> tensor<32xf32>
    %451 = stablehlo.reshape %450 : (tensor<32xf32>) -> tensor<32x1xf32>
    %452 = stablehlo.negate %451 : tensor<32x1xf32>
    %453 = stablehlo.broadcast_in_dim %158, dims = [0, 1] : (tensor<32x1xf32>) -> tensor<32x8xf32>
    %454 = stablehlo.divide %446, %453 : tensor<32x8xf32>
    %cst_79 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %455 = stablehlo.reduce(%452 init: %cst_79) applies stablehlo.add across dimensions = [1] : (tensor<32x1xf32>, tensor<f32>) -> tensor<32xf32>
    %456 = stablehlo.broadcast_in_dim %455, dims = [0] : (tensor<32xf32>) -> tensor<32x8xf32>
    %457 = stablehlo.add %454, %456 : tensor<32x8xf32>
    %458 = stablehlo.multiply %457, %156 : tensor<32x8xf32>
    %459 = stablehlo.convert %458 : (tensor<32x8xf32>) -> tensor<32x8xbf16>
    %460 = stablehlo.dot_general %459, %147, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x8xbf16>, tensor<32x64xbf16>) -> tensor<8x64xbf16>
    %461 = stablehlo.transpose %460, dims = [1, 0] : (tensor<8x64xbf16>) -> tensor<64x8xbf16>
    %462 = stablehlo.dot_general %459, %arg7, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<32x8xbf16>, tensor<64x8xbf16>) -> tensor<32x64xbf16>
    %463 = stablehlo.add %432, %462 : tensor<32x64xbf16>
    %464 = stablehlo.reshape %463 : (tensor<32x64xbf16>) -> tensor<1x32x64xbf16>
    %465 = stablehlo.multiply %143, %464 : tensor<1x32x64xbf16>
    %cst_80 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %466 = stablehlo.reduce(%465 init: %cst_80) applies stablehlo.add across dimensions = [1] : (tensor<1x32x64xbf16>, tensor<bf16>) -> tensor<1x64xbf16>
    %467 = stablehlo.reshape %466 : (tensor<1x64xbf16>) -> tensor<1x1x64xbf16>
    %468 = stablehlo.broadcast_in_dim %144, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<1x32x64xbf16>
    %469 = stablehlo.multiply %464, %468 : tensor<1x32x64xbf16>
    %cst_81 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %470 = stablehlo.reduce(%467 init: %cst_81) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %471 = stablehlo.convert %469 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
    %472 = stablehlo.multiply %127, %471 : tensor<1x32x64xf32>
    %cst_82 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %473 = stablehlo.reduce(%472 init: %cst_82) applies stablehlo.add across dimensions = [2] : (tensor<1x32x64xf32>, tensor<f32>) -> tensor<1x32xf32>
    %474 = stablehlo.reshape %473 : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %475 = stablehlo.broadcast_in_dim %137, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x64xf32>
    %476 = stablehlo.multiply %471, %475 : tensor<1x32x64xf32>
    %477 = stablehlo.multiply %474, %140 : tensor<1x32x1xf32>
    %cst_83 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %478 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %479 = stablehlo.divide %477, %478 : tensor<1x32x1xf32>
    %cst_84 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %480 = stablehlo.reduce(%479 init: %cst_84) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x32x1xf32>, tensor<f32>) -> tensor<32xf32>
    %481 = stablehlo.broadcast_in_dim %480, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
    %482 = stablehlo.broadcast_in_dim %481, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x64xf32>
    %483 = stablehlo.multiply %482, %130 : tensor<1x32x64xf32>
    %484 = stablehlo.add %476, %483 : tensor<1x32x64xf32>
    %485 = stablehlo.convert %484 : (tensor<1x32x64xf32>) -> tensor<1x32x64xbf16>
    %486 = stablehlo.add %273, %485 : tensor<1x32x64xbf16>
    %487 = stablehlo.dot_general %486, %124, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<1x32x4x16xbf16>) -> tensor<64x4x16xbf16>
    %488 = stablehlo.transpose %487, dims = [1, 2, 0] : (tensor<64x4x16xbf16>) -> tensor<4x16x64xbf16>
    %489 = stablehlo.dot_general %486, %arg5, contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<1x32x64xbf16>, tensor<4x16x64xbf16>) -> tensor<1x32x4x16xbf16>
    %490 = stablehlo.transpose %489, dims = [0, 2, 3, 1] : (tensor<1x32x4x16xbf16>) -> tensor<1x4x16x32xbf16>
    %491 = stablehlo.dot_general %490, %96, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x4x16x32xbf16>, tensor<1x32x4x16xbf16>) -> tensor<1x4x32x32xbf16>
    %492 = stablehlo.dot_general %490, %122, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<1x4x16x32xbf16>, tensor<1x4x32x32xbf16>) -> tensor<1x4x16x32xbf16>
    %493 = stablehlo.transpose %492, dims = [0, 3, 1, 2] : (tensor<1x4x16x32xbf16>) -> tensor<1x32x4x16xbf16>
    %494 = stablehlo.convert %491 : (tensor<1x4x32x32xbf16>) -> tensor<1x4x32x32xf32>
    %495 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2, 3] : (tensor<1x4x32x1xf32>) -> tensor<1x4x32x32xf32>
    %496 = stablehlo.multiply %494, %495 : tensor<1x4x32x32xf32>
    %497 = stablehlo.multiply %496, %114 : tensor<1x4x32x32xf32>
    %cst_85 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %498 = stablehlo.reduce(%497 init: %cst_85) applies stablehlo.add across dimensions = [3] : (tensor<1x4x32x32xf32>, tensor<f32>) -> tensor<1x4x32xf32>
    %499 = stablehlo.reshape %498 : (tensor<1x4x32xf32>) -> tensor<1x4x32x1xf32>
    %500 = stablehlo.negate %499 : tensor<1x4x32x1xf32>
    %501 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2, 3] : (tensor<1x4x32x1xf32>) -> tensor<1x4x32x32xf32>
    %502 = stablehlo.divide %494, %501 : tensor<1x4x32x32xf32>
    %cst_86 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %503 = stablehlo.reduce(%500 init: %cst_86) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x4x32x1xf32>, tensor<f32>) -> tensor<4x32xf32>
    %504 = stablehlo.broadcast_in_dim %503, dims = [1, 2] : (tensor<4x32xf32>) -> tensor<1x4x32xf32>
    %505 = stablehlo.broadcast_in_dim %504, dims = [0, 1, 2] : (tensor<1x4x32xf32>) -> tensor<1x4x32x32xf32>
    %506 = stablehlo.add %502, %505 : tensor<1x4x32x32xf32>
    %507 = stablehlo.multiply %506, %114 : tensor<1x4x32x32xf32>
    %508 = call @_where_2(%107#1, %507) : (tensor<1x4x32x32xi1>, tensor<1x4x32x32xf32>) -> tensor<1x4x32x32xf32>
    %cst_87 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %509 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<1x4x32x32xf32>
    %510 = stablehlo.multiply %508, %509 : tensor<1x4x32x32xf32>
    %511 = stablehlo.convert %510 : (tensor<1x4x32x32xf32>) -> tensor<1x4x32x32xbf16>
    %512 = stablehlo.dot_general %511, %57, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x4x32x32xbf16>, tensor<1x32x4x16xbf16>) -> tensor<1x4x32x16xbf16>
    %513 = stablehlo.transpose %512, dims = [0, 2, 1, 3] : (tensor<1x4x32x16xbf16>) -> tensor<1x32x4x16xbf16>
    %514 = stablehlo.dot_general %511, %94, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x4x32x32xbf16>, tensor<1x32x4x16xbf16>) -> tensor<1x4x32x16xbf16>
    %515 = stablehlo.transpose %514, dims = [0, 2, 1, 3] : (tensor<1x4x32x16xbf16>) -> tensor<1x32x4x16xbf16>
    %516 = stablehlo.reshape %493 : (tensor<1x32x4x16xbf16>) -> tensor<1x32x2x2x16xbf16>
    %cst_88 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %517 = stablehlo.reduce(%516 init: %cst_88) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x32x2x2x16xbf16>, tensor<bf16>) -> tensor<32x2x16xbf16>
    %518 = stablehlo.broadcast_in_dim %517, dims = [1, 2, 3] : (tensor<32x2x16xbf16>) -> tensor<1x32x2x16xbf16>
    %519 = stablehlo.reshape %513 : (tensor<1x32x4x16xbf16>) -> tensor<1x32x2x2x16xbf16>
    %cst_89 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %520 = stablehlo.reduce(%519 init: %cst_89) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x32x2x2x16xbf16>, tensor<bf16>) -> tensor<32x2x16xbf16>
    %521 = stablehlo.broadcast_in_dim %520, dims = [1, 2, 3] : (tensor<32x2x16xbf16>) -> tensor<1x32x2x16xbf16>
    %522 = stablehlo.slice %521 [0:1, 0:32, 0:2, 0:8] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x8xbf16>
    %523 = stablehlo.slice %521 [0:1, 0:32, 0:2, 8:16] : (tensor<1x32x2x16xbf16>) -> tensor<1x32x2x8xbf16>
    %524 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %525 = stablehlo.multiply %523, %524 : tensor<1x32x2x8xbf16>
    %526 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %527 = stablehlo.multiply %523, %526 : tensor<1x32x2x8xbf16>
    %528 = stablehlo.negate %522 : tensor<1x32x2x8xbf16>
    %529 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %530 = stablehlo.multiply %528, %529 : tensor<1x32x2x8xbf16>
    %531 = stablehlo.add %525, %530 : tensor<1x32x2x8xbf16>
    %532 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x2x8xbf16>
    %533 = stablehlo.multiply %522, %532 : tensor<1x32x2x8xbf16>
    %534 = stablehlo.add %527, %533 : tensor<1x32x2x8xbf16>
    %535 = stablehlo.concatenate %534, %531, dim = 3 : (tensor<1x32x2x8xbf16>, tensor<1x32x2x8xbf16>) -> tensor<1x32x2x16xbf16>
    %536 = stablehlo.slice %515 [0:1, 0:32, 0:4, 0:8] : (tensor<1x32x4x16xbf16>) -> tensor<1x32x4x8xbf16>
    %537 = stablehlo.slice %515 [0:1, 0:32, 0:4, 8:16] : (tensor<1x32x4x16xbf16>) -> tensor<1x32x4x8xbf16>
    %538 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %539 = stablehlo.multiply %537, %538 : tensor<1x32x4x8xbf16>
    %540 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %541 = stablehlo.multiply %537, %540 : tensor<1x32x4x8xbf16>
    %542 = stablehlo.negate %536 : tensor<1x32x4x8xbf16>
    %543 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %544 = stablehlo.multiply %542, %543 : tensor<1x32x4x8xbf16>
    %545 = stablehlo.add %539, %544 : tensor<1x32x4x8xbf16>
    %546 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2, 3] : (tensor<1x32x1x8xbf16>) -> tensor<1x32x4x8xbf16>
    %547 = stablehlo.multiply %536, %546 : tensor<1x32x4x8xbf16>
    %548 = stablehlo.add %541, %547 : tensor<1x32x4x8xbf16>
    %549 = stablehlo.concatenate %548, %545, dim = 3 : (tensor<1x32x4x8xbf16>, tensor<1x32x4x8xbf16>) -> tensor<1x32x4x16xbf16>
    %550 = stablehlo.dot_general %518, %19, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x2x16xbf16>, tensor<1x32x64xbf16>) -> tensor<2x16x64xbf16>
    %551 = stablehlo.transpose %550, dims = [2, 0, 1] : (tensor<2x16x64xbf16>) -> tensor<64x2x16xbf16>
    %552 = stablehlo.dot_general %518, %arg9, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<1x32x2x16xbf16>, tensor<64x2x16xbf16>) -> tensor<1x32x64xbf16>
    %553 = stablehlo.dot_general %535, %19, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x2x16xbf16>, tensor<1x32x64xbf16>) -> tensor<2x16x64xbf16>
    %554 = stablehlo.transpose %553, dims = [2, 0, 1] : (tensor<2x16x64xbf16>) -> tensor<64x2x16xbf16>
    %555 = stablehlo.dot_general %535, %arg2, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<1x32x2x16xbf16>, tensor<64x2x16xbf16>) -> tensor<1x32x64xbf16>
    %556 = stablehlo.add %552, %555 : tensor<1x32x64xbf16>
    %557 = stablehlo.dot_general %549, %19, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x32x4x16xbf16>, tensor<1x32x64xbf16>) -> tensor<4x16x64xbf16>
    %558 = stablehlo.transpose %557, dims = [2, 0, 1] : (tensor<4x16x64xbf16>) -> tensor<64x4x16xbf16>
    %559 = stablehlo.dot_general %549, %arg6, contracting_dims = [2, 3] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<1x32x4x16xbf16>, tensor<64x4x16xbf16>) -> tensor<1x32x64xbf16>
    %560 = stablehlo.add %556, %559 : tensor<1x32x64xbf16>
    %561 = stablehlo.multiply %16, %560 : tensor<1x32x64xbf16>
    %cst_90 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %562 = stablehlo.reduce(%561 init: %cst_90) applies stablehlo.add across dimensions = [1] : (tensor<1x32x64xbf16>, tensor<bf16>) -> tensor<1x64xbf16>
    %563 = stablehlo.reshape %562 : (tensor<1x64xbf16>) -> tensor<1x1x64xbf16>
    %564 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<1x32x64xbf16>
    %565 = stablehlo.multiply %560, %564 : tensor<1x32x64xbf16>
    %cst_91 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %566 = stablehlo.reduce(%563 init: %cst_91) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %567 = stablehlo.convert %565 : (tensor<1x32x64xbf16>) -> tensor<1x32x64xf32>
    %568 = stablehlo.multiply %0, %567 : tensor<1x32x64xf32>
    %cst_92 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %569 = stablehlo.reduce(%568 init: %cst_92) applies stablehlo.add across dimensions = [2] : (tensor<1x32x64xf32>, tensor<f32>) -> tensor<1x32xf32>
    %570 = stablehlo.reshape %569 : (tensor<1x32xf32>) -> tensor<1x32x1xf32>
    %571 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x32x1xf32>) -> tensor<1x32x64xf32>
    %572 = stablehlo.multiply %567, %571 : tensor<1x32x64xf32>
    %573 = stablehlo.multiply %570, %13 : tensor<1x32x1xf32>
    %cst_93 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %574 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<1x32x1xf32>
    %575 = stablehlo.divide %573, %574 : tensor<1x32x1xf32>
    %cst_94 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %576 = stablehlo.reduce(%575 init: %cst_94) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x32x1xf32>, tensor<f32>) -> tensor<32xf32>
    %577 = stablehlo.broadcast_in_dim %576, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
    %578 = stablehlo.broadcast_in_dim %577, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<1x32x64xf32>
    %579 = stablehlo.multiply %578, %3 : tensor<1x32x64xf32>
    %580 = stablehlo.add %572, %579 : tensor<1x32x64xf32>
    %581 = stablehlo.convert %580 : (tensor<1x32x64xf32>) -> tensor<1x32x64xbf16>
    %582 = stablehlo.add %486, %581 : tensor<1x32x64xbf16>
    %583 = stablehlo.convert %323 : (tensor<8x96x64xbf16>) -> tensor<8x96x64xf32>
    %584 = stablehlo.convert %414 : (tensor<8x64x96xbf16>) -> tensor<8x64x96xf32>
    %585 = stablehlo.convert %554 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %586 = stablehlo.convert %566 : (tensor<64xbf16>) -> tensor<64xf32>
    %587 = stablehlo.convert %470 : (tensor<64xbf16>) -> tensor<64xf32>
    %588 = stablehlo.convert %488 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %589 = stablehlo.convert %558 : (tensor<64x4x16xbf16>) -> tensor<64x4x16xf32>
    %590 = stablehlo.convert %461 : (tensor<64x8xbf16>) -> tensor<64x8xf32>
    %591 = stablehlo.convert %369 : (tensor<8x64x96xbf16>) -> tensor<8x64x96xf32>
    %592 = stablehlo.convert %551 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %cst_95 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %593 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<8x96x64xf32>
    %594 = stablehlo.multiply %593, %arg10 : tensor<8x96x64xf32>
    %cst_96 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %595 = stablehlo.broadcast_in_dim %cst_96, dims = [] : (tensor<f32>) -> tensor<8x96x64xf32>
    %596 = stablehlo.multiply %595, %583 : tensor<8x96x64xf32>
    %597 = stablehlo.add %594, %596 : tensor<8x96x64xf32>
    %cst_97 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %598 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %599 = stablehlo.multiply %598, %arg11 : tensor<8x64x96xf32>
    %cst_98 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %600 = stablehlo.broadcast_in_dim %cst_98, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %601 = stablehlo.multiply %600, %584 : tensor<8x64x96xf32>
    %602 = stablehlo.add %599, %601 : tensor<8x64x96xf32>
    %cst_99 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %603 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %604 = stablehlo.multiply %603, %arg12 : tensor<64x2x16xf32>
    %cst_100 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %605 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %606 = stablehlo.multiply %605, %585 : tensor<64x2x16xf32>
    %607 = stablehlo.add %604, %606 : tensor<64x2x16xf32>
    %cst_101 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %608 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %609 = stablehlo.multiply %608, %arg13 : tensor<64xf32>
    %cst_102 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %610 = stablehlo.broadcast_in_dim %cst_102, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %611 = stablehlo.multiply %610, %586 : tensor<64xf32>
    %612 = stablehlo.add %609, %611 : tensor<64xf32>
    %cst_103 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %613 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %614 = stablehlo.multiply %613, %arg14 : tensor<64xf32>
    %cst_104 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %615 = stablehlo.broadcast_in_dim %cst_104, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %616 = stablehlo.multiply %615, %587 : tensor<64xf32>
    %617 = stablehlo.add %614, %616 : tensor<64xf32>
    %cst_105 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %618 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %619 = stablehlo.multiply %618, %arg15 : tensor<4x16x64xf32>
    %cst_106 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %620 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %621 = stablehlo.multiply %620, %588 : tensor<4x16x64xf32>
    %622 = stablehlo.add %619, %621 : tensor<4x16x64xf32>
    %cst_107 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %623 = stablehlo.broadcast_in_dim %cst_107, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %624 = stablehlo.multiply %623, %arg16 : tensor<64x4x16xf32>
    %cst_108 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %625 = stablehlo.broadcast_in_dim %cst_108, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %626 = stablehlo.multiply %625, %589 : tensor<64x4x16xf32>
    %627 = stablehlo.add %624, %626 : tensor<64x4x16xf32>
    %cst_109 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %628 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<64x8xf32>
    %629 = stablehlo.multiply %628, %arg17 : tensor<64x8xf32>
    %cst_110 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %630 = stablehlo.broadcast_in_dim %cst_110, dims = [] : (tensor<f32>) -> tensor<64x8xf32>
    %631 = stablehlo.multiply %630, %590 : tensor<64x8xf32>
    %632 = stablehlo.add %629, %631 : tensor<64x8xf32>
    %cst_111 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %633 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %634 = stablehlo.multiply %633, %arg18 : tensor<8x64x96xf32>
    %cst_112 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %635 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %636 = stablehlo.multiply %635, %591 : tensor<8x64x96xf32>
    %637 = stablehlo.add %634, %636 : tensor<8x64x96xf32>
    %cst_113 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %638 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %639 = stablehlo.multiply %638, %arg19 : tensor<64x2x16xf32>
    %cst_114 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %640 = stablehlo.broadcast_in_dim %cst_114, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %641 = stablehlo.multiply %640, %592 : tensor<64x2x16xf32>
    %642 = stablehlo.add %639, %641 : tensor<64x2x16xf32>
    %cst_115 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %643 = stablehlo.broadcast_in_dim %cst_115, dims = [] : (tensor<f32>) -> tensor<8x96x64xf32>
    %644 = stablehlo.multiply %643, %arg20 : tensor<8x96x64xf32>
    %cst_116 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %645 = stablehlo.broadcast_in_dim %cst_116, dims = [] : (tensor<f32>) -> tensor<8x96x64xf32>
    %646 = stablehlo.multiply %645, %583 : tensor<8x96x64xf32>
    %647 = stablehlo.multiply %646, %583 : tensor<8x96x64xf32>
    %648 = stablehlo.add %644, %647 : tensor<8x96x64xf32>
    %cst_117 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %649 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %650 = stablehlo.multiply %649, %arg21 : tensor<8x64x96xf32>
    %cst_118 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %651 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %652 = stablehlo.multiply %651, %584 : tensor<8x64x96xf32>
    %653 = stablehlo.multiply %652, %584 : tensor<8x64x96xf32>
    %654 = stablehlo.add %650, %653 : tensor<8x64x96xf32>
    %cst_119 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %655 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %656 = stablehlo.multiply %655, %arg22 : tensor<64x2x16xf32>
    %cst_120 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %657 = stablehlo.broadcast_in_dim %cst_120, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %658 = stablehlo.multiply %657, %585 : tensor<64x2x16xf32>
    %659 = stablehlo.multiply %658, %585 : tensor<64x2x16xf32>
    %660 = stablehlo.add %656, %659 : tensor<64x2x16xf32>
    %cst_121 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %661 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %662 = stablehlo.multiply %661, %arg23 : tensor<64xf32>
    %cst_122 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %663 = stablehlo.broadcast_in_dim %cst_122, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %664 = stablehlo.multiply %663, %586 : tensor<64xf32>
    %665 = stablehlo.multiply %664, %586 : tensor<64xf32>
    %666 = stablehlo.add %662, %665 : tensor<64xf32>
    %cst_123 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %667 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %668 = stablehlo.multiply %667, %arg24 : tensor<64xf32>
    %cst_124 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %669 = stablehlo.broadcast_in_dim %cst_124, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %670 = stablehlo.multiply %669, %587 : tensor<64xf32>
    %671 = stablehlo.multiply %670, %587 : tensor<64xf32>
    %672 = stablehlo.add %668, %671 : tensor<64xf32>
    %cst_125 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %673 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %674 = stablehlo.multiply %673, %arg25 : tensor<4x16x64xf32>
    %cst_126 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %675 = stablehlo.broadcast_in_dim %cst_126, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %676 = stablehlo.multiply %675, %588 : tensor<4x16x64xf32>
    %677 = stablehlo.multiply %676, %588 : tensor<4x16x64xf32>
    %678 = stablehlo.add %674, %677 : tensor<4x16x64xf32>
    %cst_127 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %679 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %680 = stablehlo.multiply %679, %arg26 : tensor<64x4x16xf32>
    %cst_128 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %681 = stablehlo.broadcast_in_dim %cst_128, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %682 = stablehlo.multiply %681, %589 : tensor<64x4x16xf32>
    %683 = stablehlo.multiply %682, %589 : tensor<64x4x16xf32>
    %684 = stablehlo.add %680, %683 : tensor<64x4x16xf32>
    %cst_129 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %685 = stablehlo.broadcast_in_dim %cst_129, dims = [] : (tensor<f32>) -> tensor<64x8xf32>
    %686 = stablehlo.multiply %685, %arg27 : tensor<64x8xf32>
    %cst_130 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %687 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<64x8xf32>
    %688 = stablehlo.multiply %687, %590 : tensor<64x8xf32>
    %689 = stablehlo.multiply %688, %590 : tensor<64x8xf32>
    %690 = stablehlo.add %686, %689 : tensor<64x8xf32>
    %cst_131 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %691 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %692 = stablehlo.multiply %691, %arg28 : tensor<8x64x96xf32>
    %cst_132 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %693 = stablehlo.broadcast_in_dim %cst_132, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %694 = stablehlo.multiply %693, %591 : tensor<8x64x96xf32>
    %695 = stablehlo.multiply %694, %591 : tensor<8x64x96xf32>
    %696 = stablehlo.add %692, %695 : tensor<8x64x96xf32>
    %cst_133 = stablehlo.constant dense<0.949999988> : tensor<f32>
    %697 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %698 = stablehlo.multiply %697, %arg29 : tensor<64x2x16xf32>
    %cst_134 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %699 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %700 = stablehlo.multiply %699, %592 : tensor<64x2x16xf32>
    %701 = stablehlo.multiply %700, %592 : tensor<64x2x16xf32>
    %702 = stablehlo.add %698, %701 : tensor<64x2x16xf32>
    %703 = stablehlo.sqrt %648 : tensor<8x96x64xf32>
    %cst_135 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %704 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<8x96x64xf32>
    %705 = stablehlo.add %703, %704 : tensor<8x96x64xf32>
    %706 = stablehlo.divide %597, %705 : tensor<8x96x64xf32>
    %707 = stablehlo.convert %arg0 : (tensor<8x96x64xbf16>) -> tensor<8x96x64xf32>
    %cst_136 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %708 = stablehlo.broadcast_in_dim %cst_136, dims = [] : (tensor<f32>) -> tensor<8x96x64xf32>
    %709 = stablehlo.multiply %708, %707 : tensor<8x96x64xf32>
    %710 = stablehlo.add %706, %709 : tensor<8x96x64xf32>
    %cst_137 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %711 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<8x96x64xf32>
    %712 = stablehlo.multiply %711, %710 : tensor<8x96x64xf32>
    %713 = stablehlo.convert %arg0 : (tensor<8x96x64xbf16>) -> tensor<8x96x64xf32>
    %714 = stablehlo.subtract %713, %712 : tensor<8x96x64xf32>
    %715 = stablehlo.convert %714 : (tensor<8x96x64xf32>) -> tensor<8x96x64xbf16>
    %716 = stablehlo.sqrt %654 : tensor<8x64x96xf32>
    %cst_138 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %717 = stablehlo.broadcast_in_dim %cst_138, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %718 = stablehlo.add %716, %717 : tensor<8x64x96xf32>
    %719 = stablehlo.divide %602, %718 : tensor<8x64x96xf32>
    %720 = stablehlo.convert %arg1 : (tensor<8x64x96xbf16>) -> tensor<8x64x96xf32>
    %cst_139 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %721 = stablehlo.broadcast_in_dim %cst_139, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %722 = stablehlo.multiply %721, %720 : tensor<8x64x96xf32>
    %723 = stablehlo.add %719, %722 : tensor<8x64x96xf32>
    %cst_140 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %724 = stablehlo.broadcast_in_dim %cst_140, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %725 = stablehlo.multiply %724, %723 : tensor<8x64x96xf32>
    %726 = stablehlo.convert %arg1 : (tensor<8x64x96xbf16>) -> tensor<8x64x96xf32>
    %727 = stablehlo.subtract %726, %725 : tensor<8x64x96xf32>
    %728 = stablehlo.convert %727 : (tensor<8x64x96xf32>) -> tensor<8x64x96xbf16>
    %729 = stablehlo.sqrt %660 : tensor<64x2x16xf32>
    %cst_141 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %730 = stablehlo.broadcast_in_dim %cst_141, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %731 = stablehlo.add %729, %730 : tensor<64x2x16xf32>
    %732 = stablehlo.divide %607, %731 : tensor<64x2x16xf32>
    %733 = stablehlo.convert %arg2 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %cst_142 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %734 = stablehlo.broadcast_in_dim %cst_142, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %735 = stablehlo.multiply %734, %733 : tensor<64x2x16xf32>
    %736 = stablehlo.add %732, %735 : tensor<64x2x16xf32>
    %cst_143 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %737 = stablehlo.broadcast_in_dim %cst_143, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %738 = stablehlo.multiply %737, %736 : tensor<64x2x16xf32>
    %739 = stablehlo.convert %arg2 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %740 = stablehlo.subtract %739, %738 : tensor<64x2x16xf32>
    %741 = stablehlo.convert %740 : (tensor<64x2x16xf32>) -> tensor<64x2x16xbf16>
    %742 = stablehlo.sqrt %666 : tensor<64xf32>
    %cst_144 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %743 = stablehlo.broadcast_in_dim %cst_144, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %744 = stablehlo.add %742, %743 : tensor<64xf32>
    %745 = stablehlo.divide %612, %744 : tensor<64xf32>
    %746 = stablehlo.convert %arg3 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_145 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %747 = stablehlo.broadcast_in_dim %cst_145, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %748 = stablehlo.multiply %747, %746 : tensor<64xf32>
    %749 = stablehlo.add %745, %748 : tensor<64xf32>
    %cst_146 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %750 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %751 = stablehlo.multiply %750, %749 : tensor<64xf32>
    %752 = stablehlo.convert %arg3 : (tensor<64xbf16>) -> tensor<64xf32>
    %753 = stablehlo.subtract %752, %751 : tensor<64xf32>
    %754 = stablehlo.convert %753 : (tensor<64xf32>) -> tensor<64xbf16>
    %755 = stablehlo.sqrt %672 : tensor<64xf32>
    %cst_147 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %756 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %757 = stablehlo.add %755, %756 : tensor<64xf32>
    %758 = stablehlo.divide %617, %757 : tensor<64xf32>
    %759 = stablehlo.convert %arg4 : (tensor<64xbf16>) -> tensor<64xf32>
    %cst_148 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %760 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %761 = stablehlo.multiply %760, %759 : tensor<64xf32>
    %762 = stablehlo.add %758, %761 : tensor<64xf32>
    %cst_149 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %763 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %764 = stablehlo.multiply %763, %762 : tensor<64xf32>
    %765 = stablehlo.convert %arg4 : (tensor<64xbf16>) -> tensor<64xf32>
    %766 = stablehlo.subtract %765, %764 : tensor<64xf32>
    %767 = stablehlo.convert %766 : (tensor<64xf32>) -> tensor<64xbf16>
    %768 = stablehlo.sqrt %678 : tensor<4x16x64xf32>
    %cst_150 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %769 = stablehlo.broadcast_in_dim %cst_150, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %770 = stablehlo.add %768, %769 : tensor<4x16x64xf32>
    %771 = stablehlo.divide %622, %770 : tensor<4x16x64xf32>
    %772 = stablehlo.convert %arg5 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %cst_151 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %773 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %774 = stablehlo.multiply %773, %772 : tensor<4x16x64xf32>
    %775 = stablehlo.add %771, %774 : tensor<4x16x64xf32>
    %cst_152 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %776 = stablehlo.broadcast_in_dim %cst_152, dims = [] : (tensor<f32>) -> tensor<4x16x64xf32>
    %777 = stablehlo.multiply %776, %775 : tensor<4x16x64xf32>
    %778 = stablehlo.convert %arg5 : (tensor<4x16x64xbf16>) -> tensor<4x16x64xf32>
    %779 = stablehlo.subtract %778, %777 : tensor<4x16x64xf32>
    %780 = stablehlo.convert %779 : (tensor<4x16x64xf32>) -> tensor<4x16x64xbf16>
    %781 = stablehlo.sqrt %684 : tensor<64x4x16xf32>
    %cst_153 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %782 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %783 = stablehlo.add %781, %782 : tensor<64x4x16xf32>
    %784 = stablehlo.divide %627, %783 : tensor<64x4x16xf32>
    %785 = stablehlo.convert %arg6 : (tensor<64x4x16xbf16>) -> tensor<64x4x16xf32>
    %cst_154 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %786 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %787 = stablehlo.multiply %786, %785 : tensor<64x4x16xf32>
    %788 = stablehlo.add %784, %787 : tensor<64x4x16xf32>
    %cst_155 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %789 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<64x4x16xf32>
    %790 = stablehlo.multiply %789, %788 : tensor<64x4x16xf32>
    %791 = stablehlo.convert %arg6 : (tensor<64x4x16xbf16>) -> tensor<64x4x16xf32>
    %792 = stablehlo.subtract %791, %790 : tensor<64x4x16xf32>
    %793 = stablehlo.convert %792 : (tensor<64x4x16xf32>) -> tensor<64x4x16xbf16>
    %794 = stablehlo.sqrt %690 : tensor<64x8xf32>
    %cst_156 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %795 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<64x8xf32>
    %796 = stablehlo.add %794, %795 : tensor<64x8xf32>
    %797 = stablehlo.divide %632, %796 : tensor<64x8xf32>
    %798 = stablehlo.convert %arg7 : (tensor<64x8xbf16>) -> tensor<64x8xf32>
    %cst_157 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %799 = stablehlo.broadcast_in_dim %cst_157, dims = [] : (tensor<f32>) -> tensor<64x8xf32>
    %800 = stablehlo.multiply %799, %798 : tensor<64x8xf32>
    %801 = stablehlo.add %797, %800 : tensor<64x8xf32>
    %cst_158 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %802 = stablehlo.broadcast_in_dim %cst_158, dims = [] : (tensor<f32>) -> tensor<64x8xf32>
    %803 = stablehlo.multiply %802, %801 : tensor<64x8xf32>
    %804 = stablehlo.convert %arg7 : (tensor<64x8xbf16>) -> tensor<64x8xf32>
    %805 = stablehlo.subtract %804, %803 : tensor<64x8xf32>
    %806 = stablehlo.convert %805 : (tensor<64x8xf32>) -> tensor<64x8xbf16>
    %807 = stablehlo.sqrt %696 : tensor<8x64x96xf32>
    %cst_159 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %808 = stablehlo.broadcast_in_dim %cst_159, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %809 = stablehlo.add %807, %808 : tensor<8x64x96xf32>
    %810 = stablehlo.divide %637, %809 : tensor<8x64x96xf32>
    %811 = stablehlo.convert %arg8 : (tensor<8x64x96xbf16>) -> tensor<8x64x96xf32>
    %cst_160 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %812 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %813 = stablehlo.multiply %812, %811 : tensor<8x64x96xf32>
    %814 = stablehlo.add %810, %813 : tensor<8x64x96xf32>
    %cst_161 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %815 = stablehlo.broadcast_in_dim %cst_161, dims = [] : (tensor<f32>) -> tensor<8x64x96xf32>
    %816 = stablehlo.multiply %815, %814 : tensor<8x64x96xf32>
    %817 = stablehlo.convert %arg8 : (tensor<8x64x96xbf16>) -> tensor<8x64x96xf32>
    %818 = stablehlo.subtract %817, %816 : tensor<8x64x96xf32>
    %819 = stablehlo.convert %818 : (tensor<8x64x96xf32>) -> tensor<8x64x96xbf16>
    %820 = stablehlo.sqrt %702 : tensor<64x2x16xf32>
    %cst_162 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %821 = stablehlo.broadcast_in_dim %cst_162, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %822 = stablehlo.add %820, %821 : tensor<64x2x16xf32>
    %823 = stablehlo.divide %642, %822 : tensor<64x2x16xf32>
    %824 = stablehlo.convert %arg9 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %cst_163 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %825 = stablehlo.broadcast_in_dim %cst_163, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %826 = stablehlo.multiply %825, %824 : tensor<64x2x16xf32>
    %827 = stablehlo.add %823, %826 : tensor<64x2x16xf32>
    %cst_164 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %828 = stablehlo.broadcast_in_dim %cst_164, dims = [] : (tensor<f32>) -> tensor<64x2x16xf32>
    %829 = stablehlo.multiply %828, %827 : tensor<64x2x16xf32>
    %830 = stablehlo.convert %arg9 : (tensor<64x2x16xbf16>) -> tensor<64x2x16xf32>
    %831 = stablehlo.subtract %830, %829 : tensor<64x2x16xf32>
    %832 = stablehlo.convert %831 : (tensor<64x2x16xf32>) -> tensor<64x2x16xbf16>
    return %269, %582, %715, %728, %741, %754, %767, %780, %793, %806, %819, %832, %597, %602, %607, %612, %617, %622, %627, %632, %637, %642, %648, %654, %660, %666, %672, %678, %684, %690, %696, %702 : tensor<f32>, tensor<1x32x64xbf16>, tensor<8x96x64xbf16>, tensor<8x64x96xbf16>, tensor<64x2x16xbf16>, tensor<64xbf16>, tensor<64xbf16>, tensor<4x16x64xbf16>, tensor<64x4x16xbf16>, tensor<64x8xbf16>, tensor<8x64x96xbf16>, tensor<64x2x16xbf16>, tensor<8x96x64xf32>, tensor<8x64x96xf32>, tensor<64x2x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64x4x16xf32>, tensor<64x8xf32>, tensor<8x64x96xf32>, tensor<64x2x16xf32>, tensor<8x96x64xf32>, tensor<8x64x96xf32>, tensor<64x2x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<4x16x64xf32>, tensor<64x4x16xf32>, tensor<64x8xf32>, tensor<8x64x96xf32>, tensor<64x2x16xf32>
  }
  func.func private @_where(%arg0: tensor<32x32xi1>, %arg1: tensor<1x4x32x32xf32>, %arg2: tensor<f32>) -> (tensor<1x4x32x32xf32>, tensor<1x4x32x32xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<1x4x32x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x4x32x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x4x32x32xi1>, tensor<1x4x32x32xf32>
    return %3, %1 : tensor<1x4x32x32xf32>, tensor<1x4x32x32xi1>
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
  func.func private @silu(%arg0: tensor<64x96xbf16>) -> (tensor<64x96xbf16>, tensor<64x96xbf16>, tensor<64x96xbf16>) {
    %0 = stablehlo.negate %arg0 : tensor<64x96xbf16>
    %1 = stablehlo.exponential %0 : tensor<64x96xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<64x96xbf16>
    %3 = stablehlo.add %2, %1 : tensor<64x96xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<64x96xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<64x96xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<64x96xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<64x96xbf16>
    %8 = stablehlo.multiply %5, %7 : tensor<64x96xbf16>
    %9 = stablehlo.multiply %arg0, %5 : tensor<64x96xbf16>
    return %9, %8, %5 : tensor<64x96xbf16>, tensor<64x96xbf16>, tensor<64x96xbf16>
  }
  func.func private @silu_1(%arg0: tensor<64x96xbf16>, %arg1: tensor<64x96xbf16>, %arg2: tensor<64x96xbf16>, %arg3: tensor<64x96xbf16>) -> tensor<64x96xbf16> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<64x96xbf16>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<64x96xbf16>
    %2 = stablehlo.multiply %0, %arg0 : tensor<64x96xbf16>
    %3 = stablehlo.add %1, %2 : tensor<64x96xbf16>
    return %3 : tensor<64x96xbf16>
  }
  func.func private @_where_2(%arg0: tensor<1x4x32x32xi1>, %arg1: tensor<1x4x32x32xf32>) -> tensor<1x4x32x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x4x32x32xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<1x4x32x32xi1>, tensor<1x4x32x32xf32>
    return %1 : tensor<1x4x32x32xf32>
  }
}
