// JAX: gradients of three layers over 8-way data parallelism, of weights and biases. Without the pass the predicted step takes 113 us, with it
// 107 us.
// GAIN: step 1.03

module @jit_data_parallel_gradients attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=8]> {stablehlo.mesh = {axes = [{name = "dp", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<1024x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg1: tensor<1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg2: tensor<1024x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg3: tensor<1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg4: tensor<1024x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg5: tensor<1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %arg6: tensor<16384x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<1024x1024xbf16> {jax.result_info = "result[0][0]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<1024xbf16> {jax.result_info = "result[0][1]", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<1024x1024xbf16> {jax.result_info = "result[1][0]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<1024xbf16> {jax.result_info = "result[1][1]", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<1024x1024xbf16> {jax.result_info = "result[2][0]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<1024xbf16> {jax.result_info = "result[2][1]", sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.dot_general %arg6, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16384x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<16384x1024xbf16>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<1024xbf16>) -> tensor<1x1024xbf16>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x1024xbf16>) -> tensor<16384x1024xbf16>
    %3 = stablehlo.add %0, %2 : tensor<16384x1024xbf16>
    %4 = sdy.sharding_constraint %3 <@mesh, [{"dp"}, {}]> : tensor<16384x1024xbf16>
    %5 = stablehlo.tanh %4 : tensor<16384x1024xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<16384x1024xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<16384x1024xbf16>
    %8 = stablehlo.dot_general %5, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16384x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<16384x1024xbf16>
    %9 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<1024xbf16>) -> tensor<1x1024xbf16>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x1024xbf16>) -> tensor<16384x1024xbf16>
    %11 = stablehlo.add %8, %10 : tensor<16384x1024xbf16>
    %12 = sdy.sharding_constraint %11 <@mesh, [{"dp"}, {}]> : tensor<16384x1024xbf16>
    %13 = stablehlo.tanh %12 : tensor<16384x1024xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %14 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<16384x1024xbf16>
    %15 = stablehlo.subtract %14, %13 : tensor<16384x1024xbf16>
    %16 = stablehlo.dot_general %13, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16384x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<16384x1024xbf16>
    %17 = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<1024xbf16>) -> tensor<1x1024xbf16>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<1x1024xbf16>) -> tensor<16384x1024xbf16>
    %19 = stablehlo.add %16, %18 : tensor<16384x1024xbf16>
    %20 = sdy.sharding_constraint %19 <@mesh, [{"dp"}, {}]> : tensor<16384x1024xbf16>
    %21 = stablehlo.tanh %20 : tensor<16384x1024xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %22 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<16384x1024xbf16>
    %23 = stablehlo.subtract %22, %21 : tensor<16384x1024xbf16>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<bf16>
    %24 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<bf16>) -> tensor<16384x1024xbf16>
    %25 = stablehlo.multiply %24, %21 : tensor<16384x1024xbf16>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %26 = stablehlo.convert %cst_3 : (tensor<bf16>) -> tensor<f32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<f32>) -> tensor<16384x1024xf32>
    %28 = stablehlo.convert %27 : (tensor<16384x1024xf32>) -> tensor<16384x1024xbf16>
    %29 = stablehlo.multiply %28, %25 : tensor<16384x1024xbf16>
    %30 = stablehlo.multiply %29, %23 : tensor<16384x1024xbf16>
    %31 = stablehlo.multiply %30, %21 : tensor<16384x1024xbf16>
    %32 = stablehlo.add %30, %31 : tensor<16384x1024xbf16>
    %33 = sdy.sharding_constraint %32 <@mesh, [{"dp"}, {}]> : tensor<16384x1024xbf16>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %34 = stablehlo.reduce(%33 init: %cst_4) applies stablehlo.add across dimensions = [0] : (tensor<16384x1024xbf16>, tensor<bf16>) -> tensor<1024xbf16>
    %35 = stablehlo.reshape %34 : (tensor<1024xbf16>) -> tensor<1x1024xbf16>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %36 = stablehlo.reduce(%35 init: %cst_5) applies stablehlo.add across dimensions = [0] : (tensor<1x1024xbf16>, tensor<bf16>) -> tensor<1024xbf16>
    %37 = stablehlo.dot_general %33, %13, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16384x1024xbf16>, tensor<16384x1024xbf16>) -> tensor<1024x1024xbf16>
    %38 = stablehlo.transpose %37, dims = [1, 0] : (tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
    %39 = stablehlo.dot_general %33, %arg4, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16384x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<16384x1024xbf16>
    %40 = stablehlo.multiply %39, %15 : tensor<16384x1024xbf16>
    %41 = stablehlo.multiply %40, %13 : tensor<16384x1024xbf16>
    %42 = stablehlo.add %40, %41 : tensor<16384x1024xbf16>
    %43 = sdy.sharding_constraint %42 <@mesh, [{"dp"}, {}]> : tensor<16384x1024xbf16>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %44 = stablehlo.reduce(%43 init: %cst_6) applies stablehlo.add across dimensions = [0] : (tensor<16384x1024xbf16>, tensor<bf16>) -> tensor<1024xbf16>
    %45 = stablehlo.reshape %44 : (tensor<1024xbf16>) -> tensor<1x1024xbf16>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %46 = stablehlo.reduce(%45 init: %cst_7) applies stablehlo.add across dimensions = [0] : (tensor<1x1024xbf16>, tensor<bf16>) -> tensor<1024xbf16>
    %47 = stablehlo.dot_general %43, %5, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16384x1024xbf16>, tensor<16384x1024xbf16>) -> tensor<1024x1024xbf16>
    %48 = stablehlo.transpose %47, dims = [1, 0] : (tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
    %49 = stablehlo.dot_general %43, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16384x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<16384x1024xbf16>
    %50 = stablehlo.multiply %49, %7 : tensor<16384x1024xbf16>
    %51 = stablehlo.multiply %50, %5 : tensor<16384x1024xbf16>
    %52 = stablehlo.add %50, %51 : tensor<16384x1024xbf16>
    %53 = sdy.sharding_constraint %52 <@mesh, [{"dp"}, {}]> : tensor<16384x1024xbf16>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %54 = stablehlo.reduce(%53 init: %cst_8) applies stablehlo.add across dimensions = [0] : (tensor<16384x1024xbf16>, tensor<bf16>) -> tensor<1024xbf16>
    %55 = stablehlo.reshape %54 : (tensor<1024xbf16>) -> tensor<1x1024xbf16>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %56 = stablehlo.reduce(%55 init: %cst_9) applies stablehlo.add across dimensions = [0] : (tensor<1x1024xbf16>, tensor<bf16>) -> tensor<1024xbf16>
    %57 = stablehlo.dot_general %53, %arg6, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16384x1024xbf16>, tensor<16384x1024xbf16>) -> tensor<1024x1024xbf16>
    %58 = stablehlo.transpose %57, dims = [1, 0] : (tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
    return %58, %56, %48, %46, %38, %36 : tensor<1024x1024xbf16>, tensor<1024xbf16>, tensor<1024x1024xbf16>, tensor<1024xbf16>, tensor<1024x1024xbf16>, tensor<1024xbf16>
  }
}
