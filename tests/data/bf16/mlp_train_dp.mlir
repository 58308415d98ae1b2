module @jit__lambda attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=8]> {stablehlo.mesh = {axes = [{name = "dp", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg1: tensor<64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg2: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg3: tensor<128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg4: tensor<128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}, %arg5: tensor<128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<bf16> {jax.result_info = "result[0]", sdy.sharding = #sdy.sharding<@mesh, []>}, tensor<128xbf16> {jax.result_info = "result[1]['b1']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<64xbf16> {jax.result_info = "result[1]['b2']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<64x128xbf16> {jax.result_info = "result[1]['w1']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<128x64xbf16> {jax.result_info = "result[1]['w2']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %0 = stablehlo.dot_general %arg4, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x64xbf16>, tensor<64x128xbf16>) -> tensor<128x128xbf16>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<128xbf16>) -> tensor<1x128xbf16>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x128xbf16>) -> tensor<128x128xbf16>
    %3 = stablehlo.add %0, %2 : tensor<128x128xbf16>
    %4 = stablehlo.multiply %3, %3 : tensor<128x128xbf16>
    %5 = stablehlo.multiply %4, %3 : tensor<128x128xbf16>
    %6 = stablehlo.multiply %3, %3 : tensor<128x128xbf16>
    %cst = stablehlo.constant dense<3.000000e+00> : tensor<bf16>
    %7 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<128x128xbf16>
    %8 = stablehlo.multiply %7, %6 : tensor<128x128xbf16>
    %cst_0 = stablehlo.constant dense<4.471500e-02> : tensor<bf16>
    %9 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<128x128xbf16>
    %10 = stablehlo.multiply %9, %5 : tensor<128x128xbf16>
    %11 = stablehlo.add %3, %10 : tensor<128x128xbf16>
    %cst_1 = stablehlo.constant dense<0.797884583> : tensor<bf16>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<128x128xbf16>
    %13 = stablehlo.multiply %12, %11 : tensor<128x128xbf16>
    %14 = stablehlo.tanh %13 : tensor<128x128xbf16>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<bf16>) -> tensor<128x128xbf16>
    %16 = stablehlo.subtract %15, %14 : tensor<128x128xbf16>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %17 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<bf16>) -> tensor<128x128xbf16>
    %18 = stablehlo.add %17, %14 : tensor<128x128xbf16>
    %cst_4 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %19 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<bf16>) -> tensor<128x128xbf16>
    %20 = stablehlo.multiply %19, %18 : tensor<128x128xbf16>
    %21 = stablehlo.multiply %3, %20 : tensor<128x128xbf16>
    %22 = stablehlo.dot_general %21, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x128xbf16>, tensor<128x64xbf16>) -> tensor<128x64xbf16>
    %23 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<64xbf16>) -> tensor<1x64xbf16>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1] : (tensor<1x64xbf16>) -> tensor<128x64xbf16>
    %25 = stablehlo.add %22, %24 : tensor<128x64xbf16>
    %26 = stablehlo.subtract %25, %arg5 : tensor<128x64xbf16>
    %27 = stablehlo.multiply %26, %26 : tensor<128x64xbf16>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<bf16>
    %28 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<bf16>) -> tensor<128x64xbf16>
    %29 = stablehlo.multiply %28, %26 : tensor<128x64xbf16>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %30 = stablehlo.reduce(%27 init: %cst_6) applies stablehlo.add across dimensions = [0, 1] : (tensor<128x64xbf16>, tensor<bf16>) -> tensor<bf16>
    %cst_7 = stablehlo.constant dense<8.192000e+03> : tensor<bf16>
    %31 = stablehlo.divide %30, %cst_7 : tensor<bf16>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %cst_9 = stablehlo.constant dense<8.192000e+03> : tensor<bf16>
    %32 = stablehlo.divide %cst_8, %cst_9 : tensor<bf16>
    %33 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<bf16>) -> tensor<128x64xbf16>
    %34 = stablehlo.multiply %33, %29 : tensor<128x64xbf16>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %35 = stablehlo.reduce(%34 init: %cst_10) applies stablehlo.add across dimensions = [0] : (tensor<128x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %36 = stablehlo.reshape %35 : (tensor<64xbf16>) -> tensor<1x64xbf16>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %37 = stablehlo.reduce(%36 init: %cst_11) applies stablehlo.add across dimensions = [0] : (tensor<1x64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    %38 = stablehlo.dot_general %34, %21, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x64xbf16>, tensor<128x128xbf16>) -> tensor<64x128xbf16>
    %39 = stablehlo.transpose %38, dims = [1, 0] : (tensor<64x128xbf16>) -> tensor<128x64xbf16>
    %40 = stablehlo.dot_general %34, %arg3, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<128x64xbf16>, tensor<128x64xbf16>) -> tensor<128x128xbf16>
    %41 = stablehlo.multiply %3, %40 : tensor<128x128xbf16>
    %42 = stablehlo.multiply %40, %20 : tensor<128x128xbf16>
    %cst_12 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %43 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<bf16>) -> tensor<128x128xbf16>
    %44 = stablehlo.multiply %43, %41 : tensor<128x128xbf16>
    %45 = stablehlo.multiply %44, %16 : tensor<128x128xbf16>
    %46 = stablehlo.multiply %45, %14 : tensor<128x128xbf16>
    %47 = stablehlo.add %45, %46 : tensor<128x128xbf16>
    %cst_13 = stablehlo.constant dense<0.797884583> : tensor<bf16>
    %48 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<bf16>) -> tensor<128x128xbf16>
    %49 = stablehlo.multiply %48, %47 : tensor<128x128xbf16>
    %50 = stablehlo.add %42, %49 : tensor<128x128xbf16>
    %cst_14 = stablehlo.constant dense<4.471500e-02> : tensor<bf16>
    %51 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<128x128xbf16>
    %52 = stablehlo.multiply %51, %49 : tensor<128x128xbf16>
    %53 = stablehlo.multiply %52, %8 : tensor<128x128xbf16>
    %54 = stablehlo.add %50, %53 : tensor<128x128xbf16>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %55 = stablehlo.reduce(%54 init: %cst_15) applies stablehlo.add across dimensions = [0] : (tensor<128x128xbf16>, tensor<bf16>) -> tensor<128xbf16>
    %56 = stablehlo.reshape %55 : (tensor<128xbf16>) -> tensor<1x128xbf16>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %57 = stablehlo.reduce(%56 init: %cst_16) applies stablehlo.add across dimensions = [0] : (tensor<1x128xbf16>, tensor<bf16>) -> tensor<128xbf16>
    %58 = stablehlo.dot_general %54, %arg4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x128xbf16>, tensor<128x64xbf16>) -> tensor<128x64xbf16>
    %59 = stablehlo.transpose %58, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %cst_17 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %60 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<bf16>) -> tensor<128xbf16>
    %61 = stablehlo.multiply %60, %57 : tensor<128xbf16>
    %62 = stablehlo.subtract %arg0, %61 : tensor<128xbf16>
    %cst_18 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %63 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<bf16>) -> tensor<64xbf16>
    %64 = stablehlo.multiply %63, %37 : tensor<64xbf16>
    %65 = stablehlo.subtract %arg1, %64 : tensor<64xbf16>
    %cst_19 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %66 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<bf16>) -> tensor<64x128xbf16>
    %67 = stablehlo.multiply %66, %59 : tensor<64x128xbf16>
    %68 = stablehlo.subtract %arg2, %67 : tensor<64x128xbf16>
    %cst_20 = stablehlo.constant dense<0.00999999977> : tensor<bf16>
    %69 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<bf16>) -> tensor<128x64xbf16>
    %70 = stablehlo.multiply %69, %39 : tensor<128x64xbf16>
    %71 = stablehlo.subtract %arg3, %70 : tensor<128x64xbf16>
    return %31, %62, %65, %68, %71 : tensor<bf16>, tensor<128xbf16>, tensor<64xbf16>, tensor<64x128xbf16>, tensor<128x64xbf16>
  }
}
